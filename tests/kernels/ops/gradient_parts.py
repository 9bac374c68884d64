"""The type of a case of a differentiable op, and the indexes for it."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.cases_ops import Array

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
        return {"level": self.level, "ref_level": self.level, "backend": self.backend}

    def tensor(self, rows: Array) -> LoDTensor:
        return LoDTensor(rows, self.lod)


@dataclass
class Case:
    """One op.

    Attributes:
        op: its name.
        inputs: a shape for each array it is differentiated in.
        given: (setting, arrays) to the arguments of the op beside level and backend.
        torch: (setting, torch, tensors) to the result; None where it would say no more than
            finite differences.
        levels: the levels that it runs on.
        backends: those that it has.
    """

    op: str
    inputs: Callable[[Setting], Sequence[Shape]]
    given: Callable[[Setting, Parts], dict[str, Any]]
    torch: Callable[[Setting, Any, Parts], Any] | None = None
    levels: Sequence[int] = (0, 1)
    backends: Sequence[str] = field(default=("numpy", "numba"))

    def arguments(self, setting: Setting, arrays: Parts) -> dict[str, Any]:
        """Return the arguments of the op."""
        return taken(OPS[self.op].load(), setting.how | self.given(setting, arrays))

    def results(self, arguments: dict[str, Any]) -> list[Any]:
        """Return the results of floating-point numbers: those that have a gradient."""
        found = OPS[self.op].load()(**arguments)
        several = found if isinstance(found, tuple | list) else [found]
        return [one for one in several if plain(one).dtype.kind == "f"]

    def forward(self, setting: Setting, arrays: Parts) -> Any:
        """Return the rows of all results."""
        return joined([plain(one) for one in self.results(self.arguments(setting, arrays))])

    def upstream(self, results: Sequence[Any], rows: Array) -> Any:
        """Return rows as an upstream gradient of the kind of the results."""
        ends = np.cumsum([len(plain(one)) for one in results])
        parts = [
            like(one, rows[end - len(plain(one)) : end])
            for one, end in zip(results, ends, strict=True)
        ]
        return parts if len(parts) > 1 else parts[0]

    def gradient_call(self, upstream: Any, arguments: dict[str, Any]) -> Callable[[], Any]:
        """Return the call of the gradient."""
        gradient = OPS[self.op].load_gradient()
        assert gradient is not None
        return partial(gradient, upstream, **taken(gradient, arguments))

    def gradients(self, upstream: Any, arguments: dict[str, Any]) -> list[Any]:
        """Return the gradients as they come, one for each of the arrays."""
        found = self.gradient_call(upstream, arguments)()
        return list(found) if isinstance(found, tuple) else [found]

    def backward(self, setting: Setting, upstream: Array, arrays: Parts) -> list[Any]:
        """Return the rows of the gradients, from those of the upstream gradient."""
        arguments = self.arguments(setting, arrays)
        flow = self.upstream(self.results(arguments), upstream)
        return [plain(one) for one in self.gradients(flow, arguments)]


def plain(value: Any) -> Any:
    """Return the rows of a tensor or of all steps, or an array as it is."""
    value = value.steps if isinstance(value, TensorArray) else value
    return value.data if isinstance(value, LoDTensor) else value


def like(value: Any, rows: Array) -> Any:
    """Return rows as a tensor, steps or an array, as a value is; under the same index."""
    if isinstance(value, TensorArray):
        return TensorArray.from_steps(value.steps.with_data(rows))
    return value.with_data(rows) if isinstance(value, LoDTensor) else rows


def joined(parts: Sequence[Any]) -> Any:
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def taken(function: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return those of the arguments that a function takes."""
    names = inspect.signature(function).parameters
    return {name: value for name, value in arguments.items() if name in names}


def rows(setting: Setting) -> list[Shape]:
    return [(setting.rows, 3)]


def one_tensor(setting: Setting, arrays: Parts) -> dict[str, Any]:
    return {"tensor": setting.tensor(arrays[0])}


def per_sequence(function: Callable[[Any, Any], Any]) -> Callable[[Setting, Any, Parts], Any]:
    """Return a torch function of the rows of each sequence, put below each other."""

    def run(setting: Setting, torch: Any, tensors: Parts) -> Any:
        return torch.cat([function(torch, tensors[0][lo:hi]) for lo, hi in setting.cuts])

    return run
