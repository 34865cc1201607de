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

program() { # NAME FUNCTION KEY SUBSTITUTIONS: models/kernels/KEY.ini
  sed -e "s/@ARCH@/$arch/g; s/@COMPILER@/$compiler/g; s/@REGISTERS@/$(registers "$1" "$2")/g; $4" "$here/$1.hints" >"$work/hints.ini"
  { echo "; Written by \`make programs\`: kernels/programs/$1.hints says how to read it, models/time_program.h what the words mean."
    "$roofline" program --hints "$work/hints.ini" "$work/$1.sass"; } >"$work/out.ini"
  mv "$work/out.ini" "$out/$3.ini"
  echo "$out/$3.ini"
}

smem() { # as KVK_SPLIT_SMEM() of attn_shape.h has it
  echo $((4 * 16 * (1152 + 16) + 3680 * $1 + 176))
}

listing extend_serial
for tile in 32 64; do
  program extend_serial "ex_kernelILi${tile}E" "extend_serial_32x$tile" \
    "s/@TILE@/$tile/g; s/@SHARED@/$((32 * 1152 + tile * 1024 + 32 * tile * 2 + 9 * 32 * 4))/"
done
