"""`lod completion`: the completion script of a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from lodcli.shell import options, output
from lodcli.shell.complete.shells import register
from lodcli.shell.group import group

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
@options.as_json
@options.quiet
def command(shell: str, as_json: bool) -> None:
    """Print the completion script of SHELL: of commands, options, files and names of tensors.

    \b
    Examples:
      lod completion bash > lod.bash
      lod completion zsh
      lod completion fish

    SHELL is bash, zsh or fish. A line in the file that your shell reads at its start loads the
    script: eval "$(lod completion bash)" in ~/.bashrc, eval "$(lod completion zsh)" in ~/.zshrc,
    lod completion fish | source in ~/.config/fish/config.fish.
    """
    register()
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(group, {}, "lod", "_LOD_COMPLETE").source()
    if as_json:
        output.as_json({"shell": shell, "script": script})
    else:
        output.text(script)
