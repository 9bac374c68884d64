"""Products of bfloat16 by AMX: against steps by the book with rounded factors, and torch."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli import LoDTensor, float32_products
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.rnn.engine.amx import availability
from lodcli.kernels.rnn.engine.engine import States, rnn_forward
from lodcli.kernels.rnn.stack.run import run_rnn
from lodcli.kernels.rnn.stack.stack import seeded_weights
from tests.cells_rnn import cell_weights
from tests.kernels.rnn.engine.test_compiled import LENGTHS, Problem, problem
from tests.oracles_rnn import Array, close, offsets_of, rnn_by_the_book
from tests.slow import slow_except

_PROBLEM = availability.amx_problem()
with_amx = pytest.mark.skipif(_PROBLEM is not None, reason=f"needs AMX: {_PROBLEM}")
CELLS = ["lstm", "gru", "tanh", "slstm"]


def rounded(values: Array) -> Array:
    """Return float32 numbers rounded to bfloat16, ties to even, as float64."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    near = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16
    return near.astype(np.uint32).view(np.float32).astype(np.float64)


def with_rounded_factors(weights: Any) -> Any:
    """Return weights in float64, those that are multiplied rounded; biases as they are."""
    return dataclasses.replace(
        weights,
        **{
            name: array.astype(np.float64) if "bias" in name else rounded(array)
            for name, array in weights.arrays().items()
        },
    )


def forward(given: Problem, threads: int = 1) -> Any:
    with float32_products("bfloat16"):
        return rnn_forward(
            given.data, given.offsets, given.weights, initial=given.states,
            reverse=given.reverse, threads=threads,
        )  # fmt: skip


def check_steps(given: Problem, threads: int = 1) -> None:
    """Compare every step with one by the book, from the same state before."""
    run, weights = forward(given, threads), with_rounded_factors(given.weights)
    assert run.outputs.dtype == np.float32
    size = given.weights.hidden_size
    cells = np.zeros_like(run.outputs) if run.cells is None else run.cells
    for number, (first, end) in enumerate(zip(given.offsets, given.offsets[1:], strict=False)):
        h, c = (
            np.zeros(width) if state is None else state[number]
            for state, width in (
                (given.states.hidden, size),
                (given.states.cell, cells.shape[1]),
            )
        )
        for row in range(first, end)[:: -1 if given.reverse else 1]:
            x, before = rounded(given.data[row]), rounded(h)
            (hidden,), (cell,), *_ = rnn_by_the_book(
                [x[None]], weights, hidden=before[None], cell=c[None].astype(np.float64)
            )
            if given.weights.KIND == "gru":  # whose state is passed on without rounding
                z = slice(size, 2 * size)
                share = weights.weight_ih[z] @ x + weights.weight_hh[z] @ before
                share += weights.bias_ih[z] + weights.bias_hh[z]
                hidden = hidden + (h - before) / (1 + np.exp(-share))
            close(run.outputs[row], hidden[0], 5e-6, f"row {row}")
            if run.cells is not None:
                close(run.cells[row], cell[0], 5e-6, f"cell {row}")
            h, c = run.outputs[row], cells[row]
        np.testing.assert_array_equal(run.last_hidden[number], h)


# A tile is 16 rows and 16 columns of a depth of 32; two of rows are multiplied at once.
@with_amx
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cell", slow_except(["lstm", "gru"], [*CELLS, "relu", "identity"]))
def test_a_step_is_that_of_rounded_factors(cell: str, reverse: bool) -> None:
    for hidden, inputs in ((1, 1), (15, 3), (17, 33), (32, 64), (70, 130)):
        check_steps(
            problem(cell, LENGTHS, hidden=hidden, inputs=inputs, dtype="float32", reverse=reverse)
        )


@with_amx
@settings(max_examples=25)
@given(
    st.sampled_from(["lstm", "gru"]),
    st.lists(st.integers(0, 4), max_size=40),
    st.integers(1, 40),
    st.integers(1, 40),
    st.booleans(),
    st.integers(1, 3),
)
def test_any_batch_is_that_of_rounded_factors(
    cell: str, lengths: list[int], hidden: int, inputs: int, reverse: bool, threads: int
) -> None:
    given = problem(cell, lengths, hidden=hidden, inputs=inputs, dtype="float32", reverse=reverse)
    check_steps(given, threads)


@with_amx
@pytest.mark.parametrize("cell", slow_except(["lstm"], ["lstm", "gru", "tanh"]))
def test_projected_inputs_are_not_rounded(cell: str) -> None:
    given = problem(cell, LENGTHS, hidden=20, inputs=9, projected=True, dtype="float32")
    given.states = States()
    ones = [row for row, length in zip(given.offsets, LENGTHS, strict=False) if length]
    # The states before the first steps are zeros: nothing is multiplied in them.
    exact = rnn_forward(given.data, given.offsets, given.weights, backend="numba").outputs
    np.testing.assert_array_equal(forward(given).outputs[ones], exact[ones])


