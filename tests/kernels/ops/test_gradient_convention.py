"""The convention of gradients for all ops: docs/decisions/0017-ops-and-levels.md."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.kernels.ops.gradient_cases import CASES
from tests.kernels.ops.gradient_parts import Case, Setting, plain
from tests.kernels.ops.test_gradients import LODS, arrays_of

# What a gradient may be given that was worked out on the way forward; else it does so again.
SAVED = {"index", "result"}
# Options of an op that its gradient does not turn on, or sees in the upstream gradient.
LEFT_OUT = {"backend", "maxlen", "name", "out", "pad_to_multiple", "pad_value", "truncate"}
# Ops that only put another index on the rows: none of their options matters.
OTHER_INDEX = {"lod_append", "lod_reset"}
# Tensors of which only the index matters.
INDEX_ONLY = {"expand": {"y"}, "expand_as": {"y"}}
ALL = [
    pytest.param(name, level, backend, id=f"{name}-{level}-{backend}")
    for name, case in CASES.items()
    for level in case.levels
    for backend in case.backends
]


def parameters(function: Any) -> tuple[list[inspect.Parameter], dict[str, inspect.Parameter]]:
    """Return the inputs of a function, and its options."""
    every = inspect.signature(function).parameters.values()
    inputs = [one for one in every if one.kind is one.POSITIONAL_OR_KEYWORD]
    return inputs, {one.name: one for one in every if one.kind is one.KEYWORD_ONLY}


@pytest.mark.parametrize("name", [name for name, entry in OPS.items() if entry.gradient])
def test_a_gradient_takes_the_upstream_gradient_and_then_the_inputs_of_its_op(name: str) -> None:
    inputs, options = parameters(OPS[name].load())
    (upstream, *given), more = parameters(OPS[name].load_gradient())
    assert (upstream.name, upstream.default) == ("upstream", inspect.Parameter.empty)
    assert [(one.name, one.default) for one in given] == [(one.name, one.default) for one in inputs]
    assert name in OTHER_INDEX or options.keys() - more.keys() <= LEFT_OUT
    assert more.keys() - options.keys() <= SAVED
    for key, option in more.items():
        assert option.default == (None if key in SAVED else options[key].default), key


def inputs_of(case: Case, arguments: dict[str, Any]) -> list[Any]:
    """Return the arguments of floating-point numbers that have a gradient, in their order."""
    found: list[Any] = []
    for name in inspect.signature(OPS[case.op].load()).parameters:
        if name not in INDEX_ONLY.get(case.op, ()):
            value = arguments.get(name)
            found += value if isinstance(value, list) else [value]
    kinds = LoDTensor | TensorArray | np.ndarray
    return [one for one in found if isinstance(one, kinds) and plain(one).dtype.kind == "f"]


@pytest.mark.parametrize(("name", "level", "backend"), ALL)
def test_a_gradient_is_what_its_input_is_and_shares_its_index(
    name: str, level: int, backend: str
) -> None:
    case, setting = CASES[name], Setting(LODS["some"], level, backend)
    arrays = arrays_of(name, setting)
    arguments = case.arguments(setting, arrays)
    rows = np.random.default_rng(7).normal(size=case.forward(setting, arrays).shape)
    upstream = case.upstream(case.results(arguments), rows)
    inputs, gradients = inputs_of(case, arguments), case.gradients(upstream, arguments)
    assert len(inputs) == len(arrays)
    for gradient, value in zip(gradients, inputs, strict=True):
        assert type(gradient) is type(value)
        assert plain(gradient).shape == plain(value).shape
        if isinstance(value, TensorArray):
            assert gradient.steps.lod == value.steps.lod
        if isinstance(value, LoDTensor):
            assert gradient.lod is value.lod
    if isinstance(upstream, TensorArray):
        return
    # The rows alone do as well.
    bare = [plain(one) for one in upstream] if isinstance(upstream, list) else plain(upstream)
    for gradient, again in zip(gradients, case.gradients(bare, arguments), strict=True):
        assert plain(gradient).tobytes() == plain(again).tobytes()


@pytest.mark.parametrize(("name", "level", "backend"), ALL)
def test_rows_of_an_upstream_gradient_may_have_their_bytes_in_another_order(
    name: str, level: int, backend: str
) -> None:
    case, setting = CASES[name], Setting(LODS["some"], level, backend)
    arguments = case.arguments(setting, arrays_of(name, setting))
    results = case.results(arguments)
    if any(isinstance(one, TensorArray) for one in results):
        return  # of tensors, which have the machine's order
    generator = np.random.default_rng(7)
    flows = [generator.normal(size=plain(one).shape) for one in results]
    other = [one.astype(one.dtype.newbyteorder()) for one in flows]
    found, expected = (
        case.gradients(each if len(each) > 1 else each[0], arguments) for each in (other, flows)
    )
    for one, two in zip(found, expected, strict=True):
        assert plain(one).dtype == plain(two).dtype
        assert plain(one).tobytes() == plain(two).tobytes()


def elsewhere(value: Any) -> Any:
    """Return the same rows under one level more."""
    if isinstance(value, TensorArray):
        return TensorArray.from_steps(elsewhere(value.steps))
    rows = np.arange(value.rows + 1)
    return LoDTensor(value.data, LoD((*value.lod.levels, rows)))


# Cases whose gradient checks the index of the result; the result of pad has none.
KNOWN = [key for key, one in CASES.items() if one.op not in OTHER_INDEX | {"pad"}]


@pytest.mark.parametrize("name", KNOWN)
def test_an_upstream_gradient_under_another_index_is_refused(name: str) -> None:
    case = CASES[name]
    setting = Setting(LODS["some"], case.levels[0], "numpy")
    arguments = case.arguments(setting, arrays_of(name, setting))
    wrong = [elsewhere(one) for one in case.results(arguments)]
    with pytest.raises(
        ShapeMismatchError, match=r"not segmented as the result: .* levels? against"
    ):
        case.gradients(wrong if len(wrong) > 1 else wrong[0], arguments)
