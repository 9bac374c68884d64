"""What a case of a differentiable op is, and the indexes it runs under."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.kernels.ops.helpers import Array

Shape = tuple[int, ...]
Parts = Sequence[Any]


@dataclass
class Setting:
    """The index that a case runs under, and the level whose sequences are meant.

    Attributes:
        lod: two levels.
        level: 0 or 1.
        backend: of forward and backward.
    """

    lod: LoD
    level: int
    backend: Any

    @property
    def rows(self) -> int:
        return self.lod.rows or 0

    @property
    def count(self) -> int:
        return self.lod.count(self.level)

    @property
    def cuts(self) -> list[tuple[int, int]]:
        """The first row of every sequence and that behind its last."""
        at = self.lod.absolute(self.level).tolist()
        return list(itertools.pairwise(at))

    @property
    def how(self) -> dict[str, Any]:
        return {"level": self.level, "backend": self.backend}

    def tensor(self, rows: Array) -> LoDTensor:
        return LoDTensor(rows, self.lod)


@dataclass
class Case:
    """One op.

    Attributes:
        inputs: a shape for each array it is differentiated in.
        forward: (setting, arrays) to the result.
        backward: (setting, upstream, arrays, result) to a gradient for each array.
        torch: (setting, torch, tensors) to the result; None where it would say no more than
            finite differences.
        levels: the levels that it runs on.
        backends: those that it has.
    """

    inputs: Callable[[Setting], Sequence[Shape]]
    forward: Callable[[Setting, Parts], Any]
    backward: Callable[[Setting, Array, Parts, Array], Sequence[Any]]
    torch: Callable[[Setting, Any, Parts], Any] | None = None
    levels: Sequence[int] = (0, 1)
    backends: Sequence[str] = field(default=("numpy", "numba"))


def rows(setting: Setting) -> list[Shape]:
    return [(setting.rows, 3)]


def per_sequence(function: Callable[[Any, Any], Any]) -> Callable[[Setting, Any, Parts], Any]:
    """Return a torch function of the rows of each sequence, put below each other."""

    def run(setting: Setting, torch: Any, tensors: Parts) -> Any:
        return torch.cat([function(torch, tensors[0][lo:hi]) for lo, hi in setting.cuts])

    return run
