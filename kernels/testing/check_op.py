"""Checks of an op: shapes, dtypes, gradients, faults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes  # noqa: F401 - makes NumPy know bfloat16
import numpy as np

from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.plugins import Op, PluginEntry, entry_of
from lodcli.kernels.plugins import Plugin
from lodcli.kernels.runtime.arrays import as_array
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Arguments = Callable[[LoDTensor], Mapping[str, Any]]
_LEVELS: dict[str, list[list[int]]] = {
    "no levels": [],
    "no items": [[]],
    "one row": [[1]],
    "one level": [[2, 1, 3]],
    "empty items": [[0, 2, 0, 1, 0]],
    "nothing but empty items": [[0, 0]],
    "no items of two levels": [[], []],
    "two levels": [[2, 1], [1, 2, 1]],
    "empties at each of two levels": [[0, 2, 1], [0, 2, 1]],
    "empties at each of five levels": [[2, 0, 1], [1, 0, 2], [2, 1, 0], [1, 1, 2], [0, 3, 1, 2]],
}
_WIDTHS: dict[str, tuple[int, ...]] = {"": (), " of rows of 3": (3,), " of rows of 2 x 2": (2, 2)}
# Of float64: the error of central differences is about STEP ** 2, that of rounding 1e-16 / STEP.
STEP, TOLERANCE = 1e-5, 1e-5


@dataclass
class OpReport:
    """The result of `check_op`.

    Attributes:
        computed: the names of test tensors for which the op returned a result.
        refused: the other test tensors, each with the error of the op.
        differentiated: those whose gradient agrees with finite differences.
    """

    computed: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    differentiated: list[str] = field(default_factory=list)


def check_op(
    op: Op,
    *,
    name: str = "tried",
    arguments: Arguments = lambda tensor: {},
    examples: Mapping[str, tuple[LoDTensor, LoDTensor]] | None = None,
) -> OpReport:
    """Check the op of a plug-in as lod checks its own.

    Test tensors have no rows, one row, empty items at each of up to five levels, rows of three
    shapes, every dtype, and read-only and strided rows. For each, the op must return a result or
    raise an error of lod, and must not change its arguments. With `itemwise`, the result must be
    the results of the parts, concatenated; with `keeps` or `pools`, it must have that index; a
    gradient must agree with finite differences, in float64.

    Args:
        op: the object that the entry point refers to.
        name: the name of the entry point.
        arguments: returns the further arguments of the function for a tensor, by name.
        examples: by name, a tensor and the expected result.

    Returns:
        The tensors with a result, and those with an error; check these.

    Raises:
        AssertionError: the op breaks a rule; names the test tensor.

    >>> def sequence_twice(tensor: LoDTensor) -> LoDTensor:
    ...     return tensor.with_data(tensor.data + tensor.data)
    >>> check_op(Op(sequence_twice, "x + x", "y = 2 x", itemwise=True)).refused
    {}
    """
    plugin = Plugin(name, "the package being tested", None)  # type: ignore[arg-type]
    try:
        entry = entry_of(plugin, op)
    except LodError as error:
        raise AssertionError(str(error)) from None
    run = _Run(entry, arguments)
    for what, (tensor, expected) in (examples or {}).items():
        found = run.results(what, tensor)
        assert found is not None, f"{what}: is refused: {run.report.refused[what]}"
        _require_equal(what, found[0], expected)
    for what, tensor in tensors().items():
        run.check(what, tensor)
    assert run.report.computed, f"{name} refuses every test tensor: {run.report.refused}"
    if op.gradient is not None:
        assert run.report.differentiated, f"{name}: no test tensor has a gradient"
    return run.report


def tensors() -> dict[str, LoDTensor]:
    """Return test tensors for every op, by their special property."""
    rng = np.random.default_rng(0)
    found = {}
    for width, shape in _WIDTHS.items():
        for what, lengths in _LEVELS.items():
            lod = LoD.from_lengths(lengths)
            rows = rng.permutation(3 if lod.rows is None else lod.rows)
            # Apart from each other, for max and sort to be smooth.
            noise = rng.uniform(0, 0.5, (rows.size, *shape))
            found[what + width] = LoDTensor(rows.reshape(-1, *(1 for _ in shape)) + noise, lod)
    for dtype in sorted(ALL_DTYPES):
        values = np.array([1, 0, 2, 1, 3]).astype(dtype)
        found[f"numbers of {dtype}"] = LoDTensor(values, LoD.from_lengths([[2, 0, 3]]))
    return found


class _Run:
    def __init__(self, entry: PluginEntry, arguments: Arguments) -> None:
        self.report = OpReport()
        self._entry = entry
        self._op = entry.op
        self._function = entry.load()
        self._arguments = arguments
        first = next(iter(inspect.signature(self._op.function).parameters.values()))
        self._first = first.name
        self._several = "Sequence" in str(first.annotation) or "list" in str(first.annotation)

    def check(self, what: str, tensor: LoDTensor) -> None:
        data = tensor.data.copy()
        data.flags.writeable = False
        tensor = LoDTensor(data, tensor.lod)
        found = self.results(what, tensor)
        if found is None:
            return
        wide = np.repeat(data, 2, axis=0)[::2]
        again = self.results(f"{what}, strided", LoDTensor(wide, tensor.lod))
        assert again is not None, f"{what}: is refused where its rows are strided"
        for one, other in zip(found, again, strict=True):
            _require_equal(f"{what}, strided", other, one)
        self.report.computed.remove(f"{what}, strided")
        self._check_index(what, tensor, found)
        if self._op.itemwise:
            self._check_parts(what, tensor, found)
        if self._op.gradient is not None and data.dtype == np.float64 and data.size:
            self._check_gradient(what, tensor)

    def results(self, what: str, tensor: LoDTensor) -> list[LoDTensor] | None:
        """Return the results; None of a tensor that is refused."""
        try:
            found = self._function(**self._given(tensor))
        except LodError as error:
            said = str(error)
            assert not said.startswith(str(self._entry.plugin)), f"{what}: {said}"
            self.report.refused[what] = said
            return None
        self.report.computed.append(what)
        return list(found) if isinstance(found, tuple | list) else [found]

    def _given(self, tensor: LoDTensor) -> dict[str, Any]:
        return {self._first: [tensor] if self._several else tensor, **self._arguments(tensor)}

    def _check_index(self, what: str, tensor: LoDTensor, found: Sequence[LoDTensor]) -> None:
        given = self._given(tensor)
        for result in found:
            if self._op.keeps:
                wrong = given[self._op.keeps].lod.difference(result.lod)
                assert wrong is None, f"{what}: the result does not have the index: {wrong}"
            if self._op.pools and "level" not in given and tensor.lod.n_levels:
                wrong = tensor.lod.without_finest().difference(result.lod)
                assert wrong is None, f"{what}: the result is not one row per sequence: {wrong}"

    def _check_parts(self, what: str, tensor: LoDTensor, whole: Sequence[LoDTensor]) -> None:
        """Compare a result with those of the outermost items, one after another."""
        if not len(tensor):
            return
        parts = [self._function(**self._given(tensor[n : n + 1])) for n in range(len(tensor))]
        for number, result in enumerate(whole):
            several = [part if isinstance(part, LoDTensor) else part[number] for part in parts]
            _require_equal(f"{what}, by parts", LoDTensor.concatenate(several), result)

    def _check_gradient(self, what: str, tensor: LoDTensor) -> None:
        """Compare the gradient with central differences, for one upstream gradient."""
        given = self._given(tensor)
        gradient = self._entry.load_gradient()
        assert gradient is not None
        rng = np.random.default_rng(1)

        def results(changed: Mapping[str, Any]) -> list[LoDTensor]:
            found = self._function(**changed)
            several = list(found) if isinstance(found, tuple | list) else [found]
            return [one for one in several if one.dtype.kind == "f"]

        forward = results(given)
        flows = [one.with_data(rng.uniform(-1, 1, one.data.shape)) for one in forward]
        accepted = inspect.signature(self._op.gradient or gradient).parameters
        found = gradient(
            flows[0] if len(flows) == 1 else flows,
            **{key: value for key, value in given.items() if key in accepted},
        )
        names = self._op.tracked or (self._first,)
        several = found if isinstance(found, tuple | list) else (found,)
        assert len(several) == len(names), (
            f"{what}: expected a gradient of {', '.join(names)}, found {len(several)}"
        )
        for name, one in zip(names, several, strict=True):
            _require_gradient(f"{what}: the gradient of {name}", one, given, name, results, flows)
        self.report.differentiated.append(what)


def _require_gradient(
    what: str,
    found: Any,
    given: Mapping[str, Any],
    name: str,
    results: Callable[[Mapping[str, Any]], list[LoDTensor]],
    flows: Sequence[LoDTensor],
) -> None:
    value = given[name]
    rows = _plain(value)
    assert isinstance(found, LoDTensor) == isinstance(value, LoDTensor), (
        f"{what} has another type than the argument: {type(found).__name__}"
    )
    assert _plain(found).shape == rows.shape, (
        f"{what}: expected shape {rows.shape}, found {_plain(found).shape}"
    )

    def loss(changed: Array) -> float:
        told = value.with_data(changed) if isinstance(value, LoDTensor) else changed
        pairs = zip(results({**given, name: told}), flows, strict=True)
        return float(sum((one.data * flow.data).sum() for one, flow in pairs))

    for place in np.ndindex(rows.shape):
        ends = []
        for step in (STEP, -STEP):
            changed = rows.copy()
            changed[place] += step
            ends.append(loss(changed))
        expected = (ends[0] - ends[1]) / (2 * STEP)
        got = float(_plain(found)[place])
        assert abs(got - expected) <= TOLERANCE * max(1, abs(expected)), (
            f"{what} at {place}: expected {expected:.6g} by finite differences, found {got:.6g}"
        )


def _plain(value: Any) -> Array:
    return value.data if isinstance(value, LoDTensor) else np.asarray(as_array(value))


def _require_equal(what: str, found: LoDTensor, expected: LoDTensor) -> None:
    wrong = expected.lod.difference(found.lod)
    assert wrong is None, f"{what}: another index: {wrong}"
    assert found.dtype == expected.dtype, f"{what}: expected {expected.dtype}, found {found.dtype}"
    assert found.data.shape == expected.data.shape, (
        f"{what}: expected shape {expected.data.shape}, found {found.data.shape}"
    )
    exact = found.dtype.kind in "biu"
    # Sums may round otherwise in another order: about the last digits.
    close = 0 if exact else 64 * float(np.finfo(np.float64).eps)
    if found.dtype.kind not in "biu" and found.dtype.itemsize < 8:
        close = 0.02 if found.dtype.itemsize == 2 else 1e-5
    one, other = (
        each.data.astype(np.complex128 if each.dtype.kind == "c" else np.float64)
        if not exact
        else each.data
        for each in (found, expected)
    )
    same = np.array_equal(one, other) or (
        not exact and np.allclose(one, other, rtol=close, atol=close, equal_nan=True)
    )
    assert same, f"{what}: expected {expected.to_list()}, found {found.to_list()}"
