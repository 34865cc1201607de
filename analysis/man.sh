#!/bin/sh
# man.sh BUILD - man pages of kvsim, roofline and each of their sub-commands into BUILD/man, from --help, so that they cannot
# disagree with it: kvsim.1, kvsim-replay.1, ... The sub-commands are those that --help lists.
set -eu
build=$1
export ARGP_HELP_FMT=rmargin=1000 # an example that --help breaks over two lines is one line here
mkdir -p "$build/man"
rm -f "$build"/man/*.1

# Examples stay line by line: help2man sets them as a paragraph.
as_typed() { # FILE
  awk '/^\.S[HS]/ { examples = /^\.SH EXAMPLES/ || /^\.SS "Examples?:"/ }
       typed && /^\./ { print ".fi"; typed = 0 }
       { print }
       examples && /^\.IP/ { print ".nf"; typed = 1 }
       END { if (typed) print ".fi" }' "$1" >"$1.typed"
  mv "$1.typed" "$1"
}

page() { # NAME SUMMARY HELP PROGRAM
  help2man --no-info --no-discard-stderr -n "$2" --help-option="$3" -o "$build/man/$1.1.part" "$build/$4"
  # help2man names a page by its program
  if [ "$1" != "$4" ]; then
    title=$(printf '%s' "$1" | tr '[:lower:]' '[:upper:]' | sed 's/-/\\\\-/g')
    sed -i -e "s/^\.TH [A-Z]* /.TH $title /" -e "/^\.SH NAME/{n;s/^$4 /$(printf '%s' "$1" | sed 's/-/\\\\-/g') /;}" "$build/man/$1.1.part"
  fi
  as_typed "$build/man/$1.1.part"
  mv "$build/man/$1.1.part" "$build/man/$1.1"
}

for program in kvsim roofline; do
  summary="replay KV-cache allocator traces"
  [ $program = kvsim ] || summary="hold attention kernels against the roofline"
  commands=$("$build/$program" --help | sed -nE "/^Commands/,/^\$/s/^  ($program )?([a-z]{3,})  +(.*)/\2 \3/p")
  { # the pages of the sub-commands are named at the end of the program's own
    printf '[SEE ALSO]\n'
    printf '%s\n' "$commands" | while read -r name rest; do printf '.BR %s\\-%s (1)\n' $program "$name"; done
  } >"$build/man/include.part"
  help2man --no-info --no-discard-stderr -n "$summary" -i "$build/man/include.part" -o "$build/man/$program.1" "$build/$program"
  rm "$build/man/include.part"
  as_typed "$build/man/$program.1"
  printf '%s\n' "$commands" | while read -r name rest; do page "$program-$name" "$rest" "$name --help" "$program"; done
done
