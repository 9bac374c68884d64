"""Completion in shells of FILE::NAME, of --option=VALUE, and in fish of words with commas."""

from __future__ import annotations

import os

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

# The line is passed unchanged, since bash splits COMP_WORDS at colons. Bash replaces only $2, which
# is the text after the last colon or =, with its quotes: lod answers what is to follow it.
_SCRIPT = """\
%(complete_func)s() {
    local IFS=$'\\n' response completion type value line
    line=${COMP_LINE:0:COMP_POINT}
    response=$(env COMP_WORDS="$line" %(complete_var)s=bash_complete "$1")
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        if [[ $type == 'dir' ]]; then
            COMPREPLY=()
            compopt -o dirnames
        elif [[ $type == 'file' ]]; then
            COMPREPLY=()
            compopt -o default
        elif [[ $type == 'plain' ]]; then
            COMPREPLY+=("$2$value")
        fi
    done
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _WholeWord(ShellComplete):
    """Completion whose values are whole words; click leaves out the --option= that is typed."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        found = super().get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        if equals and option.startswith("--"):
            for item in found:
                if item.type == "plain":
                    item.value = f"{option}={item.value}"
        return found


class BashWords(_WholeWord, BashComplete):
    """click's completion for bash, with the whole line in COMP_WORDS."""

    source_template = _SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)
        incomplete = "" if line[-1:].isspace() else words.pop()
        return words[1:], incomplete

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        found = super().get_completions(args, incomplete)
        for item in found:
            item.value = item.value.removeprefix(incomplete)
        return found


class ZshWords(_WholeWord, ZshComplete):
    """click's completion for zsh, with files after --option=; it keeps the ~ of ~/FILE::NAME."""

    source_template = ZshComplete.source_template.replace(
        "_path_files -", "compset -P '--*='; _path_files -"
    ).replace(
        "compadd -U", "compset -P '*::' && completions=(${completions##*::})\n        compadd"
    )


class FishWords(_WholeWord, FishComplete):
    """click's completion for fish, which cuts words and descriptions at a comma."""

    source_template = FishComplete.source_template.replace(
        "string split ", "string split -m 1 "
    ).replace(
        "__fish_complete_path $metadata[2];",
        "set -l option (string match -r -- '^--[^=]*=' (commandline -ct)); "
        'for path in (__fish_complete_path $metadata[2]); echo "$option$path"; end;',
    )


def register() -> None:
    """Make these the completions of the shells."""
    for one in (BashWords, ZshWords, FishWords):
        add_completion_class(one)
