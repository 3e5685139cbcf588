#include "cli/completion.hpp"
#include "common/check.hpp"

namespace trainyard::cli {
namespace {

constexpr std::string_view bash_script =
    R"(# Completes the commands of trainyard in bash: source <(trainyard completion bash)
_trainyard() {
  local program=${1/#\~/$HOME} current=${COMP_WORDS[COMP_CWORD]} before='' kind='' word description
  local -a found=()
  COMPREPLY=()
  # Bash may cut words at "=": complete the part after the sign.
  if [[ $current == = ]]; then
    current=''
  elif [[ $current == *=* ]]; then
    before=${current%"${current##*=}"}
    current=${current##*=}
  fi
  {
    read -r kind || return
    while IFS=$'\t' read -r word description; do
      COMPREPLY+=("$before$word")
    done
  } < <("$program" completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  case $kind in
    all) mapfile -t found < <(compgen -f -- "$current") ;;
    folders) mapfile -t found < <(compgen -d -- "$current") ;;
    yaml) mapfile -t found < <(compgen -d -- "$current"; compgen -f -X '!*.yaml' -- "$current"; compgen -f -X '!*.yml' -- "$current") ;;
  esac
  for word in "${found[@]}"; do
    COMPREPLY+=("$before$word")
  done
  # Lets bash quote names, and add a slash to folders.
  if ((${#found[@]} > 0)); then compopt -o filenames 2>/dev/null; fi
  return 0
}
complete -F _trainyard trainyard
)";

constexpr std::string_view zsh_script = R"(#compdef trainyard
# Completes the commands of trainyard in zsh: source <(trainyard completion zsh), after compinit
_trainyard() {
  local line word
  local -a lines offered
  lines=("${(@f)$("${~${(Q)words[1]}}" completion zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  # Complete the part after a "=".
  [[ $PREFIX == *=* ]] && compset -P '*='
  for line in "${(@)lines[2,-1]}"; do
    word=${line%%$'\t'*}
    offered+=("${word//:/\\:}:${line#*$'\t'}")
  done
  if (( $#offered )); then _describe trainyard offered; fi
  case $lines[1] in
    all) _files ;;
    folders) _files -/ ;;
    yaml) _files -g '*.(yaml|yml)' ;;
  esac
}
# If this script is a file _trainyard in $fpath, zsh runs it as the first call of the function.
if [[ ${funcstack[1]-} == _trainyard ]]; then
  _trainyard "$@"
else
  compdef _trainyard trainyard
fi
)";

}  // namespace

std::string_view completion_script(std::string_view shell) {
  check(shell == "bash" || shell == "zsh", "there is a script for the shell");
  return shell == "bash" ? bash_script : zsh_script;
}

}  // namespace trainyard::cli