@with_amx
@pytest.mark.usefixtures("few_operations_are_shared")
@pytest.mark.parametrize("cell", slow_except(["lstm", "gru"], CELLS))
@pytest.mark.parametrize("lengths", [[9, 3, 0, 7, 7, 1, 12] * 6, [30], [25, 6]], ids=len)
def test_no_row_depends_on_the_threads_or_the_other_sequences(
    cell: str, lengths: list[int]
) -> None:
    given = problem(cell, lengths, hidden=150, inputs=21, dtype="float32")
    wanted = forward(given)
    for threads in (2, 3):
        found = forward(given, threads)
        np.testing.assert_array_equal(found.outputs, wanted.outputs)
        np.testing.assert_array_equal(found.last_hidden, wanted.last_hidden)
    for number, (first, end) in enumerate(zip(given.offsets, given.offsets[1:], strict=False)):
        np.testing.assert_array_equal(
            forward(given.alone(number)).outputs, wanted.outputs[first:end]
        )


@with_amx
@pytest.mark.parametrize("lengths", [[], [0, 0], [1], [1] * 70], ids=str)
def test_empty_and_short_batches_run(lengths: list[int]) -> None:
    check_steps(problem("lstm", lengths, hidden=6, inputs=4, dtype="float32"), threads=2)


@with_amx
def test_numbers_that_are_not_finite_stay_in_their_sequence() -> None:
    given = problem("lstm", [5, 4, 6, 3], hidden=40, inputs=7, dtype="float32")
    wanted = forward(given).outputs
    for value in (np.nan, np.inf, np.uint32(0x7F800001).view(np.float32)):
        data = given.data.copy()
        data[6, 3] = value
        found = forward(dataclasses.replace(given, data=data)).outputs
        np.testing.assert_array_equal(found[:6], wanted[:6])
        np.testing.assert_array_equal(found[9:], wanted[9:])
        assert np.isnan(found[6:9]).all() or np.isinf(value)
    broken = given.weights.arrays()["weight_ih"].copy()
    broken[0, 0] = np.uint32(0x7F800001).view(np.float32)
    weights = dataclasses.replace(given.weights, weight_ih=broken)
    assert np.isnan(forward(dataclasses.replace(given, weights=weights)).outputs[:, 0]).all()


@with_amx
def test_numbers_below_the_normal_ones_are_zeros_in_products() -> None:
    given = problem("identity", [1], hidden=3, inputs=2, dtype="float32", states=False, bias=False)
    weights = dataclasses.replace(given.weights, weight_ih=np.full((3, 2), 1e38, np.float32))
    given = dataclasses.replace(given, weights=weights)
    small = dataclasses.replace(given, data=np.full((1, 2), 1e-39, np.float32))
    assert (forward(small).outputs == 0).all()
    normal = dataclasses.replace(given, data=np.full((1, 2), 2e-38, np.float32))
    close(forward(normal).outputs, np.full((1, 3), 4.0), 4e-3)


# As torch initialises weights, from states of zeros.
@with_amx
@pytest.mark.parametrize(("cell", "bound"), [("lstm", 4e-3), ("gru", 5e-3), ("elman", 1e-2)])
def test_errors_are_those_that_are_documented_and_below_those_of_torch(
    cell: str, bound: float
) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    kind = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "elman": torch.nn.RNN}[cell]
    model = kind(200, 200, dtype=torch.float64)
    weights = seeded_weights(cell, 200, 200, rng=np.random.default_rng(0), dtype="float32")
    layer = dataclasses.replace(
        weights.layers[0][0],
        **{
            name: getattr(model, f"{name}_l0").detach().float().numpy()
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        },
    )
    model = model.float().double()
    data = torch.randn(20, 50, 200)
    with torch.no_grad():
        exact = model(data.transpose(0, 1).double())[0]
        theirs = model.bfloat16()(data.transpose(0, 1).bfloat16())[0].double()
    with float32_products("bfloat16"):
        offsets = np.arange(21) * 50
        found = rnn_forward(data.reshape(-1, 200).numpy(), offsets, layer).outputs
    wanted = exact.transpose(0, 1).reshape(-1, 200).numpy()
    error = np.abs(found - wanted).max()
    assert 1e-4 < error < bound
    assert error < (theirs - exact).abs().max()


@with_amx
def test_all_layers_and_directions_are_rounded() -> None:
    rng = np.random.default_rng(3)
    weights = seeded_weights("gru", 12, 20, layers=2, bidirectional=True, rng=rng, dtype="float32")
    data = rng.standard_normal((9, 12)).astype(np.float32)
    tensor = LoDTensor(data, LoD.from_lengths([[4, 0, 5]]))
    with float32_products("bfloat16"):
        found = run_rnn(tensor, weights).all.data
        rows = data
        for directions in weights.layers:
            runs = [
                rnn_forward(rows, tensor.lod.levels[-1], one, reverse=bool(n)).outputs
                for n, one in enumerate(directions)
            ]
            rows = np.concatenate(runs, axis=1)
    np.testing.assert_array_equal(found, rows)
    exact = run_rnn(tensor, weights).all.data
    assert 0 < np.abs(found - exact).max() < 1e-2


