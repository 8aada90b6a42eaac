# fish completion for sluice. Options and commands are those that `sluice --help` names.
function __sluice_words
    sluice --help 2>/dev/null | string match -rg "^  sluice $argv([a-z][a-z|-]*)" | string split '|'
end
complete -c sluice -f
complete -c sluice -s c -l config -r -F -d 'settings'
complete -c sluice -l dir -r -F -d 'directory'
complete -c sluice -n __fish_use_subcommand -a '(__sluice_words "")'
complete -c sluice -n 'test (count (commandline -opc)) -eq 2' -a '(__sluice_words (commandline -opc)[2]" ")'
complete -c sluice -n 'string match -q -- "-*" (commandline -ct)' \
    -a '(sluice --help 2>/dev/null | string match -ra -- "--[a-z][a-z-]+")'
