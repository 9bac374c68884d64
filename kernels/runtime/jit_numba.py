"""Configures numba for JIT kernels and for measurements of the machine.

No command imports it.
"""

import os
import sys

from lodcli.kernels.runtime.threads import thread_setting


def _prepare() -> None:
    """Configure numba's threads, unless the user did."""
    if "numba" in sys.modules:
        return
    # Spinning threads would take the processor from other processes.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    threads = thread_setting()
    if threads:
        os.environ.setdefault("NUMBA_NUM_THREADS", str(threads))


_prepare()

# After the settings, which these modules read on import.
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
