"""Completion scripts for bash, zsh and fish."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from snapline.cli.completion_model import CommandModel, Kind, OptionModel, Value

_MAX_HELP = 70

_BASH = r"""# bash completion for snapline: source <(snapline completion bash)

_snapline_jobs() {
    local file
    for file in "${SNAPLINE_HOME:-$HOME/.snapline}"/jobs/*@*.json; do
        [[ -e "$file" ]] || continue
        file="${file##*/}"
        printf '%s\n' "${file%@*}"
    done
}

_snapline_complete() {
    local kind="$1" word="$2" reply
    COMPREPLY=()
    if [[ "$kind" == jobs || "$kind" == both ]]; then
        while IFS= read -r reply; do COMPREPLY+=("$reply"); done < <(compgen -W "$(_snapline_jobs)" -- "$word")
    fi
    if [[ "$kind" == files || "$kind" == both ]]; then
        compopt -o filenames 2>/dev/null
        while IFS= read -r reply; do COMPREPLY+=("$reply"); done < <(compgen -f -- "$word")
    fi
    if [[ "$kind" == words ]]; then
        while IFS= read -r reply; do COMPREPLY+=("$reply"); done < <(compgen -W "$3" -- "$word")
    fi
}

_snapline() {
    local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD - 1]}"
    local command="" position=0 index current valued="" options=""
    for ((index = 1; index < COMP_CWORD; index++)); do
        current="${COMP_WORDS[index]}"
        if [[ -z "$command" ]]; then
            [[ "$current" == -* ]] && continue
            command="$current"
            case "$command" in
@COMMANDS@
            esac
        elif [[ " $valued " == *" $current "* ]]; then
            ((index++))
        elif [[ "$current" != -* ]]; then
            ((position++))
        fi
    done
    if [[ -z "$command" ]]; then
        _snapline_complete words "$word" "@NAMES@ --help --version"
        return
    fi
    if [[ " $valued " == *" $before "* ]]; then
        case "$command $before" in
@VALUES@
        esac
        return
    fi
    if [[ "$word" == -* && " @REST@ " != *" $command:$position "* ]]; then
        _snapline_complete words "$word" "$options"
        return
    fi
    case "$command $position" in
@ARGUMENTS@
    esac
}

complete -F _snapline snapline
"""

_ZSH = r"""#compdef snapline
# zsh completion for snapline: put it into a directory of $fpath as _snapline

