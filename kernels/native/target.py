"""The processor level that this process compiles for; intrinsics may depend on it.

It may differ from this machine's level: a library can be built for another level or machine.
"""

from __future__ import annotations

from lodcli.kernels.native.processor import Level

_chosen: list[Level] = []


def compile_for(level: Level) -> None:
    """Set the level, once, before any module of kernels is imported."""
    _chosen[:] = [level]


def level() -> Level:
    """Return the level to compile for."""
    assert _chosen, "kernels are compiled by lodcli.kernels.native.build"
    return _chosen[0]
