# bash completion for kvsim and roofline: sub-commands and options are asked of the programs themselves.
_kvroof() {
  local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command="" words=""
  [[ ${COMP_WORDS[1]} == [a-z]* && $COMP_CWORD -gt 1 ]] && command=${COMP_WORDS[1]}
  [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD - 2]}
  if [[ $before == --gpu || $before == -g || ($program == *roofline && $command == list && $current != -*) ]]; then
    words=$(roofline list 2>/dev/null | awk '$2 ~ /^sm_/ {print $1}')
  elif [[ $before == --rows ]]; then
    words="bf16 fp8 fp8-656"
  elif [[ $current == -* ]]; then
    words=$("$program" ${command:+"$command"} --help 2>/dev/null | grep -oE -- '--[a-z0-9-]+' | sort -u)
  elif [[ $COMP_CWORD == 1 ]]; then
    words=$("$program" --help 2>/dev/null | sed -nE 's/^  ((kvsim|roofline) )?([a-z]{3,})  .*/\3/p')
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
  [[ ${#COMPREPLY[@]} -gt 0 ]] || mapfile -t COMPREPLY < <(compgen -f -- "$current")
}
complete -o filenames -F _kvroof kvsim roofline
