"""Gradients with products of bfloat16 by AMX: against steps by the book with rounded factors."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from lodcli import float32_products
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.rnn.engine.amx import availability
from lodcli.kernels.rnn.engine.engine import rnn_backward, rnn_forward
from lodcli.kernels.rnn.stack.chunked import Chunking, chunked_forward
from lodcli.kernels.rnn.stack.state_dict import weights_from_state_dict
from lodcli.kernels.runtime.precision import Precision
from tests.cells_rnn import cell_weights
from tests.kernels.rnn.engine.test_bfloat16 import rounded, with_amx
from tests.kernels.rnn.engine.test_compiled import LENGTHS, Problem, problem
from tests.oracles_rnn import Array, close, offsets_of
from tests.slow import slow_except

CELLS = ["lstm", "gru", "tanh", "slstm"]


def solve(given: Problem, threads: int = 1) -> tuple[Any, Any]:
    """Return the run and its gradients, both with rounded products."""
    with float32_products("bfloat16"):
        run = rnn_forward(
            given.data, given.offsets, given.weights, initial=given.states,
            reverse=given.reverse, keep=True, threads=threads,
        )  # fmt: skip
        assert run.tape is not None
        return run, rnn_backward(run.tape, threads=threads, **given.grads)


def alike(got: Array, wanted: Array, what: str, tolerance: float = 5e-6) -> None:
    """Compare sums that may cancel: what counts is the size of their parts."""
    scale = 1 + np.max(np.abs(wanted), initial=0)
    close(got / scale, wanted / scale, tolerance, what)


def _sigmoid(x: Array) -> Array:
    found: Array = 1 / (1 + np.exp(-x))
    return found


def slopes_by_the_book(
    kind: str, x: Array, inner: Array, h: Array, c: Array, dh: Array, dc: Array
) -> tuple[Array, Array, Array]:
    """Return the slopes of one step's projected input, and what goes past the product to h and c.

    Args:
        x, inner: the projected input, and the product with the state before; biases included.
    """
    if kind == "elman":
        return dh * (1 - np.tanh(x + inner) ** 2), np.zeros_like(dh), dc
    size = len(h)
    if kind == "lstm":
        a = (x + inner).reshape(4, size)
        i, f, g, o = _sigmoid(a[0]), _sigmoid(a[1]), np.tanh(a[2]), _sigmoid(a[3])
        shown = np.tanh(f * c + i * g)
        dc = dc + dh * o * (1 - shown**2)
        parts = [dc * g * i * (1 - i), dc * c * f * (1 - f), dc * i * (1 - g**2)]
        parts.append(dh * shown * o * (1 - o))
        return np.concatenate(parts), np.zeros_like(dh), dc * f
    a, b = x.reshape(3, size), inner.reshape(3, size)
    r, z = _sigmoid(a[0] + b[0]), _sigmoid(a[1] + b[1])
    n = np.tanh(a[2] + r * b[2])
    dn = dh * (1 - z) * (1 - n**2)
    parts = [dn * b[2] * r * (1 - r), dh * (h - n) * z * (1 - z), dn]
    return np.concatenate(parts), dh * z, dc


def check_steps(given: Problem, threads: int = 1) -> None:
    """Compare each step with one by the book that goes on from the slopes of the step after it.

    The inputs of `given` are projected already: their gradients are the slopes themselves.
    """
    run, back = solve(given, threads)
    size, weights = given.weights.hidden_size, given.weights
    matrix, kind = rounded(weights.weight_hh), weights.KIND
    none = np.zeros(len(matrix))
    biases = [none if b is None else b for b in (weights.bias_ih, weights.bias_hh)]
    slopes = back.input
    of_state = slopes.copy()
    if kind == "gru":  # what r multiplies has slopes of its own
        of_state[:, 2 * size :] *= run.tape.kept.gates.reshape(-1, 4 * size)[:, :size]
    flow = rounded(of_state) @ matrix
    before = np.zeros((len(slopes), size), np.float32)
    nothing = np.zeros(size)
    for number, (first, end) in enumerate(zip(given.offsets, given.offsets[1:], strict=False)):
        rows = list(range(first, end))[:: -1 if given.reverse else 1]
        begin, cell = (
            nothing if state is None else state[number]
            for state in (given.states.hidden, given.states.cell)
        )
        dh, dc = (
            nothing if given.grads.get(name) is None else given.grads[name][number]
            for name in ("grad_last_hidden", "grad_last_cell")
        )
        for place in range(len(rows) - 1, -1, -1):
            row = rows[place]
            h, c = (begin, cell) if place == 0 else (run.outputs[rows[place - 1]], nothing)
            if place and run.cells is not None:
                c = run.cells[rows[place - 1]]
            before[row] = h
            dh = dh + given.grads["grad_outputs"][row]
            if "grad_cells" in given.grads:
                dc = dc + given.grads["grad_cells"][row]
            x, inner = given.data[row] + biases[0], matrix @ rounded(h) + biases[1]
            wanted, past, dc = slopes_by_the_book(kind, x, inner, h, c, dh, dc)
            alike(slopes[row], wanted, f"slopes of row {row}")
            dh = flow[row] + past
        alike(back.initial_hidden[number], dh, f"initial state of {number}")
        if back.initial_cell is not None:
            alike(back.initial_cell[number], dc, f"initial cell of {number}")
    alike(back.weights.weight_hh, rounded(of_state).T @ rounded(before), "weight_hh")
    if weights.bias_hh is not None:
        alike(back.weights.bias_hh, of_state.sum(axis=0, dtype=np.float64), "bias_hh")
        alike(back.weights.bias_ih, slopes.sum(axis=0, dtype=np.float64), "bias_ih")


# A tile is 16 rows and 16 columns of a depth of 32; two of rows are multiplied at once.
@with_amx
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("cell", slow_except(["lstm", "gru"], ["lstm", "gru", "tanh"]))
def test_slopes_states_and_recurrent_weights_have_those_of_rounded_factors(
    cell: str, reverse: bool
) -> None:
    for hidden in (1, 15, 17, 32, 70):
        for lengths in (LENGTHS, [3] * 17 + [2] * 17):
            check_steps(
                problem(
                    cell, lengths, hidden=hidden, inputs=1, projected=True, dtype="float32",
                    reverse=reverse,
                )
            )  # fmt: skip


@with_amx
@pytest.mark.parametrize("chunk_bytes", [1, 1 << 16, 1 << 23])
def test_weights_are_those_of_rounded_factors_over_many_blocks_and_chunks(
    chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodcli.kernels.rnn.engine.native import collecting

    monkeypatch.setattr(collecting, "_CHUNK_BYTES", chunk_bytes)
    given = problem("gru", [41] * 29, hidden=20, inputs=1, projected=True, dtype="float32")
    check_steps(given, threads=2)


def _of_inputs(weights: Any) -> Array:
    """Return the weights of the inputs, of all gates."""
    arrays = weights.arrays()
    found = [arrays[f"weight_{gate}"] for gate in ("ih", *"ifzo") if f"weight_{gate}" in arrays]
    return np.concatenate([array.reshape(-1, array.shape[-1]) for array in found])


@with_amx
@pytest.mark.parametrize("cell", slow_except(["lstm", "gru"], CELLS))
@pytest.mark.parametrize("lengths", [LENGTHS, [1], [5] * 120], ids=len)
def test_inputs_and_their_weights_have_gradients_of_rounded_factors(
    cell: str, lengths: list[int]
) -> None:
    rows = sum(lengths)
    for hidden, others in ((9, 1), (33, 30)):
        given = problem(cell, lengths, hidden=hidden, inputs=rows + others, dtype="float32")
        # Row n of a unit matrix picks slope n out of the sum over all rows.
        given.data[:, :rows] = np.eye(rows)
        _, back = solve(given)
        found = _of_inputs(back.weights)
        slopes = found[:, :rows].T
        np.testing.assert_array_equal(slopes, rounded(slopes))
        alike(back.input, slopes @ rounded(_of_inputs(given.weights)), "input")
        data = rounded(given.data[:, rows:])
        alike(found[:, rows:], slopes.T.astype(np.float64) @ data, "weight_ih")


def gradients(found: Any) -> dict[str, Array]:
    arrays: dict[str, Array] = {"input": found.input, "initial_hidden": found.initial_hidden}
    if found.initial_cell is not None:
        arrays["initial_cell"] = found.initial_cell
    return {**arrays, **found.weights.arrays()}


@with_amx
@pytest.mark.usefixtures("few_operations_are_shared")
@pytest.mark.parametrize("cell", slow_except(["lstm", "gru"], CELLS))
@pytest.mark.parametrize("lengths", [[9, 3, 0, 7, 7, 1, 12] * 6, [30], [25, 6]], ids=len)
def test_no_gradient_depends_on_the_threads_and_none_of_a_row_on_other_sequences(
    cell: str, lengths: list[int]
) -> None:
    given = problem(cell, lengths, hidden=150, inputs=21, dtype="float32")
    wanted = solve(given)[1]
    for threads in (2, 3):
        found = gradients(solve(given, threads)[1])
        for name, array in gradients(wanted).items():
            np.testing.assert_array_equal(found[name], array, err_msg=name)
    for number, (first, end) in enumerate(zip(given.offsets, given.offsets[1:], strict=False)):
        found = gradients(solve(given.alone(number))[1])
        np.testing.assert_array_equal(found["input"], wanted.input[first:end])
        np.testing.assert_array_equal(found["initial_hidden"], wanted.initial_hidden[[number]])


@with_amx
@pytest.mark.parametrize("lengths", [[], [0, 0], [1], [1] * 70], ids=str)
def test_empty_and_short_batches_run(lengths: list[int]) -> None:
    given = problem("lstm", lengths, hidden=6, inputs=4, projected=True, dtype="float32")
    check_steps(given, threads=2)


@with_amx
def test_gradients_that_are_not_finite_stay_in_their_sequence() -> None:
    given = problem("gru", [5, 4, 6, 3], hidden=40, inputs=7, dtype="float32")
    wanted = solve(given)[1]
    for value in (np.nan, np.inf):
        outputs = given.grads["grad_outputs"].copy()
        outputs[6, 3] = value
        broken = dataclasses.replace(given, grads=given.grads | {"grad_outputs": outputs})
        found = solve(broken)[1]
        for rows in (slice(5), slice(9, None)):
            np.testing.assert_array_equal(found.input[rows], wanted.input[rows])
        assert np.isnan(found.input[5]).all()


def layer_of(model: Any, cell: str = "lstm") -> Any:
    """Return the weights of the first layer of a torch module, in float32."""
    arrays = {n: array.detach().float().numpy() for n, array in model.named_parameters()}
    return weights_from_state_dict(arrays, cell).layers[0][0]


# As torch initialises weights, from states of zeros; of the largest of each gradient.
@with_amx
@pytest.mark.parametrize(("cell", "bound"), [("lstm", 5e-3), ("gru", 5e-3), ("elman", 6e-3)])
def test_errors_are_those_that_are_documented_and_below_those_of_torch(
    cell: str, bound: float
) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    kind = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "elman": torch.nn.RNN}[cell]
    model = kind(200, 200).double()
    layer = layer_of(model, cell)
    data, upstream = torch.randn(20, 50, 200), torch.randn(20, 50, 200)

    def theirs(model: Any, dtype: Any) -> dict[str, Array]:
        model.zero_grad()
        rows = data.transpose(0, 1).to(dtype).requires_grad_(True)
        model(rows)[0].backward(upstream.transpose(0, 1).to(dtype))
        found = {name: getattr(model, f"{name}_l0").grad for name in layer.arrays()}
        found["input"] = rows.grad.transpose(0, 1).reshape(-1, 200)
        return {name: array.double().numpy() for name, array in found.items()}

    exact, rounder = theirs(model, torch.float64), theirs(model.bfloat16(), torch.bfloat16)
    with float32_products("bfloat16"):
        rows = data.reshape(-1, 200).numpy()
        run = rnn_forward(rows, np.arange(21) * 50, layer, keep=True)
        assert run.tape is not None
        back = rnn_backward(run.tape, grad_outputs=upstream.reshape(-1, 200).numpy())
    for name, array in exact.items():
        largest = np.abs(array).max()
        error = np.abs(gradients(back)[name] - array).max() / largest
        assert 1e-4 < error < bound, name
        assert error < np.abs(rounder[name] - array).max() / largest, name


@with_amx
@pytest.mark.parametrize("cell", slow_except(["lstm"], CELLS))
def test_a_backward_pass_rounds_if_it_runs_within_the_block(cell: str) -> None:
    given = problem(cell, LENGTHS, hidden=30, inputs=20, dtype="float32")
    run, within = solve(given)
    outside = rnn_backward(run.tape, **dict[str, Any](given.grads))
    found, exact = gradients(within), given.solve("numba")
    for name, array in gradients(outside).items():
        largest = np.abs(array).max()
        assert 0 < np.abs(found[name] - array).max() < 1e-2 * largest, name
    # The states are rounded ones all the same.
    assert 0 < np.abs(outside.input - exact["input"]).max() < 2e-2 * np.abs(outside.input).max()
    # The other way round: exact states, and rounded products of their gradients.
    run = rnn_forward(
        given.data, given.offsets, given.weights, initial=given.states, keep=True, backend="numba"
    )
    assert run.tape is not None
    with float32_products("bfloat16"):
        rounding = rnn_backward(run.tape, **dict[str, Any](given.grads))
    assert 0 < np.abs(rounding.input - exact["input"]).max() < 1e-2 * np.abs(rounding.input).max()


_BOTH_WAYS: tuple[tuple[Precision, Precision], ...] = (
    ("bfloat16", "float32"),
    ("float32", "bfloat16"),
)


@with_amx
def test_a_checkpoint_is_computed_again_as_it_was() -> None:
    given = problem("lstm", LENGTHS, hidden=30, inputs=20, dtype="float32")
    by_row = given.grads["grad_outputs"]
    found = []
    for chunking in (Chunking(truncate=100), Chunking(checkpoint=100)):
        for there, back in _BOTH_WAYS:
            with float32_products(there):
                run = chunked_forward(
                    given.data, given.offsets, given.weights, chunking=chunking, backend="numba"
                )
            assert run.tape is not None
            with float32_products(back):
                found.append(gradients(rnn_backward(run.tape, grad_outputs=by_row)))
    for kept, computed_again in ((found[0], found[2]), (found[1], found[3])):
        for name, array in kept.items():
            np.testing.assert_array_equal(computed_again[name], array, err_msg=name)
    assert not np.array_equal(found[0]["input"], found[1]["input"])


@with_amx
def test_torch_rounds_in_a_backward_pass_within_the_block() -> None:
    torch = pytest.importorskip("torch")
    from lodcli.torch import LSTM

    torch.manual_seed(0)
    layer, rows, upstream = LSTM(20, 30), torch.randn(25, 3, 20), torch.randn(25, 3, 30)

    weight: Any = dict(layer.named_parameters())["weight_hh_l0"]

    def gradient(within: bool) -> Array:
        layer.zero_grad()
        with float32_products("bfloat16"):
            loss = (layer(rows)[0] * upstream).sum()
            if within:
                loss.backward()
        if not within:
            loss.backward()
        found: Array = weight.grad.numpy().copy()
        return found

    with float32_products("bfloat16"):
        weights, x = layer_of(layer), rows.transpose(0, 1).reshape(-1, 20).numpy()
        run = rnn_forward(x, np.arange(4) * 25, weights, keep=True)
    assert run.tape is not None
    by_row = upstream.transpose(0, 1).reshape(-1, 30).numpy()
    exact = rnn_backward(run.tape, grad_outputs=by_row).weights.weight_hh
    np.testing.assert_array_equal(gradient(within=False), exact)
    assert 0 < np.abs(gradient(within=True) - exact).max() < 1e-2 * np.abs(exact).max()


# -- Where it cannot be done -------------------------------------------------------------


@pytest.fixture
def no_amx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "amx_problem", lambda: "no amx_tile here")


def backward(given: Problem, backend: Any) -> None:
    run = rnn_forward(given.data, given.offsets, given.weights, keep=True, backend=backend)
    assert run.tape is not None
    with float32_products("bfloat16"):
        rnn_backward(run.tape, grad_outputs=np.ones_like(run.outputs))


def small() -> Problem:
    return problem("gru", [2, 1], hidden=3, inputs=2, dtype="float32")


@pytest.mark.usefixtures("no_amx")
def test_a_processor_without_amx_is_an_error() -> None:
    with pytest.raises(UnsupportedError, match="on a CPU needs AMX: no amx_tile here; use float32"):
        backward(small(), "numba")


@with_amx
def test_a_pass_forward_by_numpy_is_an_error() -> None:
    with pytest.raises(UnsupportedError, match=r"NumPy has run this layer .* backend numba"):
        backward(small(), "numpy")


@pytest.mark.parametrize("variant", ["lstm-peepholes", "mingru"])
def test_a_cell_without_rounded_products_is_an_error(variant: str) -> None:
    weights = cell_weights(variant, np.random.default_rng(0), dtype="float32")
    data = np.zeros((2, 5), np.float32)
    given = dataclasses.replace(small(), data=data, offsets=offsets_of([2]), weights=weights)
    with pytest.raises(UnsupportedError, match="has no kernel for it, only a plain lstm"):
        backward(given, "numpy")


def test_float64_is_exact() -> None:
    given = problem("lstm", LENGTHS, hidden=5, inputs=3)
    exact, found = given.solve("auto"), gradients(solve(given)[1])
    np.testing.assert_array_equal(found["input"], exact["input"])
