"""Commands of pages and pictures, run as in a terminal of 80 columns."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


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
