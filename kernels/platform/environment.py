"""Environment variables that lod reads. Those of lod itself are read only with `value`."""

from __future__ import annotations

import os
import re
from typing import NamedTuple


class Variable(NamedTuple):
    """An environment variable.

    Attributes:
        default: the value that applies if it is not set, in words.
        meaning: what it does.
    """

    default: str
    meaning: str


# A * stands for the name of a peer, such as TORCH in LOD_BENCH_TORCH_PYTHON.
VARIABLES = {
    "LOD_THREADS": Variable("all processors", "Maximum number of threads."),
    "LOD_MEMORY": Variable(
        "a quarter of the memory", "Memory budget of commands, as --memory: 500M, 2G."
    ),
    "LOD_NATIVE": Variable(
        "best of this processor", "Compiled kernels: a level such as v3, or off for NumPy alone."
    ),
    "LOD_CACHE": Variable("lod/ in XDG_CACHE_HOME or ~/.cache", "Folder of compiled kernels."),
    "LOD_GPU_COSTS": Variable(
        "measured", "estimated: choose how RNNs run on a GPU by estimates, without measuring."
    ),
    "LOD_DEBUG": Variable("0", "1 shows the traceback of an error."),
    "LOD_BENCH_*_PYTHON": Variable(
        "the one of lod", "Interpreter of a peer of lod bench, as LOD_BENCH_TORCH_PYTHON."
    ),
    "LOD_BUILD_LEVELS": Variable(
        "here", "While the package is built: levels of processors to compile for, or none."
    ),
    "LOD_BUILD_OBJECTS": Variable(
        "",
        "Folder of object files: kernels that did not change are not compiled again for a build.",
    ),
    "NO_COLOR": Variable("", "Any value: no colour."),
    "FORCE_COLOR": Variable("", "Any value: colour, also where there is no terminal."),
    "CLICOLOR_FORCE": Variable("0", "As FORCE_COLOR, unless it is 0."),
    "CLICOLOR": Variable("1", "0: no colour."),
    "COLUMNS": Variable("the terminal's", "Width of tables and drawings."),
}


def value(name: str) -> str:
    """Return the value of a variable of lod; "" if it is not set.

    Raises:
        KeyError: it is not in VARIABLES.
    """
    if name not in VARIABLES:  # faster than `listed`
        VARIABLES[listed(name)]
    return os.environ.get(name, "")


def listed(name: str) -> str:
    """Return the name of a variable in VARIABLES."""
    return re.sub("(?<=LOD_BENCH_)[A-Z0-9_]+(?=_PYTHON$)", "*", name)


def settings(name: str) -> dict[str, str | None]:
    """Return the value of a variable in VARIABLES by name; for one with a *, all that are set."""
    found: dict[str, str | None] = {
        one: os.environ[one] for one in os.environ if listed(one) == name
    }
    return found or {name: None}
