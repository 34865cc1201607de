#!/bin/sh
# Builds the audit's fixtures again and records what cuobjdump lists in them. Needs nvcc 13.0 and cuobjdump in PATH.
# The files are committed: another toolkit gives other bytes, and the golden results with it.
# shellcheck disable=SC2046 # the flags are meant to be split
set -e
cd "$(dirname "$0")"
g() { for t in "$@"; do case $t in
  *p) printf ' -gencode arch=compute_%s,code=compute_%s' "${t%p}" "${t%p}" ;;
  *l) printf ' -gencode arch=compute_%s,code=lto_%s' "${t%l}" "${t%l}" ;;
  *) printf ' -gencode arch=compute_%s,code=sm_%s' "$t" "$t" ;; esac; done; }
# machine code for several targets and PTX to fall back on
nvcc -O2 -c $(g 80 90a 100a 120f 80p) fixture.cu -o full.o
nvcc -O2 -shared -Xcompiler -fPIC -cudart none -Xlinker -s $(g 80 90a 100a 120f 80p) fixture.cu -o full.so
# the case of the brief: Hopper and datacenter Blackwell only, no PTX
nvcc -O2 -shared -Xcompiler -fPIC -cudart none -Xlinker -s $(g 90a 100a) fixture.cu -o hopper_ops.abi3.so
ar rcs full.a full.o
# packings
nvcc -cubin -arch=sm_80 fixture.cu -o part_80.cubin
nvcc -cubin -arch=sm_120a fixture.cu -o part_120a.cubin
nvcc -ptx -arch=compute_80 fixture.cu -o part_80.ptx
for mode in speed size; do
  fatbinary --create=$mode.fatbin --compress-mode=$mode --compress-all --image3=kind=ptx,sm=80,file=part_80.ptx \
    --image3=kind=elf,sm=80,file=part_80.cubin --image3=kind=elf,sm=120a,file=part_120a.cubin
done
mv speed.fatbin lz4.fatbin
mv size.fatbin zstd.fatbin
rm -f part_*
nvcc -fatbin --compress-mode=none $(g 90a 90p 120p) fixture.cu -o plain.fatbin
# relocatable, with LTO IR
nvcc -c -rdc=true $(g 80 80p 80l) fixture.cu -o relocatable.o
nvcc -cubin -arch=sm_90a fixture.cu -o sm_90a.cubin
nvcc -cubin -arch=sm_120a fixture.cu -o sm_120a.cubin
nvcc -cubin -arch=sm_86 fixture.cu -o sm_86.cubin
nvcc -ptx -arch=sm_90a fixture.cu -o sm_90a.ptx
# one fatbin a kernel, in plain data: PTX for all, machine code for one GPU each
for t in 75 80 120; do
  case $t in 75) kind=ptx gpu=0 ;; *) kind=elf gpu=$t ;; esac
  nvcc $([ $kind = ptx ] && echo -ptx -arch=compute_75 || echo -cubin -arch=sm_$t) -DGPU=$gpu tuned.cu -o tuned_$t.part
  fatbinary --create=tuned_$t.fatbin --image3=kind=$kind,sm=$t,file=tuned_$t.part
  printf '.section .ldata, "aw"\n.balign 8\n.incbin "tuned_%s.fatbin"\n' $t
done >tuned.s
gcc -shared -nostdlib -s -Wl,--build-id=none,-z,noseparate-code tuned.s -o tuned.so
rm -f tuned.s tuned_*
rm -f a_dlink* ./*.gpu
rm -f two.whl && python3 - <<'P'
import zipfile
with zipfile.ZipFile('two.whl', 'w', zipfile.ZIP_DEFLATED) as z:
    for name, path in (('pkg/hopper_ops.abi3.so', 'hopper_ops.abi3.so'), ('pkg/plain.fatbin', 'plain.fatbin')):
        z.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), open(path, 'rb').read(), zipfile.ZIP_DEFLATED)
    z.writestr(zipfile.ZipInfo('pkg/notes.txt', (2026, 1, 1, 0, 0, 0)), 'nothing here\n', zipfile.ZIP_DEFLATED)
P
for f in full.o full.so full.a hopper_ops.abi3.so lz4.fatbin zstd.fatbin plain.fatbin relocatable.o sm_90a.cubin sm_120a.cubin sm_86.cubin; do
  cuobjdump --list-elf --list-ptx "$f" 2>/dev/null | grep ' file ' >"$f.list"
done
