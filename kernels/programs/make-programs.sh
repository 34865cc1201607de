#!/bin/sh
# Writes models/kernels/*.ini for this project's kernels from their machine code and the hints beside this script:
#     make programs [NVDISASM=...]        roofline, nvcc and nvdisasm are needed; CUDA_ARCHS' first is the GPU
# A kernel whose loads or barriers changed gets an error that names them: correct the hints (models/time_walk.h).
set -eu
roofline=$1 nvcc=$2 nvdisasm=$3 arch=$4 out=$5
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
compiler=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\), V.*/nvcc \1/p')

listing() { # NAME: machine code with its source lines, and the compiler's resource report
  "$nvcc" -std=c++17 -O3 -lineinfo -gencode "arch=compute_$arch,code=sm_$arch" -Xptxas -v -cubin -Itraces -Imodels -Ikernels \
    "$PWD/kernels/$1.cu" -o "$work/$1.cubin" 2>"$work/$1.ptxas"
  "$nvdisasm" -c -gi -hex "$work/$1.cubin" >"$work/$1.sass"
}

registers() { # NAME FUNCTION
  awk -v f="$2" '/Compiling entry/ { on = index($0, f) } on && /Used/ { sub(/.*Used /, ""); print $1 + 0; exit }' "$work/$1.ptxas"
}

program() { # NAME FUNCTION KEY SUBSTITUTIONS [HINTS [MORE]]: models/kernels/KEY.ini; MORE: a file to go behind the hints
  hints=${5:-$1}.hints
  sed -e "s/@ARCH@/$arch/g; s/@COMPILER@/$compiler/g; s/@REGISTERS@/$(registers "$1" "$2")/g; $4" "$here/$hints" >"$work/hints.ini"
  if [ -n "${6:-}" ]; then cat "$6" >>"$work/hints.ini"; fi
  { echo "; Written by \`make programs\`: kernels/programs/$hints says how to read it, models/time_program.h what the words mean."
    "$roofline" program --hints "$work/hints.ini" "$work/$1.sass"; } >"$work/out.ini"
  mv "$work/out.ini" "$out/$3.ini"
  echo "$out/$3.ini"
}

smem() { # HALVES UNITS: bytes of shared memory of a split kernel's block
  "$work/smem" "$1" "$2"
}

printf '%s\n' '#include <stdio.h>' '#include <stdlib.h>' '#include "attn_shape.h"' \
  'int main(int n, char **v) { unsigned u = n < 3 ? 0 : (unsigned)atoi(v[2]);' \
  '  return printf("%u\n", u && v[1][0] == 50 ? KVK_WIDE_SMEM(u) : KVK_SPLIT_SMEM(u)) < 0; }' >"$work/smem.c"
cc -Itraces -Imodels -Ikernels "$work/smem.c" -o "$work/smem"
listing extend_serial
for tile in 32 64; do
  program extend_serial "ex_kernelILi${tile}E" "extend_serial_32x$tile" \
    "s/@TILE@/$tile/g; s/@SHARED@/$((32 * 1152 + tile * 1024 + 32 * tile * 2 + 9 * 32 * 4))/"
done

# as sv_start_merge() has it; 16 warps a block
merge() { # TEAMS AT_ONCE BLOCKS ROOM
  drop=
  if [ "$1" = 1 ]; then drop='/^;rest/,/^;end/d'; fi
  sed -e "s/@TEAMS@/$1/g; s/@ATONCE@/$2/g; s/@BLOCKS@/$3/g; s/@ROOM@/$4/; s/@WARPS@/$((16 / $1))/; s/@REST@/$((16 - 16 / $1))/
    s/@REGISTERS@/$(registers split_verify "sv_merge_kernelILi${1}ELi${2}ELi${3}ELb1E")/; s/@SHARED@/$((512 * 32 + 64 * $1))/
    $drop" "$here/merge.hints"
}

# halves: tiles of 16 keys, or of 32 where a block has the shared memory; units of 8 query rows; score warps 1 to 3 that have a
# whole unit of their own, and that have none
split() { # NAME DESCRIPTION HALVES UNITS OWNERS OTHERS
  drop=
  if [ "$5" = 0 ]; then drop="$drop;/^;owners/,/^;end/d"; fi
  if [ "$6" = 0 ]; then drop="$drop;/^;others/,/^;end/d"; fi
  stages=$((3 + $3 * ($3 == 2) + ($3 == 1)))
  key=$1_$4
  free=2/4-8
  case $3$4 in 21 | 22 | 23) free=$free,0/4 ;; esac
  if [ "$3" = 1 ]; then key=$1_16_$4; fi
  program split_verify "sv_kernelILi${4}ELi${3}ELi0ELb1E" "$key" "s/@NAME@/$1/g; s/@DESCRIPTION@/$2/; s/@UNITS@/$4/g; s/@HALVES@/$3/g
    s/@KEYS@/$((16 * $3))/g; s/@STAGES@/$stages/; s/@BEFORE@/$((2 * $3 - 1))/; s/@AFTER@/$((3 - $3))/; s/@LEAST@/$((4 / $3))/; s#@FREE@#$free#
    s/@OWNERS@/$5/; s/@OTHERS@/$6/; s/@TURNS@/$((($4 + 1) / 2))/; s/@SHARED@/$(smem "$3" "$4")/$drop" split "$work/merges"
}
listing split_verify
{ merge 8 9 1 125; merge 4 9 1 125; merge 2 9 1 125; merge 1 9 1 125; merge 1 4 2 0; } >"$work/merges"
while read -r units owners others; do
  for halves in 2 1; do
    split split_verify "the prefix split over the GPU, rows shared by all queries and heads of a block" "$halves" "$units" "$owners" "$others"
    split split_per_head "the prefix split over the GPU, but every head reads each row again" "$halves" "$units" "$owners" "$others"
  done
done <<EOF
1 0 3
2 1 2
3 2 1
5 3 0
6 3 0
EOF

# Each is walked once: what waits where nobody posts is an error here and not at the user's. 8 rows a unit, of heads or of queries.
for unit in 1 2 3 5 6; do
  for gpu in h200 sm_120; do
    for shape in "--queries 1 --heads $((8 * unit))" "--queries $((unit > 4 ? 4 * unit : 8 * unit)) --heads $((unit > 4 ? 2 : 1))"; do
      # shellcheck disable=SC2086
      "$roofline" --gpu $gpu $shape --prefix 4096 --no-report -q -o "$work/walk.h5" ||
        { echo "make-programs.sh: a program written above cannot be walked: correct the hints beside this script" >&2; exit 1; }
    done
  done
done
