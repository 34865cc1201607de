#!/bin/sh
# make lint: the rules that a compiler does not know. Prints each breach; exit status 1 if there is one.
#   rooms     one-way dependencies between the rooms, by their #include lines
#   names     file names unique across the tree (README.md and rules.mk apart)
#   length    host functions of at most 80 lines, kernels of at most 120 (needs ctags)
#   shell     shellcheck, where it is installed
#   cppcheck  warning, performance, portability, where it is installed
set -u
cd "$(dirname "$0")/.." || exit 2
bad=0
breach() { echo "lint: $*"; bad=1; }

files=$(git ls-files '*.c' '*.h' '*.cu' '*.cuh' 2>/dev/null) || files=$(find . -path ./build -prune -o \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) -print | sed 's,^\./,,')

room_of() { # the room that holds header $1
  for r in traces sim models kernels analysis notebooks-free-reports tests; do [ -e "$r/$1" ] && { echo "$r"; return; }; done
}
# What each room may include beside itself; kv_status.h is the floor that all stand on.
may_use() {
  case $1 in
    traces) echo "traces" ;;
    sim) echo "sim traces" ;;
    models) echo "models" ;;
    kernels) echo "kernels models" ;;
    analysis) echo "analysis traces sim models kernels" ;;
    notebooks-free-reports) echo "notebooks-free-reports" ;;
    *) echo "traces sim models kernels analysis notebooks-free-reports tests" ;;
  esac
}
for f in $files; do
  room=${f%%/*}
  case $f in
    sim/kvsim*.c | analysis/roofline*.c | analysis/roofline*.h | tests/*) continue ;; # the mains may use every room
  esac
  # shellcheck disable=SC2013 # header names hold no blanks
  for h in $(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$f"); do
    case $h in kv_status.h | kv_version.h) continue ;; esac
    # reports read datasets and leave nothing behind: the HDF5 helpers and kv_clean.h are all they need of traces
    case "$room $h" in "notebooks-free-reports kv_h5.h" | "notebooks-free-reports kv_guard.h" | "notebooks-free-reports kv_clean.h") continue ;; esac
    from=$(room_of "$h")
    [ -n "$from" ] || continue
    case " $(may_use "$room") " in *" $from "*) ;; *) breach "rooms: $f includes $h of $from" ;; esac
  done
done

dup=$(git ls-files | grep -vE '(^|/)(README\.md|rules\.mk|\.[^/]*)$' | grep -vE '^(tests/(golden|corpus)|models/(gpus|measured)|traces/samples)/' | sed 's,.*/,,' | sort | uniq -d)
for n in $dup; do breach "names: $n stands in more than one folder"; done

if command -v ctags >/dev/null 2>&1; then
  long=$(echo "$files" | ctags -L - --fields=+ne --kinds-C=f --kinds-C++=f --languages=C,C++,CUDA -f - 2>/dev/null |
    awk -F'\t' '{l=0;e=0;for(i=4;i<=NF;i++){if($i~/^line:/)l=substr($i,6);if($i~/^end:/)e=substr($i,5)} n=e-l+1; lim=($2~/\.cuh?$/)?120:80; if(n>lim)print $2":"l": "$1" has "n" lines"}')
  [ -z "$long" ] || { echo "$long" | sed 's/^/lint: length: /'; bad=1; }
else
  echo "lint: ctags not found: function lengths not checked (Debian: universal-ctags)"
fi

if command -v shellcheck >/dev/null 2>&1; then
  # shellcheck disable=SC2046
  shellcheck $(git ls-files '*.sh' .ci/run) || bad=1
else
  echo "lint: shellcheck not found: scripts not checked"
fi

if command -v cppcheck >/dev/null 2>&1; then
  # shellcheck disable=SC2046
  cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
    --suppress=missingIncludeSystem --suppress=unknownMacro -D__GNUC__ \
    $(for r in traces sim models kernels analysis notebooks-free-reports; do printf -- '-I%s ' "$r"; done) \
    $(echo "$files" | grep '\.c$' | grep -v '^tests/') || bad=1
else
  echo "lint: cppcheck not found: not run"
fi
[ $bad = 0 ] && echo "lint: no findings"
exit $bad
