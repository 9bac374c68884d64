"""The compiled engine against the reference, on every shape in which a loop can go wrong."""

from __future__ import annotations

import dataclasses
import math
import tracemalloc
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.native.calls import address
from lodcli.kernels.rnn.cells.cell import CellWeights
from lodcli.kernels.rnn.engine.engine import States, rnn_backward, rnn_forward
from lodcli.kernels.rnn.engine.native import arrays
from lodcli.kernels.rnn.stack.stack import seeded_weights
from lodcli.kernels.runtime import buffers
from tests.cells_rnn import VARIANTS, cell_weights, initial_states
from tests.oracles_rnn import Array, close, offsets_of
from tests.slow import slow_except

pytest.importorskip("numba")

LENGTHS = [3, 0, 7, 1, 7, 2, 0]  # ties, empty ones inside and last
CELLS: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("lstm", {}),
    "gru": ("gru", {}),
    "tanh": ("elman", {}),
    "relu": ("elman", {"nonlinearity": "relu"}),
    "sigmoid": ("elman", {"nonlinearity": "sigmoid"}),
    "identity": ("elman", {"nonlinearity": "identity"}),
    "slstm": ("slstm", {}),
}
# Sums come in another order than NumPy's; in float32 tanh and sigmoid are good to 3e-7, and a
# sequence adds up what a few steps are off by.
TOLERANCE = {"float32": 5e-6, "float64": 1e-12}


# Each is compiled for itself, which takes seconds where nothing is cached; the others are slow.
COMPILED = [
    ("lstm", "float32"),
    ("lstm", "float64"),
    ("gru", "float64"),
    ("tanh", "float64"),
    ("slstm", "float64"),
]


@dataclasses.dataclass
class Problem:
    """A batch, weights, and a gradient for every result."""

    data: Array
    offsets: Array
    weights: CellWeights
    states: States
    reverse: bool
    grads: dict[str, Any]

    def solve(self, backend: Any, threads: int = 1) -> dict[str, Array | None]:
        """Return all results and all gradients."""
        run = rnn_forward(
            self.data,
            self.offsets,
            self.weights,
            initial=self.states,
            reverse=self.reverse,
            keep=True,
            backend=backend,
            threads=threads,
        )
        assert run.tape is not None
        back = rnn_backward(run.tape, threads=threads, **self.grads)
        found = {name: getattr(run, name) for name in ("outputs", "cells", "last_hidden")}
        found |= {"last_cell": run.last_cell, "input": back.input}
        found |= {"initial_hidden": back.initial_hidden, "initial_cell": back.initial_cell}
        return found | {f"gradient of {k}": v for k, v in back.weights.arrays().items()}

    def alone(self, number: int) -> Problem:
        """Return the problem of one sequence."""
        one = slice(number, number + 1)
        first, end = self.offsets[number : number + 2]
        states = {name: None if a is None else a[one] for name, a in vars(self.states).items()}
        grads = {
            name: None if a is None else a[one] if "last" in name else a[first:end]
            for name, a in self.grads.items()
        }
        return dataclasses.replace(
            self,
            data=self.data[first:end],
            offsets=offsets_of([int(end - first)]),
            states=States(**states),
            grads=grads,
        )


