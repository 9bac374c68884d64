"""Errors for arguments of a wrong type."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pytest

from lodcli.kernels.errors import InvalidDataError, OptionError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.padding.pad import sequence_mask
from lodcli.kernels.rnn.cells.lru.lru import LRUWeights
from lodcli.kernels.rnn.cells.lstm.lstm import LSTMWeights
from lodcli.kernels.rnn.cells.registry import CELLS
from lodcli.kernels.rnn.cells.weights import Sizes
from lodcli.kernels.rnn.nested.nested import NestedLevel, NestedRNN
from lodcli.kernels.rnn.stack.chunked import Chunking
from lodcli.kernels.rnn.stack.run import run_rnn
from lodcli.kernels.rnn.stack.stack import RNNWeights, seeded_weights
from lodcli.kernels.rnn.training.classifier import Classifier
from lodcli.kernels.rnn.training.train import Recipe
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories
from lodcli.kernels.tensor.tensor_array import TensorArray
from lodcli.kernels.tensor.time_steps import IndexMap
from lodcli.ops import sequence_split_by_mask
from lodcli.rnn import (
    AdamState,
    AttentionLSTMWeights,
    Boot,
    Labelled,
    LevelShape,
    StateDict,
    States,
    accuracy,
    classify,
    clipped,
    lstm_to_paddle,
    nested_from_state_dict,
    nested_state_dict,
    rnn_backward,
    seeded_nested,
    softmax_cross_entropy,
    state_dict,
    weights_from_state_dict,
    while_loop,
    write_weights,
)

T = TypeVar("T", bound=LoDTensor)


@types_explained
def failing(
    error: Any,
    *,
    tensor: LoDTensor | None = None,
    parts: Sequence[LoDTensor] = (),
    rows: npt.NDArray[Any] | None = None,
    values: npt.ArrayLike = 0,
    numbers: Sequence[int] = (),
    level: int | str = -1,
    flag: bool = False,
    rate: float = 0.5,
    side: Literal["left", "right"] = "left",
    lengths: LoD | Sequence[Sequence[int]] | None = None,
    bound: T | None = None,
    table: Mapping[str, int] = MappingProxyType({}),
    anything: Sequence[Any] = (),
) -> str:
    """Raise an error, if one is given."""
    if error is not None:
        raise error
    return f"{level} {flag}"


TENSOR = LoDTensor([1.0], [[1]])
GRU = seeded_weights("gru", 1, 1, rng=np.random.default_rng(0))
LSTM = seeded_weights("lstm", 1, 1, rng=np.random.default_rng(0)).layers[0][0]
FLAT: Any = partial(replace, GRU.layers[0][0])(weight_ih=np.ones(3))
NESTED = NestedRNN((NestedLevel(0, GRU),))
NO_ARRAY: Any = [[1.0]]
REQUIRED = ("attention_weight", "lstm_weight", "lstm_bias")
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"tensor": np.ones(2)}, "tensor: expected a LoDTensor or None, found ndarray; lodcli.LoDT"),
    ({"tensor": "a.npz"}, r"tensor: .* found 'a.npz'; lodcli.read\(path\) returns one"),
    ({"parts": TENSOR.data}, "parts: expected a sequence of LoDTensor, found ndarray"),
    ({"parts": None}, "parts: expected a sequence of LoDTensor, found None"),
    ({"parts": [TENSOR, 3]}, "parts, an item: expected a LoDTensor, found int"),
    ({"rows": [1]}, "rows: expected an array or None, found list"),
    ({"numbers": "12"}, "numbers: expected a sequence of int, found '12'"),
    ({"numbers": iter([1])}, "numbers: expected a sequence of int, found list_iterator"),
    ({"numbers": np.array(1)}, "numbers: expected a sequence of int, found ndarray"),
    ({"numbers": np.ones(2)}, "numbers: expected a sequence of int, found ndarray"),
    ({"parts": range(2)}, "parts: expected a sequence of LoDTensor, found range"),
    ({"parts": iter([TENSOR])}, "parts: expected a sequence of LoDTensor, found list_iterator"),
    ({"table": 3}, "table: expected a dict, found int"),
    ({"anything": 3}, "anything: expected a sequence, found int"),
    ({"level": 1.5}, "level: expected an int or a str, found float"),
    ({"level": True}, "level: expected an int or a str, found bool"),
    ({"flag": 1}, "flag: expected a bool, found int"),
    ({"rate": "x"}, "rate: expected a float, found 'x'"),
    ({"side": "up"}, "side: expected 'left' or 'right', found 'up'"),
    ({"bound": 1}, "bound: expected a LoDTensor or None, found int"),
]


@pytest.mark.parametrize(("given", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_failure_names_the_argument_of_a_wrong_type(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidDataError, match=rf"^failing: {said}"):
        failing(TypeError("not this"), **given)


@pytest.mark.parametrize("flag", ["no", 0.5, [False], np.float64(1), np.array([True])])
def test_other_values_do_not_count_as_booleans(flag: Any) -> None:
    with pytest.raises(InvalidDataError, match=r"^failing: flag: expected a bool, found "):
        failing(None, flag=flag)
    trues: list[Any] = [True, np.True_, np.array(True), 1]
    for true in trues:
        assert failing(None, flag=true).endswith(str(true))


RIGHT: dict[str, Any] = {
    "tensor": TENSOR, "parts": [TENSOR], "rows": np.ones(1), "values": [[1]],
    "numbers": np.arange(2), "level": np.int64(0), "flag": np.True_, "rate": np.float32(1),
    "side": "right", "lengths": [[1]], "bound": TENSOR, "table": {"a": 1}, "anything": range(1),
}  # fmt: skip


def test_an_error_stays_where_the_types_are_right() -> None:
    with pytest.raises(ZeroDivisionError, match="of a kernel"):
        failing(ZeroDivisionError("of a kernel"), **RIGHT)


def test_an_error_of_lod_stays_unless_a_tensor_or_an_index_is_of_a_wrong_type() -> None:
    no_level: Any = 1.5
    no_lengths: Any = [["1"]]
    with pytest.raises(SelectionError, match="no such level"):
        failing(SelectionError("no such level"), level=no_level, lengths=no_lengths)
    no_tensor: Any = [1, 2]
    with pytest.raises(InvalidDataError, match="tensor: expected a LoDTensor"):
        failing(ShapeMismatchError("of what is no tensor"), tensor=no_tensor)


def test_a_call_that_succeeds_is_not_looked_at() -> None:
    wrong: Any = 1.5
    assert failing(None, level=wrong) == "1.5 False"


def test_the_function_keeps_its_name_its_signature_and_its_defaults() -> None:
    inner = failing.__wrapped__  # type: ignore[attr-defined]
    assert failing.__name__ == "failing"
    assert failing.__doc__ == inner.__doc__
    assert inspect.signature(failing) == inspect.signature(inner)
    assert failing(None) == "-1 False"


CODES = LoDTensor([0, 1]).as_categories(["a", "b"])
CONSTRUCTIONS: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
    (IndexMap, (np.arange(3), 3), "IndexMap: outer: expected a LoD, found int; lodcli.LoD.from"),
    (TensorArray, ("x",), "TensorArray: size: expected an int, found 'x'"),
    (TensorArray, (np.array(1.5),), "TensorArray: size: expected an int, found ndarray"),
    (TensorArray, (0, 3), "TensorArray: values: expected a sequence of LoDTensor or None, found"),
    (TensorArray().identical, (3,), "identical: other: expected a TensorArray, found int"),
    (Categories, (3,), "Categories: words: expected a sequence of str, found int"),
    (
        CODES.as_categories,
        (3,),
        "as_categories: words: expected a sequence of str or None, found int",
    ),
    (TENSOR.from_awkward, (slice(3),), "values: expected an array of Awkward, found slice"),
    (TENSOR.from_awkward, ({"a": 1},), "values: expected an array of Awkward, found dict"),
    (TENSOR.concatenate, (iter([TENSOR]),), "parts: expected a sequence of LoDTensor, found list_"),
    (TENSOR.from_lengths, ([1], np.array(1)), "lengths must be 1-D, found 0 dimensions"),
    (LoD.from_lengths, (np.array(1),), "a list with one list of integers for each level"),
    (sequence_split_by_mask, (TENSOR, [[1], [2, 3]]), "mask: no array can be made of it: "),
    (while_loop, (3,), "while_loop: loop_vars: expected a sequence of Var, found int"),
    (state_dict, (3,), "state_dict: weights: expected an RNNWeights, found int"),
    (weights_from_state_dict, (3,), "entries: expected a dict, found int"),
    (nested_state_dict, (3, [""]), "levels: expected a sequence of NestedLevel, found int"),
    (
        nested_from_state_dict,
        (3, [LevelShape(0, "a", "gru", 1)]),
        "entries: expected a dict, found int",
    ),
    (StateDict, (3,), "StateDict: arrays: expected a dict or None, found int"),
    (lstm_to_paddle, (GRU.layers[0][0],), "weights: expected an LSTMWeights, found GRUWeights"),
    (softmax_cross_entropy, (3, 3), "scores: expected an array, found int"),
    (clipped, (3, 1.0), "clipped: gradients: expected a dict, found int"),
    (Labelled, (3, 3), "Labelled: sequences: expected a LoDTensor, found int"),
    (classify, (3, TENSOR.data, [0, 1]), "classify: model: expected a Classifier, found int"),
    (accuracy, (3, 3), "accuracy: model: expected a Classifier, found int"),
    (GRU.moved, (3,), "GRUWeights.moved: move: expected a function, found int"),
    (GRU.map, (3,), "RNNWeights.map: function: expected a function, found int"),
    (RNNWeights, (3,), "RNNWeights: layers: expected a sequence of tuple, found int"),
    (RNNWeights, (GRU.layers[0],), "layers, an item: expected a sequence of LayerW.*GRUWeights"),
    (NestedRNN, (3,), "NestedRNN: levels: expected a sequence of NestedLevel, found int"),
    (RNNWeights, (((FLAT,),),), r"weight_ih_l0: expected 2 dimensions, found shape \(3,\)"),
    (NestedRNN, ((GRU,),), "NestedRNN: levels, an item: expected a NestedLevel, found RNNWeights"),
    (NestedLevel, (0, GRU.layers[0][0]), "weights: expected an RNNWeights, found GRUWeights"),
    (Boot, ([[1.0]],), "Boot: weight: expected an array or None, found list"),
    (partial(States, cell=NO_ARRAY), (), "States: cell: expected an array or None, found list"),
    (partial(replace, GRU.layers[0][0], bias_ih=[1.0]), (), "GRUWeights: bias_ih: expected an arr"),
    (partial(replace, LSTM, coupled="no"), (), "LSTMWeights: coupled: expected a bool, found 'no'"),
    (AdamState, (np.array(1), {}, {}), "AdamState: steps: expected an int, found ndarray"),
    (
        partial(AttentionLSTMWeights, **dict.fromkeys(REQUIRED, NO_ARRAY)),
        (),
        "AttentionLSTMWeights: attention_weight: expected an array, found list",
    ),
    (partial(seeded_nested, rng=np.random.default_rng(0)), ((), 3), "expected at least one RNN"),
    (nested_state_dict, (NESTED.levels, []), "prefixes: expected one for each of 1, found"),
    (Recipe, ("x",), "Recipe: epochs: expected an int, found 'x'"),
    (Chunking, ("x",), "Chunking: .*: expected an int or None, found 'x'"),
    (Classifier, (3, 3, 3), "Classifier: rnn: expected an RNNWeights, found int; lodcli.rnn.seed"),
]


@pytest.mark.parametrize(("call", "given", "said"), CONSTRUCTIONS)
def test_constructors_and_methods_name_the_argument_of_a_wrong_type(
    call: Callable[..., Any], given: tuple[Any, ...], said: str
) -> None:
    if call == TENSOR.from_awkward:
        pytest.importorskip("awkward")
    with pytest.raises(InvalidDataError, match=said):
        call(*given)


def test_a_tracked_tensor_is_no_array_of_awkward() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("awkward")
    with pytest.raises(InvalidDataError, match="expected an array of Awkward, found Tensor"):
        LoDTensor.from_awkward(torch.ones(2, requires_grad=True))


@pytest.mark.parametrize(
    ("call", "named", "said"),
    [
        (
            partial(LoDTensor.from_row_ids, [1], [0]),
            {"count": "x"},
            "LoDTensor.from_row_ids: count: expected an int or None, found 'x'",
        ),
        (partial(LoDTensor.from_lists, [[1]]), {"levels": [1]}, "levels: expected an int or None"),
        (
            partial(LoDTensor.from_lengths, [1], [1]),
            {"absolute": np.array([1, 2])},
            "LoDTensor.from_lengths: absolute: expected a bool, found ndarray",
        ),
        (TENSOR.to_torch, {"layout": np.array(["a", "b"])}, "LoDTensor.to_torch: layout: expected"),
    ],
)
def test_conversions_name_the_argument_of_a_wrong_type(
    call: Callable[..., Any], named: dict[str, Any], said: str
) -> None:
    if "torch" in said:
        pytest.importorskip("torch")
    with pytest.raises(InvalidDataError, match=said):
        call(**named)


@pytest.mark.parametrize("kind", [LSTMWeights, LRUWeights])
def test_methods_of_weights_name_an_argument_of_a_wrong_type(kind: Any) -> None:
    sizes, rng = Sizes(3, 4), np.random.default_rng(0)
    wrong: dict[str, Callable[[], Any]] = {
        "sizes: expected a Sizes, found int": lambda: kind.seeded(3, rng, "f4"),
        "rng: expected a Generator, found int": lambda: kind.seeded(sizes, 1, "f4"),
        "shape: expected a sequence of int, found 'a'": lambda: kind.drawn("x", "a", sizes, rng),
        "no dtype 'brain'; there are: bfloat16, bool": lambda: kind.seeded(sizes, rng, "brain"),
        f"other: expected an {kind.__name__}, found int": lambda: weights.plus(3),
        "move: expected a function, found 'cuda'": lambda: weights.moved("cuda"),
        r"Weights: \w+: expected an array, found list": lambda: weights.moved(np.ndarray.tolist),
        "no dtype <class 'object'>; there are": lambda: weights.astype(object),
    }
    weights = kind.seeded(sizes, rng, "f4")
    for message, call in wrong.items():
        with pytest.raises(InvalidDataError, match=message):
            call()


@pytest.mark.parametrize("cell", CELLS)
def test_weights_are_added_to_those_of_the_same_shapes(cell: str) -> None:
    rng = np.random.default_rng(0)
    one, narrow = (
        seeded_weights(cell, 4, size, rng=rng, dtype="bfloat16").layers[0][0] for size in (4, 1)
    )
    assert one.dtype.name == "bfloat16"
    for name, array in one.plus(one).arrays().items():
        np.testing.assert_array_equal(array, one.arrays()[name] * 2)
    with pytest.raises(ShapeMismatchError, match=r"plus: .*: expected shape .*, found "):
        one.plus(narrow)  # NumPy would repeat the one value of a narrow state


def test_more_arrays_are_not_left_out_of_a_sum() -> None:
    with_bias, without = (
        seeded_weights("lstm", 4, 4, bias=bias, rng=np.random.default_rng(0)).layers[0][0]
        for bias in (True, False)
    )
    with pytest.raises(ShapeMismatchError, match=r"bias_ih: expected shape None, found \(16,\)"):
        without.plus(with_bias)
    with pytest.raises(ShapeMismatchError, match=r"bias_ih: expected shape \(16,\), found None"):
        with_bias.plus(without)


@pytest.mark.parametrize("dtype", ["brain", object, "datetime64[s]", "S4", np.longdouble])
def test_a_dtype_that_rows_cannot_have_names_those_there_are(dtype: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: TENSOR.astype(dtype),
        lambda: LoDTensor.from_lists([[1]], dtype=dtype),
        lambda: LoDTensor.from_arrays([np.ones(2)], dtype=dtype),
        lambda: sequence_mask([1], dtype=dtype),
        lambda: seeded_weights("gru", 1, 1, rng=np.random.default_rng(0), dtype=dtype),
        lambda: run_rnn(TENSOR, GRU, dtype=dtype),
    ]
    for call in calls:
        with pytest.raises(OptionError, match=r"dtype: no dtype .*; there are: bfloat16, bool, "):
            call()


def test_bfloat16_is_a_dtype_by_its_name() -> None:
    assert TENSOR.astype("bfloat16").dtype.name == "bfloat16"
    assert TENSOR.astype(">f4").dtype == np.float32


def test_a_tape_of_another_kind_is_named() -> None:
    for tape in (None, TENSOR, np.ones(3)):
        said = (
            r"rnn_backward: tape: expected an RNNTape.*; rnn_forward\(\.\., keep=True\) records one"
        )
        with pytest.raises(InvalidDataError, match=said):
            rnn_backward(cast("Any", tape))


def test_weights_to_be_written_are_weights(tmp_path: Path) -> None:
    target = tmp_path / "weights.safetensors"
    with pytest.raises(InvalidDataError, match="write_weights: weights: expected an RNNWeights"):
        write_weights(target, cast("Any", np.ones(3)))
    assert not target.exists()