@with_amx
def test_heads_of_an_slstm_are_rounded() -> None:
    rng = np.random.default_rng(4)
    weights = cell_weights("slstm-heads", rng, dtype="float32")
    data = rng.standard_normal((6, 5)).astype(np.float32)
    exact = rnn_forward(data, offsets_of([4, 2]), weights).outputs
    with float32_products("bfloat16"):
        found = rnn_forward(data, offsets_of([4, 2]), weights).outputs
    assert 0 < np.abs(found - exact).max() < 2e-2


@with_amx
def test_weights_that_change_are_packed_again() -> None:
    given = problem("lstm", LENGTHS, hidden=20, inputs=9, dtype="float32")
    before = forward(given).outputs
    for array in given.weights.arrays().values():
        array *= 2
    changed = forward(given).outputs
    assert np.abs(changed - before).max() > 1e-2
    frozen = dataclasses.replace(given, weights=given.weights.frozen())
    for _ in range(2):
        np.testing.assert_array_equal(forward(frozen).outputs, changed)


def test_float64_is_exact() -> None:
    given = problem("lstm", LENGTHS, hidden=5, inputs=3)
    exact = rnn_forward(given.data, given.offsets, given.weights).outputs
    with float32_products("bfloat16"):
        found = rnn_forward(given.data, given.offsets, given.weights).outputs
    np.testing.assert_array_equal(found, exact)


THREADS = """
import os
import numpy as np
from lodcli import float32_products
from lodcli.kernels.rnn.engine.native import schedule
from tests.kernels.rnn.engine.test_compiled import problem
from lodcli.kernels.rnn.engine.engine import rnn_forward
schedule._LEAST_WORK = 1
given = problem("lstm", [9, 8, 7, 9], hidden=33, inputs=5, dtype="float32")
def run(threads):
    return rnn_forward(
        given.data, given.offsets, given.weights, threads=threads, backend="numba"
    ).outputs
run(3)
with float32_products("bfloat16"):
    alone = run(1)
    assert np.array_equal(run(3), alone)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(run(3), alone) else 1)
    assert os.waitpid(child, 0)[1] == 0
print("same")
"""


@with_amx
def test_threads_and_processes_from_before_and_after_the_request_may_use_amx() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", THREADS], capture_output=True, text=True, check=False
    )
    assert done.stdout == "same\n", done.stderr


# -- Where it cannot be done -------------------------------------------------------------


@pytest.fixture
def no_amx(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(availability, "cpu_flags", lambda: frozenset({"avx512_bf16"}))
    availability._processor_problem.cache_clear()
    yield
    availability._processor_problem.cache_clear()


def small() -> Problem:
    return problem("gru", [2, 1], hidden=3, inputs=2, dtype="float32")


@pytest.mark.usefixtures("no_amx")
def test_a_processor_without_amx_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "_level_problem", lambda: None)
    with pytest.raises(UnsupportedError) as raised:
        forward(small())
    assert str(raised.value) == (
        "precision bfloat16 on a CPU needs AMX: this processor, or its system, has no amx_tile, "
        "amx_bf16; use float32, or a GPU"
    )


def test_a_system_that_refuses_amx_is_an_error(
    no_amx: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(availability, "_level_problem", lambda: None)
    monkeypatch.setattr(availability, "cpu_flags", lambda: frozenset(availability._FLAGS))
    monkeypatch.setattr(availability, "ask_for_tiles", lambda: "No space left on device")
    with pytest.raises(UnsupportedError, match=r"the system refuses it \(No space left on device"):
        forward(small())


@pytest.mark.parametrize(
    ("level", "said"), [("off", "no compiled kernels: LOD_NATIVE=off"), ("v2", "x86-64-v2")]
)
def test_kernels_that_are_switched_off_are_an_error(
    level: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodcli.kernels.native.processor import levels_here

    if level != "off" and len(levels_here()) < 2:
        pytest.skip("needs a processor with several levels")
    monkeypatch.setenv("LOD_NATIVE", level)
    with pytest.raises(UnsupportedError, match=said):
        forward(small())


@pytest.mark.parametrize("variant", ["lstm-peepholes", "lstm-projection", "paddle-gru", "mingru"])
def test_a_cell_without_rounded_products_is_an_error(variant: str) -> None:
    weights = cell_weights(variant, np.random.default_rng(0), dtype="float32")
    with (
        float32_products("bfloat16"),
        pytest.raises(UnsupportedError, match="has no kernel for it, only a plain lstm"),
    ):
        rnn_forward(np.zeros((2, 5), np.float32), offsets_of([2]), weights)


def test_the_reference_does_not_round() -> None:
    given = small()
    with (
        float32_products("bfloat16"),
        pytest.raises(UnsupportedError, match="expected backend auto or numba, found numpy"),
    ):
        rnn_forward(given.data, given.offsets, given.weights, backend="numpy")