def problem(
    cell: str,
    lengths: list[int],
    *,
    hidden: int,
    inputs: int,
    dtype: str = "float64",
    reverse: bool = False,
    bias: bool = True,
    projected: bool = False,
    states: bool = True,
    seed: int = 0,
) -> Problem:
    """Return a random one; `projected`: without weight_ih."""
    rng = np.random.default_rng(seed)
    kind, options = CELLS[cell]
    stack = seeded_weights(kind, inputs, hidden, bias=bias, rng=rng, dtype=dtype)
    weights: Any = stack.with_options(**options).layers[0][0]
    if projected:
        inputs_of = ("weight_ih", "weight_i", "weight_f", "weight_z", "weight_o")
        absent: Any = {name: None for name in inputs_of if hasattr(weights, name)}
        weights = dataclasses.replace(weights, **absent)
    rows, sequences = sum(lengths), len(lengths)

    def draw(count: int, width: int) -> Array:
        return rng.normal(size=(count, width)).astype(dtype)

    data, names = draw(rows, weights.input_size), ("hidden", "cell")[: len(weights.state_sizes)]
    sizes = weights.state_sizes
    begin = dict(zip(names, initial_states(weights, sequences, rng, dtype), strict=True))
    grads: dict[str, Any] = {
        f"grad_last_{name}": draw(sequences, size) for name, size in zip(names, sizes, strict=True)
    }
    grads |= {"grad_outputs": draw(rows, hidden)}
    if len(sizes) == 2:
        grads["grad_cells"] = draw(rows, sizes[1])
    return Problem(
        data, offsets_of(lengths), weights, States(**begin) if states else States(), reverse, grads
    )


def check(given: Problem, threads: int = 1) -> None:
    """Compare the compiled engine with the reference."""
    tolerance = TOLERANCE[given.data.dtype.name]
    wanted, found = given.solve("numpy"), given.solve("numba", threads)
    assert wanted.keys() == found.keys()
    for name, expected in wanted.items():
        got = found[name]
        if expected is None or got is None:
            assert expected is got, name
            continue
        assert got.dtype == expected.dtype, name
        # Of a sum that cancels, what counts is the size of its parts.
        scale = 1 + np.max(np.abs(expected), initial=0)
        close(got / scale, expected / scale, tolerance, name)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("cell", "dtype"), slow_except(COMPILED, product(CELLS, TOLERANCE)))
def test_results_and_gradients_are_those_of_the_reference(
    cell: str, dtype: str, reverse: bool
) -> None:
    # One unit; a vector's width less and more one; several panels and a part of one.
    for hidden, inputs in ((1, 1), (15, 3), (17, 33), (64, 16), (70, 130)):
        check(problem(cell, LENGTHS, hidden=hidden, inputs=inputs, dtype=dtype, reverse=reverse))


@pytest.mark.parametrize("cell", ["lstm", "gru", "tanh", "slstm"])
def test_projected_inputs_missing_biases_and_states_are_those_of_the_reference(cell: str) -> None:
    for hidden in (5, 64):
        check(problem(cell, LENGTHS, hidden=hidden, inputs=9, projected=True))
        check(problem(cell, LENGTHS, hidden=hidden, inputs=9, bias=False, states=False))


@pytest.mark.parametrize("cell", ["lstm", "gru", "tanh", "slstm"])
@pytest.mark.parametrize("lengths", [[], [0, 0], [1], [0, 400, 0], [1] * 70, [2, 90, 1]], ids=str)
def test_unusual_batches_are_those_of_the_reference(cell: str, lengths: list[int]) -> None:
    check(problem(cell, lengths, hidden=6, inputs=4), threads=2)


@settings(max_examples=60)
@given(
    st.sampled_from(["lstm", "gru", "tanh"]),
    st.lists(st.integers(0, 12), max_size=20),
    st.integers(1, 40),
    st.integers(1, 40),
    st.booleans(),
    st.booleans(),
    st.integers(1, 3),
)
def test_any_batch_is_that_of_the_reference(
    cell: str,
    lengths: list[int],
    hidden: int,
    inputs: int,
    reverse: bool,
    projected: bool,
    threads: int,
) -> None:
    given = problem(
        cell, lengths, hidden=hidden, inputs=inputs, reverse=reverse, projected=projected
    )
    check(given, threads)


