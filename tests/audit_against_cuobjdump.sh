#!/bin/sh
# Compares `roofline audit --list` with `cuobjdump --list-elf --list-ptx`, line by line, on libraries, cubins, folders
# and wheels. Needs cuobjdump in PATH (PyPI: nvidia-cuda-cuobjdump) and unzip for wheels.
#
#   tests/audit_against_cuobjdump.sh [-r RECORD] ROOFLINE FILE...
#
# One line a file that differs, then the sums; exit status 1 if any differs. -r appends, for every file that has entries
# and is the same, "NAME BYTES ENTRIES SHA256-OF-THE-LIST" to RECORD (tests/golden/audit/recorded.txt, which the unit
# tests check again wherever such a file is found). Libraries of the toolkit are best named by their usual path,
# /usr/local/cuda/lib64/libX.so.N.
set -u
record=
if [ "${1:-}" = -r ]; then record=$2; shift 2; fi
roofline=${1:?usage: $0 [-r RECORD] ROOFLINE FILE...}
shift
command -v cuobjdump >/dev/null || { echo "$0: no cuobjdump in PATH" >&2; exit 5; }
work=$(mktemp -d) || exit 5
trap 'rm -rf "$work"' EXIT
same=0 differ=0 entries=0

# $1 file, $2 its name in the record
compare() {
  cuobjdump --list-elf --list-ptx "$1" 2>/dev/null | grep ' file ' >"$work/theirs"
  "$roofline" audit -q --list "$1" 2>/dev/null | grep ' file ' >"$work/ours"
  if cmp -s "$work/theirs" "$work/ours"; then
    same=$((same + 1))
    n=$(wc -l <"$work/theirs")
    entries=$((entries + n))
    [ -z "$record" ] || [ "$n" -eq 0 ] || echo "$2 $(wc -c <"$1") $n $(sha256sum <"$work/theirs" | cut -d' ' -f1)" >>"$record"
  else
    differ=$((differ + 1))
    echo "differs: $2: $(wc -l <"$work/theirs") lines of cuobjdump, $(wc -l <"$work/ours") of ours"
    diff "$work/theirs" "$work/ours" | head -4
  fi
}

# $1 folder, $2 how its files are called in the record
folder() {
  find "$1" -type f \( -name '*.so' -o -name '*.so.*' -o -name '*.a' -o -name '*.o' -o -name '*.cubin' -o -name '*.fatbin' \) |
    sort >"$work/files.$$"
  while IFS= read -r f; do compare "$f" "$2${f#"$1"/}"; done <"$work/files.$$"
}

for f in "$@"; do
  case $f in
    *.whl)
      rm -rf "$work/wheel" && mkdir "$work/wheel"
      unzip -q "$f" -d "$work/wheel"
      folder "$work/wheel" "${f##*/}!" ;;
    *) if [ -d "$f" ]; then folder "$f" "$f/"; else compare "$f" "$f"; fi ;;
  esac
done
echo "$same files the same ($entries entries), $differ differ; $(cuobjdump --version | sed -n 's/.*release \([^,]*\).*/cuobjdump \1/p')"
[ "$differ" -eq 0 ]
