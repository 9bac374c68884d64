"""Whether AMX can be used: processor support, compiled kernels, permission of the system."""

from __future__ import annotations

from functools import cache

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.native import settings
from lodcli.kernels.platform.machine import ask_for_tiles, cpu_flags
from lodcli.kernels.rnn.engine.amx.layout import LEVEL

_FLAGS = ("amx_tile", "amx_bf16", "avx512_bf16")


def require_amx() -> None:
    """Raise an error if AMX cannot be used.

    Raises:
        UnsupportedError: AMX is not available; the message says why.
    """
    problem = amx_problem()
    if problem is not None:
        raise UnsupportedError(
            f"precision bfloat16 on a CPU needs AMX: {problem}; use float32, or a GPU"
        )


def amx_problem() -> str | None:
    """Return why AMX cannot be used; None if it can. Requests permission from the system once."""
    return _level_problem() or _processor_problem()


def _level_problem() -> str | None:
    try:
        level = settings.level()
    except settings.LevelError as error:
        return f"no compiled kernels: {error}"
    return None if level.name == LEVEL else f"kernels are those of {level.name}, not of {LEVEL}"


@cache
def _processor_problem() -> str | None:
    missing = [flag for flag in _FLAGS if flag not in cpu_flags()]
    if missing:
        return f"this processor, or its system, has no {', '.join(missing)}"
    refused = ask_for_tiles()
    return None if refused is None else f"the system refuses it ({refused})"