@pytest.mark.usefixtures("few_operations_are_shared")
@pytest.mark.parametrize(
    ("cell", "dtype"), slow_except(COMPILED, product(["lstm", "gru", "tanh", "slstm"], TOLERANCE))
)
# Shared out by sequences; and by units, there being too few sequences.
@pytest.mark.parametrize("lengths", [[9, 3, 0, 7, 7, 1, 12, 8, 8, 2, 5], [30], [25, 6]], ids=str)
def test_no_result_depends_on_the_number_of_threads(
    cell: str, dtype: str, lengths: list[int]
) -> None:
    given = problem(cell, lengths, hidden=150, inputs=21, dtype=dtype)
    alone = given.solve("numba", threads=1)
    for threads in (2, 3):
        for name, found in given.solve("numba", threads=threads).items():
            np.testing.assert_array_equal(found, alone[name], err_msg=f"{name}, {threads}")


def multiply_in_blocks(monkeypatch: pytest.MonkeyPatch, blocked: bool) -> None:
    """Have all weights multiplied in blocks, or none."""
    from lodcli.kernels.rnn.engine.native import tuning

    monkeypatch.setattr(tuning, "most_unblocked_bytes", lambda: -1 if blocked else math.inf)


def take_few_rows(monkeypatch: pytest.MonkeyPatch, few: bool) -> None:
    """Have a step take few rows at a time, whatever the weights take of the cache, or many."""
    from lodcli.kernels.rnn.engine.native import tuning

    monkeypatch.setattr(tuning, "most_beside_rows_bytes", lambda: math.inf if few else -1)


@pytest.mark.usefixtures("few_operations_are_shared")
@pytest.mark.parametrize(
    ("cell", "dtype"), slow_except(COMPILED, product(["lstm", "gru", "tanh", "slstm"], TOLERANCE))
)
# More than the tiles of a block take; and one, which takes panels there and back.
@pytest.mark.parametrize("lengths", [[9, 3, 0, 7] * 40, [30]], ids=["many", "one"])
def test_no_result_depends_on_how_the_cache_is_shared(
    monkeypatch: pytest.MonkeyPatch, cell: str, dtype: str, lengths: list[int]
) -> None:
    # Two blocks of k in each product, the second one odd; whole panels and a part of one.
    given = problem(cell, lengths, hidden=151, inputs=135, dtype=dtype)
    multiply_in_blocks(monkeypatch, False)
    take_few_rows(monkeypatch, False)
    whole = given.solve("numba")
    for blocked, few in ((True, False), (False, True)):
        multiply_in_blocks(monkeypatch, blocked)
        take_few_rows(monkeypatch, few)
        for threads in (1, 2):
            for name, found in given.solve("numba", threads).items():
                np.testing.assert_array_equal(found, whole[name], err_msg=f"{name}, {threads}")
        check(given)


@pytest.mark.usefixtures("few_operations_are_shared")
@pytest.mark.parametrize("cell", slow_except(["lstm"], ["lstm", "gru", "tanh"]))
@pytest.mark.parametrize(("blocked", "hidden"), [(False, 37), (True, 151)])
def test_no_sequence_depends_on_the_others_in_its_batch(
    monkeypatch: pytest.MonkeyPatch, cell: str, blocked: bool, hidden: int
) -> None:
    multiply_in_blocks(monkeypatch, blocked)
    lengths = [9, 3, 0, 7, 7, 1, 12, 8, 8, 2, 5]
    given = problem(cell, lengths, hidden=hidden, inputs=21, dtype="float32")
    together = given.solve("numba", threads=2)
    rng = np.random.default_rng(1)
    for order in (rng.permutation(len(lengths)), np.array([6]), np.array([2, 9])):
        rows = np.concatenate([np.arange(*given.offsets[s : s + 2]) for s in order])
        of = {n: a[order] for n, a in vars(given.states).items() if a is not None}
        part = dataclasses.replace(
            given,
            data=given.data[rows],
            offsets=offsets_of([lengths[s] for s in order]),
            states=States(**of),
            grads={
                name: None if grad is None else grad[order if "last" in name else rows]
                for name, grad in given.grads.items()
            },
        )
        found = part.solve("numba", threads=2)
        for name in ("outputs", "input"):
            wanted = together[name]
            assert wanted is not None
            np.testing.assert_array_equal(found[name], wanted[rows], err_msg=name)
        for name in ("last_hidden", "initial_hidden"):
            wanted = together[name]
            assert wanted is not None
            np.testing.assert_array_equal(found[name], wanted[order], err_msg=name)


