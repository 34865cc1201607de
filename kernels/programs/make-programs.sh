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

smem() { # bytes of shared memory of a split kernel's block, by its number of units
  "$work/smem" "$1"
}

printf '%s\n' '#include <stdio.h>' '#include <stdlib.h>' '#include "attn_shape.h"' \
  'int main(int n, char **v) { return n < 2 || printf("%u\n", KVK_SPLIT_SMEM((unsigned)atoi(v[1]))) < 0; }' >"$work/smem.c"
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
    s/@REGISTERS@/$(registers split_verify "sv_merge_kernelILi${1}ELi${2}ELi${3}E")/; s/@SHARED@/$((512 * 32 + 64 * $1))/
    $drop" "$here/merge.hints"
}

# units of 8 query rows; score warps 1 to 3 that own as many units as warp 0, and that own one less
split() { # NAME DESCRIPTION UNITS OWNERS OTHERS
  drop=
  if [ "$4" = 0 ]; then drop="$drop;/^;owners/,/^;end/d"; fi
  if [ "$5" = 0 ]; then drop="$drop;/^;others/,/^;end/d"; fi
  clash=1
  while [ "$clash" -lt 8 ] && [ $(($3 % (2 * clash))) = 0 ]; do clash=$((2 * clash)); done
  clashes=1 # the first of a tile in the order of the machine code: a row's, three of weights, the other rows'
  if [ "$3" = 6 ]; then clashes=1,2,2,2,1,1,1,1,1,1,1; fi
  program split_verify "sv_kernelILi${3}ELi0E" "$1_$3" "s/@NAME@/$1/g; s/@DESCRIPTION@/$2/; s/@UNITS@/$3/g; s/@CLASH@/$clash/; s/@CLASHES@/$clashes/
    s/@OWNERS@/$4/; s/@OTHERS@/$5/; s/@TURNS@/$((($3 + 1) / 2))/; s/@SHARED@/$(smem "$3")/$drop" split "$work/merges"
}
listing split_verify
{ merge 8 9 1 125; merge 4 9 1 125; merge 2 9 1 125; merge 1 9 1 125; merge 1 4 2 0; } >"$work/merges"
while read -r units owners others; do
  split split_verify "the prefix split over the GPU, rows shared by all queries and heads of a block" "$units" "$owners" "$others"
  split split_per_head "the prefix split over the GPU, but every head reads each row again" "$units" "$owners" "$others"
done <<EOF
1 0 3
2 1 2
3 2 1
5 0 3
6 1 2
EOF