_snapline_jobs() {
    local -a ids
    ids=("${SNAPLINE_HOME:-$HOME/.snapline}"/jobs/*@*.json(N:t))
    ids=("${(@)ids%@*}")
    compadd -a ids
}

_snapline_both() {
    _alternative 'jobs:job:_snapline_jobs' 'files:path:_files'
}

_snapline() {
    local context state state_descr line
    typeset -A opt_args
    _arguments -C '(- *)--help[show help]' '(- *)--version[show the version]' '1:command:->command' '*::argument:->rest'
    case "$state" in
    command)
        local -a commands
        commands=(
@COMMANDS@
        )
        _describe command commands
        ;;
    rest)
        case "$words[1]" in
@ARGUMENTS@
        esac
        ;;
    esac
}

if [ "$funcstack[1]" = "_snapline" ]; then
    _snapline "$@"
else
    compdef _snapline snapline
fi
"""

_FISH = r"""# fish completion for snapline: put it into ~/.config/fish/completions/snapline.fish

function __snapline_jobs
    set -l home $HOME/.snapline
    set -q SNAPLINE_HOME; and set home $SNAPLINE_HOME
    for file in $home/jobs/*@*.json
        string replace -r '@[^@]*$' '' (basename $file)
    end
end

complete -c snapline -f
@LINES@
"""


def bash_script(commands: Sequence[CommandModel]) -> str:
    declared, values, arguments, rest = [], [], [], []
    for command in commands:
        valued = [name for option in command.options if option.value is not None for name in option.names]
        declared.append(
            f'                {command.name}) valued="{" ".join(valued)}" options="{" ".join(command.names)}" ;;'
        )
        for option in command.options:
            if option.value is not None:
                names = " | ".join(f'"{command.name} {name}"' for name in option.names)
                values.append(f"            {names}) {_bash(option.value)} ;;")
        for position, value in enumerate(command.arguments):
            is_last = position == len(command.arguments) - 1
            pattern = f'"{command.name} "*' if is_last and command.has_rest else f'"{command.name} {position}"'
            arguments.append(f"        {pattern}) {_bash(value)} ;;")
        if command.has_rest:
            rest += [f"{command.name}:{position}" for position in range(1, 10)]
    return _filled(
        _BASH,
        COMMANDS="\n".join(declared),
        NAMES=" ".join(command.name for command in commands),
        VALUES="\n".join(values),
        ARGUMENTS="\n".join(arguments),
        REST=" ".join(rest),
    )


def _bash(value: Value) -> str:
    words = f' "{" ".join(value.words)}"' if value.kind is Kind.WORDS else ""
    return f'_snapline_complete {value.kind.value} "$word"{words}'


def zsh_script(commands: Sequence[CommandModel]) -> str:
    named = [f"            {_quoted(f'{command.name}:{_plain(command.help)}')}" for command in commands]
    cases = []
    for command in commands:
        parts = [part for option in command.options for part in _zsh_option(option)]
        for position, value in enumerate(command.arguments):
            is_rest = command.has_rest and position == len(command.arguments) - 1
            parts.append(_quoted(f"{'*' if is_rest else position + 1}:{value.name}:{_zsh(value)}"))
        cases.append(f"        {command.name}) _arguments {' '.join(parts)} ;;")
    return _filled(_ZSH, COMMANDS="\n".join(named), ARGUMENTS="\n".join(cases))


def _zsh_option(option: OptionModel) -> Iterable[str]:
    for name in option.names:
        value = "" if option.value is None else f":{option.value.name}:{_zsh(option.value)}"
        yield _quoted(f"*{name}[{_plain(option.help)}]{value}")


def _zsh(value: Value) -> str:
    match value.kind:
        case Kind.WORDS:
            return f"({' '.join(value.words)})"
        case Kind.JOBS:
            return "_snapline_jobs"
        case Kind.FILES:
            return "_files"
        case Kind.BOTH:
            return "_snapline_both"
    return " "


def fish_script(commands: Sequence[CommandModel]) -> str:
    lines = []
    for command in commands:
        lines.append(
            f"complete -c snapline -n __fish_use_subcommand -a {command.name} -d {_quoted(_plain(command.help))}"
        )
        seen = _quoted(f"__fish_seen_subcommand_from {command.name}")
        for option in command.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = "" if option.value is None else f" {_fish(option.value, required=True)}"
            lines.append(f"complete -c snapline -n {seen} {names}{value} -d {_quoted(_plain(option.help))}")
        for value_of in dict.fromkeys(command.arguments):
            if value_of.kind is not Kind.NOTHING:
                lines.append(f"complete -c snapline -n {seen} {_fish(value_of, required=False)}")
    return _filled(_FISH, LINES="\n".join(lines))


def _fish(value: Value, *, required: bool) -> str:
    flag = "-r " if required else ""
    match value.kind:
        case Kind.WORDS:
            return f"{flag}-f -a {_quoted(' '.join(value.words))}"
        case Kind.JOBS:
            return f"{flag}-f -a '(__snapline_jobs)'"
        case Kind.FILES:
            return f"{flag}-F"
        case Kind.BOTH:
            return f"{flag}-F -a '(__snapline_jobs)'"
    return f"{flag}-f"


def _filled(template: str, **parts: str) -> str:
    for name, text in parts.items():
        template = template.replace(f"@{name}@", text)
    return template


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "") + "'"


def _plain(text: str) -> str:
    """A help text without what shells and their completion read as syntax."""
    text = text.replace("%%", "%").translate({ord(letter): " " for letter in "[]:\\`$\"'"})
    return " ".join(text.split())[:_MAX_HELP]


SCRIPTS: Mapping[str, Callable[[Sequence[CommandModel]], str]] = {
    "bash": bash_script,
    "zsh": zsh_script,
    "fish": fish_script,
}
