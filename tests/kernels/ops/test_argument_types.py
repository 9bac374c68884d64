"""Every public op and gradient with arguments of wrong types."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

from lodcli.commands.apply.arguments import described
from lodcli.kernels.errors import InvalidDataError, LodError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.kinds import kind_of
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.kernels.ops.gradient_cases import CASES
from tests.kernels.ops.gradient_parts import Setting, plain
from tests.kernels.ops.op_arguments import arguments
from tests.kernels.ops.test_call_counts import ten_rows


class Frame:
    """As a column of pandas or a tensor of torch: converts itself to an array."""

    dtype, shape, ndim, nbytes = np.dtype("float32"), (10, 4), 2, 160

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.ones(self.shape, self.dtype)

    def __len__(self) -> int:
        return 10

    @property
    def data(self) -> Any:
        """As torch has it."""
        return self


# What is given, and how messages call it.
WRONG: dict[str, tuple[Any, str]] = {
    "an array": (np.ones((10, 4), np.float32), "ndarray"),
    "a list": ([1, 2], "list"),
    "nothing": (None, "None"),
    "a path": (Path("words.npz"), "PosixPath"),
    "the name of a file": ("words.npz", "'words.npz'"),
    "a number": (3, "int"),
    "a foreign array": (Frame(), "Frame"),
}
KINDS = {"tensor": "a LoDTensor", "tensors": "a sequence of LoDTensor", "steps": "a TensorArray"}


def parameters(function: Callable[..., Any]) -> dict[str, str]:
    """Return the parameters that are tensors or time steps and nothing else, and their kinds."""
    hints = get_type_hints(function)
    kinds = {
        name: kind_of(hints[name])
        for name, one in inspect.signature(function).parameters.items()
        if one.default is one.empty
    }
    return {name: kind for name, kind in kinds.items() if kind in KINDS}


def refuse(function: Callable[..., Any], given: dict[str, Any]) -> None:
    """Assert that each tensor among the arguments is refused if it is anything else."""
    for name, kind in parameters(function).items():
        for wrong, found in WRONG.values():
            with pytest.raises(InvalidDataError) as refused:
                function(**{**given, name: wrong})
            said = f"{function.__name__}: {name}"
            expected = [f"{said}: expected {KINDS[kind]}, found {found}"]
            if kind == "tensors":
                expected += [f"{said}, an item: expected a LoDTensor, found int"]
            assert str(refused.value).startswith(tuple(expected))
            assert "lodcli." in str(refused.value)


@pytest.mark.parametrize("name", OPS)
def test_an_op_names_the_argument_that_is_no_tensor(name: str) -> None:
    function, given = described(OPS[name]).function, arguments(name, ten_rows(name))
    assert parameters(function) or name in {"mask", "max_sequence_len", "rank_table", "unpad"}
    refuse(function, given)


@pytest.mark.parametrize("name", {case.op: name for name, case in CASES.items()}.values())
def test_a_gradient_names_the_argument_that_is_no_tensor(name: str) -> None:
    case, setting = CASES[name], Setting(LoD.from_lengths([[3], [3, 2, 5]]), 1, "auto")
    setting.level = case.levels[-1]
    values = [np.ones(shape, np.float32) for shape in case.inputs(setting)]
    given = case.arguments(setting, values)
    results = case.results(given)
    rows = np.ones_like(np.concatenate([plain(one) for one in results]))
    function = OPS[case.op].load_gradient()
    assert function is not None
    known = inspect.signature(function).parameters
    given = {name: value for name, value in given.items() if name in known}
    refuse(function, {next(iter(known)): case.upstream(results, rows), **given})


TENSOR = LoDTensor(np.ones((5, 2), np.float32), [[3, 2]])
LEVELS: list[tuple[Any, str]] = [
    (True, "a level is a whole number or a name, not True"),
    (1.0, "a level is a whole number or a name, not 1.0"),
    (None, "a level is a whole number or a name, not None"),
    (np.nan, "a level is a whole number or a name, not nan"),
    ([0], r"a level is a whole number or a name, not \[0\]"),
    (3, "no level 3: there is 1 level"),
    ("word", "no level named 'word'"),
]


@pytest.mark.parametrize(("level", "said"), LEVELS, ids=str)
def test_an_op_refuses_what_is_no_level(level: Any, said: str) -> None:
    for op in ("sum", "softmax", "sort", "reverse", "cumsum"):
        with pytest.raises(LodError, match=said):
            OPS[op].load()(TENSOR, level=level)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (np.array([1, "a"], object), r"found object; .*LoDTensor\(\[1, 2, 3\], \[\[2, 1\]\]\)"),
        (np.array(["a"]), "found <U1; text is stored as its bytes, uint8"),
        (np.array(["2020-01-01"], "M8[D]"), r"found datetime64\[D\]; .* Marks\(unit=Times"),
        (np.array([1], "m8[s]"), r"found timedelta64\[s\]; .* Marks\(unit=Times"),
        (np.zeros(1, [("a", "f4")]), "give each field as a separate tensor"),
        (np.zeros(1, np.clongdouble), r"data.astype\(\"complex128\"\)"),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_a_dtype_that_no_tensor_holds_is_refused_with_a_remedy(rows: Any, said: str) -> None:
    with pytest.raises(InvalidDataError, match=said):
        LoDTensor(rows)


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        ([np.nan, 2], "level 0: lengths must be integers, found float64"),
        ([True, True], "level 0: lengths must be integers, found bool"),
        ([3.0, 2.0], "level 0: lengths must be integers, found float64"),
        (["3", "2"], "level 0: lengths must be integers, found <U1"),
    ],
    ids=str,
)
def test_lengths_that_are_no_whole_numbers_are_refused(lengths: Any, said: str) -> None:
    with pytest.raises(InvalidDataError, match=said):
        LoDTensor(TENSOR.data, [lengths])


def test_functions_of_several_tensors_name_the_argument_that_is_none() -> None:
    wrong: Any = np.ones((5, 2), np.float32)
    for call, said in {
        lambda: LoDTensor.concatenate([TENSOR, wrong]): "LoDTensor.concatenate: parts, an item",
        lambda: LoDTensor.concatenate(wrong): "LoDTensor.concatenate: parts: expected a sequence",
        lambda: LoD.concatenate([TENSOR.lod, wrong]): "LoD.concatenate: parts, an item",
        lambda: TENSOR.difference(wrong): "LoDTensor.difference: other: expected a LoDTensor",
        lambda: LoDTensor(wrong, marks=wrong): "LoDTensor: marks: expected a Marks, found ndarray",
        lambda: LoDTensor(wrong, nulls=wrong): "LoDTensor: nulls: expected a Nulls, found ndarray",
    }.items():
        with pytest.raises(InvalidDataError, match=said):
            call()  # type: ignore[no-untyped-call]


ROWS = LoDTensor(np.ones((6, 2), np.float32), [[4, 2]])
NUMBERS: dict[str, tuple[str, dict[str, Any]]] = {
    "windows": ("length", {"tensor": ROWS}),
    "enumerate": ("win_size", {"tensor": LoDTensor([1, 2, 3], [[3]])}),
    "reshape": ("new_dim", {"tensor": ROWS, "level": 0}),
    "deinterleave": ("count", {"tensor": ROWS}),
    "truncate": ("length", {"tensor": ROWS}),
    "mask": ("maxlen", {"lengths": [1, 2]}),
    "shrink_memory": ("step", {"x": LoDTensor([1, 2]), "table": [[0, 2], [1, 1]]}),
    "conv": ("context_length", {"tensor": ROWS, "weight": np.ones((4, 1)), "context_start": 0}),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_float_is_no_number_of_items(name: str) -> None:
    option, given = NUMBERS[name]
    for wrong in (1.5, np.float32(2), float("nan")):
        with pytest.raises(InvalidDataError, match=f"{option}: expected an int, found float"):
            OPS[name].load()(**given, **{option: wrong})


def test_the_scale_of_attention_is_not_text() -> None:
    with pytest.raises(InvalidDataError, match="scale: expected a float or None, found '2'"):
        OPS["attention"].load()(ROWS, ROWS, ROWS, scale="2")


IMAGES = LoDTensor(np.ones((1, 1, 4, 4)))


@pytest.mark.parametrize(
    "wrong",
    [LoDTensor([1, 2], [[2]]), LoDTensor([1.0, 2.0]), LoDTensor([[1], [2]])],
    ids=["with a level", "of floats", "of rows"],
)
def test_a_tensor_that_is_no_list_of_numbers_is_named(wrong: LoDTensor) -> None:
    option: Any = wrong
    with pytest.raises(
        InvalidDataError, match="kernels: expected a sequence of int, found LoDTensor"
    ):
        OPS["im2sequence"].load()(IMAGES, kernels=option)
    with pytest.raises(
        InvalidDataError, match="topks: expected a sequence of int, found LoDTensor"
    ):
        OPS["topk_avg_pooling"].load()(
            LoDTensor([1.0, 2.0], [[2]]), LoD([[0, 1]]), LoD([[0, 2]]), topks=option, channel_num=1
        )


def test_a_tensor_of_whole_numbers_is_a_list_of_numbers() -> None:
    option: Any = LoDTensor([2, 2])
    found = OPS["im2sequence"].load()(IMAGES, kernels=option)
    assert found.data.shape == (9, 4)
