"""The number of functions of lod in a call on ten rows, which limits the time of small calls.

No times, which depend on the machine. The counts are those of Python 3.11, whose comprehensions
are functions; of later ones they are lower.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from lodcli.commands.apply.arguments import described
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.native import load, settings
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.rnn.engine.engine import rnn_forward
from lodcli.kernels.rnn.stack.run import run_rnn
from lodcli.kernels.rnn.stack.stack import seeded_weights, stack_backward, stack_forward
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.kernels.ops.gradient_cases import CASES, gradient_of
from tests.kernels.ops.op_arguments import arguments

pytestmark = pytest.mark.skipif(
    settings.checked() or find_spec("cupy") is not None,
    reason="kernels that check indices, and CuPy where it is installed, take further calls",
)
ROOT = str(Path(load.__file__).parents[1])
LENGTHS = [[3, 2, 5]]
WHOLE = {"ctc_align", "edit_distance", "enumerate", "erase", "mask"}
ONE_COLUMN = {"histogram", "scatter", "searchsorted", "topk_avg_pooling", "unique", "unique_counts"}
# Of any op.
MOST = 41
# Of any gradient, and of those that take more.
MOST_BACK = 50
MORE_BACK = {
    "conv after, stride": 59, "div": 60, "dot": 61, "from_steps": 57,
    "linear_scan": 58, "linear_scan reverse": 58, "mul": 60, "to_steps": 53,
}  # fmt: skip
KEYS: dict[str, tuple[Any, int]] = {
    "a number": (1, 14),
    "a range": (slice(1, 3), 25),
    "a step": (slice(None, None, 2), 23),
    "numbers": ([0, 2], 23),
    "booleans": (np.array([True, False, True]), 22),
    "a number in each": ((slice(None), 0), 18),
    "a range in each": ((slice(None), slice(1, None)), 27),
    "a step in each": ((slice(None), slice(None, None, 2)), 27),
    "numbers in each": ((slice(None), [0, 1]), 22),
    "a row of an item": ((1, 0), 18),
}


@pytest.fixture(autouse=True)
def shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a package, whose kernels are compiled."""
    monkeypatch.setattr(load, "is_shipped", lambda: True)


def ten_rows(name: str) -> LoDTensor:
    if name in WHOLE:
        return LoDTensor(np.arange(10) % 4, LENGTHS)
    rows = np.linspace(-1, 1, 40, dtype=np.float32).reshape(10, 4)
    return LoDTensor(rows[:, 0].copy() if name in ONE_COLUMN else rows, LENGTHS)


def calls_of(function: Callable[[], object]) -> int:
    """Return how many functions of the kernels are called, once all is loaded and cached."""
    count = 0

    def on_event(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            count += 1

    for _ in range(2):
        function()
    sys.setprofile(on_event)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", OPS)
def test_an_op_on_ten_rows_goes_through_few_functions(name: str) -> None:
    function, given = described(OPS[name]).function, arguments(name, ten_rows(name))
    assert calls_of(lambda: function(**given)) <= MOST


@pytest.mark.parametrize(("key", "most"), KEYS.values(), ids=KEYS)
def test_a_key_of_ten_rows_goes_through_few_functions(key: Any, most: int) -> None:
    tensor = ten_rows("softmax")
    assert calls_of(lambda: tensor[key]) <= most


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_of_ten_rows_goes_through_few_functions(name: str) -> None:
    call = gradient_of(name, LoD.from_lengths([[3], *LENGTHS]))
    assert calls_of(call) <= MORE_BACK.get(name, MOST_BACK)


def test_a_tensor_of_booleans_goes_through_few_functions() -> None:
    tensor = ten_rows("softmax")
    key = tensor.with_data(tensor.data[:, 0] > 0)
    assert calls_of(lambda: tensor[key]) <= 20


def test_time_steps_go_through_few_functions() -> None:
    tensor = ten_rows("softmax")
    array, index_map = TensorArray.unpack(tensor)
    written = TensorArray(values=list(array))
    assert calls_of(lambda: TensorArray.unpack(tensor)) <= 34
    assert calls_of(lambda: array.pack(-1, index_map)) <= 30
    assert calls_of(lambda: written.pack(-1, index_map)) <= 66
    assert calls_of(lambda: written.write(0, tensor)) <= 7
    assert calls_of(lambda: array.read(0)) <= 18


def test_iterating_takes_as_many_as_a_key_for_each_item() -> None:
    tensor = ten_rows("softmax")
    assert calls_of(lambda: list(tensor)) <= 3 * (KEYS["a number"][1] + 1) + 11


@pytest.mark.parametrize(("cell", "forward", "training"), [("lstm", 107, 249), ("gru", 104, 244)])
def test_a_layer_on_ten_rows_goes_through_few_functions(
    cell: str, forward: int, training: int
) -> None:
    rows, offsets = np.ones((10, 8), np.float32), np.array([0, 3, 5, 10])
    weights = seeded_weights(cell, 8, 6, rng=np.random.default_rng(0))

    def train() -> None:
        run = stack_forward(rows, offsets, weights, keep=True, threads=1)
        assert run.tape is not None
        stack_backward(run.tape, grad_outputs=run.outputs, threads=1)

    tensor = LoDTensor(rows, LENGTHS)
    assert calls_of(lambda: run_rnn(tensor, weights, threads=1)) <= forward + 30
    assert calls_of(lambda: rnn_forward(rows, offsets, weights.layers[0][0], threads=1)) <= forward
    assert calls_of(train) <= training
