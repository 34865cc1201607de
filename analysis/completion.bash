# bash completion for kvsim and roofline: sub-commands and options are asked of the programs themselves.
_kvroof() {
  local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} words
  if [[ $current == -* ]]; then
    words=$("$program" "${COMP_WORDS[1]}" --help 2>/dev/null | grep -oE -- '--[a-z0-9-]+' | sort -u)
  elif [[ $COMP_CWORD == 1 ]]; then
    words=$("$program" --help 2>/dev/null | sed -n 's/^  \([a-z]\{3,\}\)  .*/\1/p')
  elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == --gpu ]]; then
    words=$(roofline list 2>/dev/null | awk 'NR > 1 && NF > 5 {print $1}')
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  [[ ${#COMPREPLY[@]} -gt 0 ]] || mapfile -t COMPREPLY < <(compgen -f -- "$current")
}
complete -o filenames -F _kvroof kvsim roofline