def test_a_run_for_inference_is_that_for_training() -> None:
    for cell in ("lstm", "gru", "tanh"):
        given = problem(cell, LENGTHS, hidden=37, inputs=21)
        rest: dict[str, Any] = {"initial": given.states, "backend": "numba"}
        train = rnn_forward(given.data, given.offsets, given.weights, keep=True, **rest)
        infer = rnn_forward(given.data, given.offsets, given.weights, cells=False, **rest)
        assert infer.cells is None
        for name in ("outputs", "last_hidden", "last_cell"):
            np.testing.assert_array_equal(getattr(infer, name), getattr(train, name))


def test_missing_gradients_are_zeros() -> None:
    given = problem("lstm", LENGTHS, hidden=7, inputs=5)
    given.grads = {name: None for name in given.grads}
    found = given.solve("numba")
    for name in ("input", "initial_hidden", "gradient of weight_hh", "gradient of bias_ih"):
        array = found[name]
        assert array is not None
        assert not array.any()
    given.grads["grad_last_cell"] = np.ones((7, 7))
    check(given)


def test_a_tape_serves_twice_and_what_it_needs_cannot_be_overwritten() -> None:
    given = problem("gru", LENGTHS, hidden=7, inputs=5)
    run = rnn_forward(given.data, given.offsets, given.weights, keep=True, backend="numba")
    assert run.tape is not None
    first = rnn_backward(run.tape, grad_outputs=run.outputs)
    again = rnn_backward(run.tape, grad_outputs=run.outputs)
    np.testing.assert_array_equal(first.input, again.input)
    with pytest.raises(ValueError, match="read-only"):
        run.outputs[:] = 0


@pytest.mark.parametrize("cell", slow_except(["lstm"], [*CELLS, "mingru", "lru"]))
def test_a_tape_keeps_initial_states_of_its_own(cell: str) -> None:
    kind, options = CELLS.get(cell, (cell, {}))
    rng = np.random.default_rng(0)
    stack = seeded_weights(kind, 5, 7, rng=rng, dtype=np.float64).with_options(**options)
    weights = stack.layers[0][0]
    names = ("hidden", "cell")[: len(weights.state_sizes)]
    states = {
        name: rng.normal(size=(7, size))
        for name, size in zip(names, weights.state_sizes, strict=True)
    }
    data, offsets = rng.normal(size=(20, 5)), offsets_of(LENGTHS)
    run = rnn_forward(data, offsets, weights, initial=States(**states), keep=True, backend="numba")
    assert run.tape is not None
    wanted = rnn_backward(run.tape, grad_outputs=run.outputs).weights.arrays()
    for state in states.values():
        state[:] = 9
    for name, found in rnn_backward(run.tape, grad_outputs=run.outputs).weights.arrays().items():
        np.testing.assert_array_equal(found, wanted[name], err_msg=name)


@pytest.mark.parametrize("cell", ["lstm", "slstm"])
def test_rows_of_no_values_are_run_by_the_reference(cell: str) -> None:
    rng = np.random.default_rng(0)
    wide = seeded_weights(cell, 2, 7, rng=rng, dtype=np.float64).layers[0][0]
    names = ("weight_ih",) if cell == "lstm" else ("weight_i", "weight_f", "weight_z", "weight_o")
    none = {name: getattr(wide, name)[..., :0] for name in names}
    weights = dataclasses.replace(wide, **none)
    offsets, wanted = offsets_of(LENGTHS), rnn_forward(np.zeros((20, 2)), offsets_of(LENGTHS), wide)
    found = rnn_forward(np.zeros((20, 0)), offsets, weights, keep=True)
    close(found.outputs, wanted.outputs, 1e-12)
    assert found.tape is not None
    gradients = rnn_backward(found.tape, grad_outputs=found.outputs)
    assert gradients.input.shape == (20, 0)
    assert gradients.weights.input_size == 0
    with pytest.raises(UnsupportedError, match="rows of no values"):
        rnn_forward(np.zeros((20, 0)), offsets, weights, backend="numba")


