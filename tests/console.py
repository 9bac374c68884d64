"""Commands of the docs, pictures and help, run as in a terminal of 80 columns."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

# Characters that are special in a shell outside of single quotes.
_OF_A_SHELL = re.compile(r"[^\w\s'./:,=@%+-]|\n")


def plain_words(command: str) -> list[str] | None:
    """Return the words after `lod` of a command that can run in this process, else None.

    Running it here saves all imports. A command that needs a shell, or that reads or writes data on
    standard streams, runs in a process.
    """
    if not command.startswith("lod ") or _OF_A_SHELL.search(re.sub(r"'[^'\n]*'", "", command)):
        return None
    words = shlex.split(command)[1:]
    return None if {"-", "--to"} & set(words) else words


def on_terminal(command: str, folder: Path, *, colours: bool) -> subprocess.CompletedProcess[str]:
    """Run a command of bash in a folder; its standard output holds its standard error as well."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "NO_COLOR"},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "80",
        "LANG": "C.UTF-8",
        **({"CLICOLOR_FORCE": "1"} if colours else {"NO_COLOR": "1"}),
    }
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
