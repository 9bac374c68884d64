"""Processor levels for which kernels are compiled, and the level of this processor."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from lodcli.kernels.platform.machine import IS_LINUX, architecture, cpu_flags

_V2 = ("cx16", "sahf", "popcnt", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3 = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
# LLVM's feature names that differ from those in /proc/cpuinfo.
_IN_CPUINFO = {
    "sahf": "lahf_lm",
    "sse3": "pni",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "bmi": "bmi1",
    "lzcnt": "abm",
}


@dataclass(frozen=True)
class Level:
    """A processor level: required features and vector registers.

    Attributes:
        name: as in LOD_NATIVE, and of the library's file.
        machine: as in os.uname().
        cpu: LLVM's name.
        needed: required features, by LLVM's names.
        tuning: further features passed to LLVM.
        vector_bytes, registers: size and number of the vector registers.
    """

    name: str
    machine: str
    cpu: str
    needed: tuple[str, ...] = ()
    tuning: tuple[str, ...] = ()
    vector_bytes: int = 16
    registers: int = 16

    @property
    def features(self) -> tuple[str, ...]:
        """Features as passed to LLVM, with signs."""
        return (*(f"+{name}" for name in self.needed), *self.tuning)

    @property
    def triple(self) -> str:
        return f"{self.machine}-unknown-linux-gnu"


#: Lowest first; a processor that has one level also has the lower ones for its machine.
LEVELS = (
    Level("x86-64-v2", "x86_64", "x86-64-v2", _V2),
    Level("x86-64-v3", "x86_64", "x86-64-v3", _V3, vector_bytes=32),
    # By default LLVM uses 256 of the 512 bits of a register: softmax takes 1.2 times as long.
    Level("x86-64-v4", "x86_64", "x86-64-v4", _V4, ("-prefer-256-bit",), 64, 32),
    Level("aarch64", "aarch64", "generic", ("neon",), registers=32),
)


def level_named(name: str) -> Level | None:
    """Return a level by its name: "x86-64-v3", or "v3" for short."""
    return next((each for each in LEVELS if name in (each.name, each.name[-2:])), None)


@cache
def levels_here() -> tuple[Level, ...]:
    """Return the levels of this processor, lowest first; none if unknown."""
    if not IS_LINUX:
        return ()
    machine = architecture()
    return tuple(
        each
        for each in LEVELS
        if each.machine == machine and (machine != "x86_64" or _has(each.needed))
    )


def _has(needed: tuple[str, ...]) -> bool:
    return all(_IN_CPUINFO.get(name, name) in cpu_flags() for name in needed)
