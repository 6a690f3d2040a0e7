# Sourced in the shell after each command, and when it exits: what is kept goes into the file that FD 199 is told about.
# $1: the exit status; $2: the file; $3: the command's number, "exit" when the shell ends. No process is started: there may be none to be had.
{
  builtin printf 'directory %s\0' "$PWD"
  builtin compgen -v >|"$2.names"
  builtin mapfile -t __ao_names <"$2.names"
  for __ao_name in "${__ao_names[@]}"; do
    builtin printf 'variable %s\n' "$__ao_name"
    builtin declare -p "$__ao_name"
    builtin printf '\0'
  done
  builtin declare -F >|"$2.names"
  builtin mapfile -t __ao_names <"$2.names"
  for __ao_name in "${__ao_names[@]}"; do
    builtin printf 'function %s\n' "${__ao_name##* }"
    builtin declare -f "${__ao_name##* }"
    case $__ao_name in "declare -f "*) ;; *) builtin printf '%s\n' "$__ao_name" ;; esac  # exported, traced
    builtin printf '\0'
  done
  builtin printf 'options '
  builtin set +o
  builtin shopt -p
  builtin printf '\0umask '
  builtin umask -p
  builtin printf '\0aliases '
  builtin alias -p
  builtin printf '\0jobs '
  builtin jobs -l
  builtin printf '\0status %s\0' "$1"
} >|"$2" 2>/dev/null
builtin set +e
builtin unset -v __ao_names __ao_name
[ "$3" = exit ] || builtin printf 'done %s %s\n' "$1" "$3" >&199
