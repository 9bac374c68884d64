"""Hide calls that other systems lack from lod: for processes with this folder in PYTHONPATH.

With LOD_HIDDEN=linux, what Linux alone has: macOS lacks that. With LOD_HIDDEN=posix, locks and
limits as well. Modules and files are hidden from lod only; the tests and libraries still see them.
"""

from __future__ import annotations

import builtins
import os
import sys
from typing import Any

MODULES = ("fcntl", "resource") if os.environ["LOD_HIDDEN"] == "posix" else ()
CALLS = ("sched_getaffinity", "copy_file_range", "preadv", "sendfile")
SYMBOLS = ("prctl", "renameat2")

_import = builtins.__import__


def _asked_by_lod() -> bool:
    name = str(sys._getframe(2).f_globals.get("__name__", ""))
    return name.startswith("lodcli.") or name == "lod_bench_platform"


def _importing(name: str, *args: Any, **kwargs: Any) -> Any:
    if name in MODULES and _asked_by_lod():
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    return _import(name, *args, **kwargs)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir"):
        if str(args[0]).startswith(("/proc", "/sys")) and _asked_by_lod():
            raise FileNotFoundError(2, "hidden", args[0])
    elif event == "ctypes.dlsym" and args[1] in SYMBOLS:
        raise AttributeError(args[1])


builtins.__import__ = _importing
for _name in CALLS:
    delattr(os, _name)
sys.addaudithook(_audit)
