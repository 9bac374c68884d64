"""NumPy numbers of any width as options of ops."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lodcli.commands.apply.arguments import described
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.conv.conv import sequence_conv
from lodcli.kernels.ops.conv.im2sequence import sequence_im2sequence
from lodcli.kernels.ops.joining.windows import sequence_deinterleave
from lodcli.kernels.ops.padding.pad import sequence_pad
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.ops.reshaping.reshape import sequence_reshape, sequence_reshape_grad
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import on_every_backend
from tests.kernels.ops.gradient_cases import CASES
from tests.kernels.ops.gradient_parts import Case, Setting, plain, taken
from tests.kernels.ops.op_arguments import arguments
from tests.kernels.ops.test_call_counts import ten_rows

FORMS: dict[str, tuple[Callable[[Any], Any], ...]] = {
    "int": (np.int8, np.uint8, np.int64, np.uint64, np.array),
    "bool": (np.bool_, np.array),
    "float": (np.float32, np.float64, np.array),
}


def disguised(
    function: Callable[..., Any], given: dict[str, Any], backend: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the arguments with one number as NumPy has it, and as Python has it."""
    parameters = inspect.signature(function).parameters
    if "backend" in parameters:
        given = {**given, "backend": backend}
    for name, one in parameters.items():
        kind = str(one.annotation).removesuffix(" | None")
        value = given.get(name, one.default)
        for form in FORMS.get(kind, ()):
            for number in (False, True) if kind == "bool" else (value,):
                if number is not None and (number >= 0 or form not in (np.uint8, np.uint64)):
                    disguise = form(number)
                    yield {**given, name: disguise}, {**given, name: disguise.item()}


def results_of(found: Any) -> list[Any]:
    """Return all arrays of a result."""
    if isinstance(found, LoDTensor):
        return [found.data, *found.lod.levels]
    if isinstance(found, list | tuple):
        return [part for each in found for part in results_of(each)]
    return [] if found is None else [np.asarray(found)]


def assert_alike(found: Any, expected: Any) -> None:
    for one, two in zip(results_of(found), results_of(expected), strict=True):
        assert one.dtype == two.dtype
        assert one.shape == two.shape
        assert one.tobytes() == two.tobytes()


@on_every_backend
@pytest.mark.parametrize("name", [name for name in OPS if name not in ("to_steps", "from_steps")])
def test_an_op_takes_numbers_of_numpy_as_those_of_python(name: str, backend: str) -> None:
    function = described(OPS[name]).function
    for numpys, pythons in disguised(function, arguments(name, ten_rows(name)), backend):
        try:
            expected = function(**pythons)
        except InvalidDataError:  # of the option turned round
            continue
        assert_alike(function(**numpys), expected)


@on_every_backend
@pytest.mark.parametrize("name", {case.op: name for name, case in CASES.items()}.values())
def test_a_gradient_takes_numbers_of_numpy_as_those_of_python(name: str, backend: str) -> None:
    case = CASES[name]
    setting = Setting(LoD.from_lengths([[3], [3, 2, 5]]), case.levels[-1], backend)
    generator = np.random.default_rng(3)
    given = case.arguments(setting, [generator.random(shape) for shape in case.inputs(setting)])
    function = OPS[case.op].load_gradient()
    assert function is not None
    for numpys, pythons in disguised(function, taken(function, given), backend):
        try:
            upstream = upstream_of(case, {**given, **pythons}, generator)
        except InvalidDataError:
            continue
        assert_alike(function(upstream, **numpys), function(upstream, **pythons))


def upstream_of(case: Case, given: dict[str, Any], generator: np.random.Generator) -> Any:
    results = case.results(taken(OPS[case.op].load(), given))
    count = sum(len(plain(one)) for one in results)
    return case.upstream(results, generator.random((count, *plain(results[0]).shape[1:])))


ROWS = LoDTensor(np.random.default_rng(0).normal(size=(361, 2)), [[30, 0, 200, 1, 130]])
IMAGE = LoDTensor(np.arange(1200.0).reshape(1, 1, 120, 10))
# What overflows in eight bits, or where an unsigned number is turned round.
WIDE: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "context_length": (
        lambda n: sequence_conv(ROWS, np.ones((200, 3)), context_length=n, context_start=-1),
        np.int8(100),
    ),
    "context_start": (
        lambda n: sequence_conv(ROWS, np.ones((6, 3)), context_length=3, context_start=n),
        np.uint8(1),
    ),
    "context_start, the least": (
        lambda n: sequence_conv(ROWS, np.ones((6, 3)), context_length=3, context_start=n),
        np.int8(-128),
    ),
    "count": (
        lambda n: sequence_deinterleave(LoDTensor(np.arange(200.0), [[1] * 200]), n),
        np.uint8(100),
    ),
    "new_dim": (
        lambda n: sequence_reshape(LoDTensor(np.ones((361, 100)), ROWS.lod), n),
        np.uint64(50),
    ),
    "new_dim of a gradient": (
        lambda n: sequence_reshape_grad(
            np.ones((722, 50)), LoDTensor(np.ones((361, 100)), ROWS.lod), n
        ),
        np.int8(50),
    ),
    "kernels": (lambda n: sequence_im2sequence(IMAGE, kernels=(n, 2)), np.int8(100)),
    "strides": (
        lambda n: sequence_im2sequence(IMAGE, kernels=(3, 3), strides=(n, 3)),
        np.uint8(100),
    ),
    "paddings": (
        lambda n: sequence_im2sequence(
            IMAGE, kernels=(3, 3), paddings=(n, n, n, n), backend="numpy"
        ),
        np.uint64(2),
    ),
}


@pytest.mark.parametrize("name", WIDE)
def test_a_narrow_or_unsigned_number_does_not_overflow(name: str) -> None:
    call, number = WIDE[name]
    assert_alike(call(number), call(int(number)))


@on_every_backend
def test_padding_to_a_number_of_numpy_keeps_all_rows(backend: Any) -> None:
    three: Any = np.int64(3)
    padded, lengths = sequence_pad(ROWS, pad_to_multiple=three, backend=backend)
    for part, length, rows in zip(padded, lengths, ROWS, strict=True):
        np.testing.assert_array_equal(part[:length], rows.data)
        assert not part[length:].any()


@on_every_backend
@pytest.mark.parametrize("wrong", [np.array([2]), np.array([2, 2])], ids=str)
def test_an_array_of_numbers_is_no_number(wrong: Any, backend: Any) -> None:
    ids = LoDTensor([1, 2, 3], [[2, 1]])
    with pytest.raises(InvalidDataError, match="win_size: expected an int, found ndarray"):
        OPS["enumerate"].load()(ids, wrong, backend=backend)
    with pytest.raises(InvalidDataError, match="exclusive: expected a bool, found ndarray"):
        OPS["cumsum"].load()(ids, exclusive=wrong, backend=backend)
