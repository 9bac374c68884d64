"""Configures numba for the JIT kernels and the measurements of the machine.

Nothing that runs in a command imports it.
"""

import os
import sys

from lodcli.kernels.runtime.threads import thread_setting


def _prepare() -> None:
    """Choose numba's threads, unless the user has."""
    if "numba" in sys.modules:
        return
    # Waiting threads that spin take the processor from other processes.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    threads = thread_setting()
    if threads:
        os.environ.setdefault("NUMBA_NUM_THREADS", str(threads))


_prepare()

# Only now: what they import reads the settings.
import numba  # noqa: E402
from llvmlite import ir  # type: ignore[import-untyped]  # noqa: E402
from numba import types  # noqa: E402
from numba.core import cgutils  # noqa: E402
from numba.core.typing.templates import AbstractTemplate, infer_global, signature  # noqa: E402
from numba.extending import (  # noqa: E402
    intrinsic,
    lower_builtin,
    models,
    overload,
    register_model,
)

__all__ = [
    "AbstractTemplate",
    "cgutils",
    "infer_global",
    "intrinsic",
    "ir",
    "lower_builtin",
    "models",
    "numba",
    "overload",
    "register_model",
    "signature",
    "types",
]
