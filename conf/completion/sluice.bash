# bash completion for sluice. Options and commands are those that `sluice --help` names.
_sluice() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} help
    help=$("${COMP_WORDS[0]}" --help 2>/dev/null)
    case $before in
    -c | --config)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    --dir)
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        return
        ;;
    esac
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "-c $(grep -oE -- '--[a-z][a-z-]+' <<<"$help" | sort -u)" -- "$word")
    elif ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$(sed -nE 's/^  sluice ([a-z][a-z|-]*).*/\1/p' <<<"$help" | tr '|' ' ')" -- "$word")
    elif ((COMP_CWORD == 2)); then
        mapfile -t COMPREPLY < <(compgen -W "$(sed -nE "s/^  sluice $before ([a-z][a-z|-]*).*/\1/p" <<<"$help" | tr '|' ' ')" -- "$word")
    fi
}
complete -o filenames -F _sluice sluice