def test_read_only_and_strided_input_is_left_alone() -> None:
    given = problem("lstm", LENGTHS, hidden=7, inputs=5)
    wanted = given.solve("numba")
    given.data = np.asfortranarray(given.data)
    arrays = [given.data, *given.weights.arrays().values()]
    arrays += [array for array in given.grads.values() if array is not None]
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    for name, found in given.solve("numba").items():
        np.testing.assert_array_equal(found, wanted[name], err_msg=name)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("cell", slow_except(["lstm"], CELLS))
def test_a_network_that_has_diverged_does_not_look_like_one_that_has_not(cell: str) -> None:
    given = problem(cell, [3], hidden=5, inputs=4, dtype="float32")
    given.data[1, 0] = np.nan
    outputs = given.solve("numba")["outputs"]
    assert outputs is not None
    assert np.isfinite(outputs[0]).all()
    assert np.isnan(outputs[1:]).all()


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tracemalloc see all memory: none comes from the system, or is reused."""
    monkeypatch.setattr(buffers, "empty", np.empty)
    monkeypatch.setattr(arrays, "_spare", {})
    monkeypatch.setattr(arrays, "_MOST_SPARE_BYTES", -1)


def test_memory_of_a_layer_is_reused_for_later_results() -> None:
    count, dtype = 20_000_000, np.dtype(np.float32)
    first = arrays.aligned(count, dtype)
    place = address(first)
    assert place % 64 == 0
    del first
    assert address(buffers.empty((count,), dtype)) == place


def test_memory_for_inference_does_not_grow_with_the_rows(traced: None) -> None:

    def scratch_bytes(rows: int) -> int:
        given = problem("lstm", [rows // 8] * 8, hidden=64, inputs=64, dtype="float32")
        tracemalloc.start()
        try:
            result = rnn_forward(
                given.data, given.offsets, given.weights, cells=False, backend="numba", threads=1
            )
            return tracemalloc.get_traced_memory()[1] - result.outputs.nbytes
        finally:
            tracemalloc.stop()

    scratch_bytes(800)  # compiles
    small, large = scratch_bytes(8_000), scratch_bytes(64_000)
    # Projected all at once, the larger one would take 14 MB times 4 more.
    assert large - small < 100_000


def test_memory_for_training_is_what_the_gates_take(traced: None) -> None:

    rows, hidden = 40_000, 32
    given = problem("lstm", [100] * (rows // 100), hidden=hidden, inputs=32, dtype="float32")
    given.solve("numba")
    tracemalloc.start()
    try:
        run = rnn_forward(
            given.data, given.offsets, given.weights, keep=True, backend="numba", threads=1
        )
        assert run.tape is not None
        back = rnn_backward(run.tape, grad_outputs=run.outputs, threads=1)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert run.cells is not None
    results = run.outputs.nbytes + run.cells.nbytes + back.input.nbytes
    gates = 4 * rows * hidden * 4
    # One chunk of slopes, 8 MiB, whatever the number of rows.
    assert peak_bytes - results - gates < 10 << 20


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_cell_that_is_not_compiled_is_refused_by_name_and_run_by_the_reference(
    variant: str,
) -> None:
    weights = cell_weights(variant, np.random.default_rng(0))
    data, offsets = np.ones((3, 5)), np.array([0, 3])
    if weights.is_plain:
        rnn_forward(data, offsets, weights, backend="numba")
        return
    with pytest.raises(UnsupportedError, match=f"no numba kernel for this {weights.KIND}"):
        rnn_forward(data, offsets, weights, backend="numba")
    rnn_forward(np.ones((3, 5)), offsets, weights)
