"""Completion in bash of words with colons, such as FILE::NAME, and in fish of those with commas."""

from __future__ import annotations

import os

from click.shell_completion import (
    BashComplete,
    FishComplete,
    add_completion_class,
    split_arg_string,
)

# The line is passed unchanged, since bash splits COMP_WORDS at colons. Bash replaces only the text
# after the last colon, so the reply must not contain the part before it.
_SCRIPT = """\
%(complete_func)s() {
    local IFS=$'\\n' response completion type value line word
    line=${COMP_LINE:0:COMP_POINT}
    word=${line##*[[:space:]]}
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
            if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
                value=${value#"${word%%"${word##*:}"}"}
            fi
            COMPREPLY+=("$value")
        fi
    done
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class ColonComplete(BashComplete):
    """click's completion for bash, with the whole line in COMP_WORDS."""

    source_template = _SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_WORDS"]
        if "COMP_CWORD" in os.environ:  # a script of an earlier version
            return super().get_completion_args()
        words = split_arg_string(line)
        incomplete = "" if line[-1:].isspace() else words.pop()
        return words[1:], incomplete


class CommaComplete(FishComplete):
    """click's completion for fish, which cuts words and descriptions at a comma."""

    source_template = FishComplete.source_template.replace("string split ", "string split -m 1 ")


def register() -> None:
    """Make these the completions of bash and fish."""
    add_completion_class(ColonComplete)
    add_completion_class(CommaComplete)
