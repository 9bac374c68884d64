"""Python and lod in a new process, which has imported nothing yet."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


def python(code: str, *args: object, **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run Python code with these arguments, and `options` of subprocess.run."""
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(command, **{"capture_output": True, "text": True, **options})


def lod(*args: object, without: str = "", **options: Any) -> subprocess.CompletedProcess[Any]:
    """Run a command, as where the package `without` is not installed."""
    hidden = f"sys.modules[{without!r}] = None; " if without else ""
    code = f"import sys; {hidden}from lodcli.main import main; sys.exit(main())"
    return python(code, *args, **options)
