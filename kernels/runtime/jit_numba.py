"""numba, set up: its cache folder and its threads. All kernels import numba from here.

Why these threads and this cache: docs/decisions/0007-numba-threads.md.
"""

import os
import sys
from pathlib import Path
from typing import Any

from lodcli.kernels.runtime.threads import thread_setting


def _prepare() -> None:
    """Choose numba's cache folder and threads, unless the user has."""
    fresh = "numba" not in sys.modules
    if fresh:
        # Read once, when the library of threads is loaded. Waiting threads that spin take
        # the processor from whoever else has work.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    threads = thread_setting()
    if fresh and threads:
        os.environ.setdefault("NUMBA_NUM_THREADS", str(threads))

    import numba

    # An object whose attributes are made while it is imported.
    config: Any = numba.config

    from lodcli.kernels.runtime.numba_cache_files import take_over, usable

    # Not Path.home(), which fails for a user without a name: such a folder is not usable then.
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    wanted = config.CACHE_DIR or str(Path(cache) / "lod" / "numba")
    config.CACHE_DIR, kept = usable(wanted)
    take_over(kept=kept)
    if not fresh and threads:
        numba.set_num_threads(min(threads, config.NUMBA_NUM_THREADS))


_prepare()

# Only now: what they import reads the settings.
import numba  # noqa: E402
from llvmlite import ir  # type: ignore[import-untyped]  # noqa: E402
from numba import njit, types  # noqa: E402
from numba.core import cgutils  # noqa: E402
from numba.core.codegen import get_host_cpu_features  # noqa: E402
from numba.core.typing.templates import AbstractTemplate, infer_global, signature  # noqa: E402
from numba.extending import (  # noqa: E402
    intrinsic,
    lower_builtin,
    models,
    overload,
    register_model,
)
from numba.np.ufunc import parallel  # noqa: E402

__all__ = [
    "AbstractTemplate",
    "cgutils",
    "get_host_cpu_features",
    "infer_global",
    "intrinsic",
    "ir",
    "lower_builtin",
    "models",
    "njit",
    "numba",
    "overload",
    "parallel",
    "register_model",
    "signature",
    "types",
]
