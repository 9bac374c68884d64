"""RNN layers on a GPU's arrays, against NumPy's; with tests/cuda/host on the path, on the CPU."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from lodcli import DynamicRNN, LoDTensor, TensorArray, Var, float32_products, while_loop
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.rnn.engine.engine import States, rnn_backward, rnn_forward
from lodcli.kernels.rnn.stack.chunked import Chunking
from lodcli.kernels.rnn.stack.run import run_rnn
from lodcli.kernels.rnn.stack.stack import seeded_weights, stack_backward, stack_forward
from tests.cells_rnn import VARIANTS
from tests.oracles_rnn import close, offsets_of

cupy: Any = pytest.importorskip("cupy")
from tests.cuda.problem_rnn import LENGTHS, TOLERANCES, Problem, check, choose  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def step_by_step() -> Iterator[None]:
    """Clear all caches before each test. For layers in one launch see test_persistent.py."""
    from lodcli.kernels.rnn.engine.cupy import graphs, ways

    graphs._graphs.clear()
    graphs._notes.clear()
    ways._decided.cache_clear()
    with ways.step_by_step():
        yield
    ways._decided.cache_clear()


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the names of all kernels that Python launches."""
    from lodcli.kernels.rnn.engine.cupy import product, table

    names: list[str] = []
    for module in (product, table):
        run = module.run

        def noted(file: str, kernel: str, *rest: Any, run: Any = run) -> None:
            names.append(kernel.partition("<")[0])
            run(file, kernel, *rest)

        monkeypatch.setattr(module, "run", noted)
    return names


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_results_and_gradients_agree_with_numpy(variant: str, reverse: bool) -> None:
    problem = Problem(variant, "float64", LENGTHS)
    wanted = problem.solve(np.asarray, reverse=reverse)
    check(problem.solve(cupy.asarray, reverse=reverse), wanted, TOLERANCES["float64"])


@pytest.mark.parametrize("variant", ["elman-tanh", "gru", "paddle-gru", "lstm", "slstm"])
def test_float32_agrees_with_numpy(variant: str) -> None:
    problem = Problem(variant, "float32", LENGTHS)
    wanted = problem.solve(np.asarray, reverse=False)
    check(problem.solve(cupy.asarray, reverse=False), wanted, TOLERANCES["float32"])


@pytest.mark.parametrize("variant", ["lstm-everything", "gru"])
@pytest.mark.parametrize("lengths", [[], [0, 0], [0, 3, 0]])
def test_batches_of_next_to_nothing(variant: str, lengths: list[int]) -> None:
    problem = Problem(variant, "float64", lengths)
    wanted = problem.solve(np.asarray, reverse=False)
    check(problem.solve(cupy.asarray, reverse=False), wanted, TOLERANCES["float64"])


@pytest.mark.parametrize("variant", ["elman-tanh", "gru", "paddle-gru", "lstm-everything"])
def test_from_the_third_time_on_a_graph_runs_on_whatever_arrays_it_is_given(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = counted(monkeypatch)
    for seed in range(3):
        problem = Problem(variant, "float64", LENGTHS, seed=seed)
        wanted = problem.solve(np.asarray, reverse=seed == 2)
        launched.clear()
        found = problem.solve(cupy.asarray, reverse=seed == 2)
        # First directly, then captured in a graph; after that Python launches no kernel.
        assert bool(launched) == (seed < 2)
        check(found, wanted, TOLERANCES["float64"])


def test_other_lengths_are_another_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = counted(monkeypatch)
    for lengths in ([3, 2], [3, 3], [4, 2], [3, 2, 1], [3, 2, 0]):
        problem = Problem("gru", "float64", lengths)
        launched.clear()
        wanted = problem.solve(np.asarray, reverse=False)
        check(problem.solve(cupy.asarray, reverse=False), wanted, TOLERANCES["float64"])
        # A product and a step in each direction; none for sequences that have ended.
        assert len(launched) == 4 * max(lengths)


def test_no_more_graphs_are_kept_than_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    from lodcli.kernels.rnn.engine.cupy import graphs

    monkeypatch.setattr(graphs, "MOST_GRAPHS", 2)
    for length, _ in itertools.product([1, 2, 3], range(2)):
        problem = Problem("elman-tanh", "float64", [length])
        wanted = problem.solve(np.asarray, reverse=False)
        check(problem.solve(cupy.asarray, reverse=False), wanted, TOLERANCES["float64"])
    assert len(graphs._graphs) == 2


@pytest.mark.parametrize("variant", ["gru", "paddle-gru", "lstm-everything"])
def test_large_steps_are_multiplied_by_cublas(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(monkeypatch, 1000)
    launched = counted(monkeypatch)
    problem = Problem(variant, "float64", LENGTHS)
    wanted = problem.solve(np.asarray, reverse=False)
    for _ in range(3):  # cupy cannot capture cuBLAS: launched again each time
        launched.clear()
        check(problem.solve(cupy.asarray, reverse=False), wanted, TOLERANCES["float64"])
        assert launched
        assert not {"product_few", "product_tiles"} & set(launched)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    ("rows", "columns", "depth"),
    [(1, 5, 3), (4, 17, 33), (8, 9, 64), (9, 64, 16), (33, 65, 17), (64, 3, 40), (40, 130, 7)],
)
def test_products_of_all_shapes(rows: int, columns: int, depth: int, dtype: str) -> None:
    from lodcli.kernels.rnn.engine.cupy.product import product
    from lodcli.kernels.rnn.engine.cupy.table import Table

    rng, table = np.random.default_rng(0), Table()
    left = rng.normal(size=(rows + 3, depth)).astype(dtype)
    right = rng.normal(size=(columns, depth)).astype(dtype)
    out = cupy.asarray(np.full((rows + 3, columns), 7, dtype))
    table.add(1, 2, 3)  # others come before
    made = product(table, cupy.asarray(left), cupy.asarray(right), out)
    made.launch(rows, by_cublas=False)(cupy.asarray(table.words()))
    close(out.get()[:rows], left[:rows] @ right.T, TOLERANCES[dtype])
    assert (out.get()[rows:] == 7).all()


@pytest.mark.parametrize(("precision", "digits"), [("tf32", 11), ("float16", 11), ("bfloat16", 8)])
@pytest.mark.parametrize(
    ("rows", "columns", "depth"), [(9, 64, 16), (33, 65, 17), (40, 130, 100), (64, 3, 36)]
)
def test_products_of_fewer_digits_add_up_exactly(
    rows: int, columns: int, depth: int, precision: Any, digits: int
) -> None:
    from lodcli.kernels.rnn.engine.cupy.product import product
    from lodcli.kernels.rnn.engine.cupy.table import Table

    rng, table = np.random.default_rng(0), Table()
    left, right = (rng.normal(size=(n, depth)).astype("f") for n in (rows + 3, columns))
    out = cupy.asarray(np.full((rows + 3, columns), 7, "f"))
    made = product(table, cupy.asarray(left), cupy.asarray(right), out)
    with float32_products(precision):
        made.launch(rows, by_cublas=False)(cupy.asarray(table.words()))
    rounded = [_rounded(each, digits, precision) for each in (left[:rows], right)]
    close(out.get()[:rows], rounded[0] @ rounded[1].T, TOLERANCES["float32"])
    assert (out.get()[rows:] == 7).all()
    exact = left[:rows].astype("d") @ right.T.astype("d")
    assert np.abs(out.get()[:rows] - exact).max() > 1e-5


def _rounded(values: Any, digits: int, precision: str) -> Any:
    """Return float32 values rounded to this many bits, as float64; ties of tf32 away from zero."""
    parts, powers = np.frexp(values.astype("d"))
    parts *= 2**digits
    nearest = np.copysign(np.floor(np.abs(parts) + 0.5), parts)
    return np.ldexp(nearest if precision == "tf32" else np.round(parts), powers - digits)


def test_a_grid_holds_all_units_and_no_more_sequences_than_a_grid_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from lodcli.kernels.rnn.engine.cupy import table

    seen: list[Any] = []
    monkeypatch.setattr(table, "run", lambda *args: seen.append(args))
    words = cupy.asarray(np.arange(9))
    table.step_launch("rnn_step", "cell_step<float, GRU>", 4, 300, 70_000, 5, 70_000)(words)
    table.step_launch("rnn_step", "cell_step<float, GRU>", 4, 5, 20, 0, 20)(words)
    (file, kernel, grid, block, struct, *numbers), other = seen
    assert (file, kernel, numbers) == ("rnn_step", "cell_step<float, GRU>", [5, 70_000])
    assert (grid, block) == ((2, 65535), (256, 1))
    assert struct.get().tolist() == [4, 5, 6, 7, 8]
    assert other[2:4] == ((1, 1), (8, 32))


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_a_product_takes_more_rows_than_the_second_axis_of_a_grid_has_tiles(
    precision: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodcli.kernels.rnn.engine.cupy import product as products
    from lodcli.kernels.rnn.engine.cupy.table import Table

    seen: list[Any] = []
    monkeypatch.setattr(products, "run", lambda *args: seen.append(args))
    one = cupy.asarray(np.zeros((1, 1), "f"))
    with float32_products(precision):
        made = products.product(Table(), one, one, one)
        made.launch(3_000_000, by_cublas=False)(cupy.asarray(np.zeros(3, np.int64)))
    assert seen[0][2] == (93_750, 1)


def test_a_tape_serves_twice() -> None:
    problem = Problem("lstm", "float64", LENGTHS)
    data = cupy.asarray(problem.data)
    run = rnn_forward(data, problem.offsets, problem.weights.moved(cupy.asarray), keep=True)
    assert run.tape is not None
    upstream = cupy.asarray(problem.by_row[0])
    first, again = (rnn_backward(run.tape, grad_outputs=upstream) for _ in range(2))
    np.testing.assert_array_equal(cupy.asnumpy(first.input), cupy.asnumpy(again.input))
    pair = [cupy.asnumpy(found.weights.weight_hh) for found in (first, again)]
    np.testing.assert_array_equal(*pair)


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("lengths", [LENGTHS, []])
def test_the_gradient_of_the_input_can_be_left_out(
    dtype: str, projected: bool, lengths: list[int]
) -> None:
    problem = Problem("lstm", dtype, lengths)
    weights, data = problem.weights, problem.data
    if projected:
        weights = dataclasses.replace(weights, weight_ih=None)
        data = np.repeat(data, 4, axis=1)[:, : weights.input_size]
    run = rnn_forward(cupy.asarray(data), problem.offsets, weights.moved(cupy.asarray), keep=True)
    upstream = cupy.asarray(problem.by_row[0])
    wanted = rnn_backward(run.tape, grad_outputs=upstream)
    found = rnn_backward(run.tape, grad_outputs=upstream, input_gradient=False)
    assert found.input is None
    assert wanted.input.shape == data.shape
    pairs = {
        name: (array, found.weights.arrays()[name])
        for name, array in wanted.weights.arrays().items()
    }
    pairs["initial_hidden"] = wanted.initial_hidden, found.initial_hidden
    pairs["initial_cell"] = wanted.initial_cell, found.initial_cell
    for name, (expected, array) in pairs.items():
        np.testing.assert_array_equal(cupy.asnumpy(array), cupy.asnumpy(expected), name)


@pytest.mark.parametrize("keep", [False, True])
def test_projected_data_are_left_as_they_are(keep: bool) -> None:
    problem = Problem("lstm", "float64", LENGTHS)
    weights, rng = problem.weights, np.random.default_rng(1)
    weights = type(weights)(weight_ih=None, weight_hh=weights.weight_hh)
    data = rng.normal(size=(len(problem.data), 12))
    there = cupy.asarray(data)
    found = rnn_forward(there, problem.offsets, weights.moved(cupy.asarray), keep=keep)
    wanted = rnn_forward(data, problem.offsets, weights, keep=keep)
    close(cupy.asnumpy(found.outputs), wanted.outputs, 1e-12)
    np.testing.assert_array_equal(there.get(), data)


def test_layers_and_directions_stay_on_the_device() -> None:
    rng = np.random.default_rng(3)
    weights = seeded_weights("lstm", 4, 6, layers=2, bidirectional=True, rng=rng, dtype=np.float64)
    words = LoDTensor(rng.normal(size=(sum(LENGTHS), 4)), [[5, 7], LENGTHS])
    hidden, cell = rng.normal(size=(2, 4, len(LENGTHS), 6))
    there = words.with_data(cupy.asarray(words.data))
    wanted = run_rnn(words, weights, initial_hidden=hidden, initial_cell=cell, keep=True)
    found = run_rnn(
        *(there, weights.moved(cupy.asarray)),
        initial_hidden=cupy.asarray(hidden),
        initial_cell=cupy.asarray(cell),
        keep=True,
    )
    assert found.all.lod is words.lod
    assert wanted.tape is not None
    assert found.tape is not None
    upstream = rng.normal(size=wanted.all.data.shape)
    back = stack_backward(wanted.tape, grad_outputs=upstream)
    there_back = stack_backward(found.tape, grad_outputs=cupy.asarray(upstream))
    pairs = [
        *((found.all.data, wanted.all.data), (found.last.data, wanted.last.data)),
        *((found.last_cell, wanted.last_cell), (there_back.input, back.input)),
        tuple(each.weights.layers[0][1].arrays()["weight_hh"] for each in (there_back, back)),
    ]
    for got, expected in pairs:
        assert isinstance(got, cupy.ndarray)
        close(got.get(), expected, 1e-12)


def test_chunks_stay_on_the_device() -> None:
    rng = np.random.default_rng(3)
    weights = seeded_weights("gru", 4, 3, rng=rng, dtype=np.float64)
    data, offsets = rng.normal(size=(sum(LENGTHS), 4)), offsets_of(LENGTHS)
    upstream = rng.normal(size=(len(data), 3))

    def gradients(move: Callable[[Any], Any]) -> Any:
        run = stack_forward(
            *(move(data), offsets, weights.moved(move)),
            keep=True,
            chunking=Chunking(checkpoint=2, truncate=3),
        )
        assert run.tape is not None
        return stack_backward(run.tape, grad_outputs=move(upstream))

    wanted, found = gradients(np.asarray), gradients(cupy.asarray)
    close(found.input.get(), wanted.input, 1e-12)
    one, other = (each.weights.layers[0][0].weight_hh for each in (found, wanted))
    close(one.get(), other, 1e-12)


def test_nothing_is_moved_unasked() -> None:
    problem = Problem("gru", "float64", [2, 1])
    there, weights = cupy.asarray(problem.data), problem.weights
    with pytest.raises(
        UnsupportedError, match=r"weight_ih_l0 is in main memory, the data are in a"
    ):
        rnn_forward(there, problem.offsets, weights, suffix="_l0")
    with pytest.raises(UnsupportedError, match=r"weights.moved.cupy.asnumpy"):
        rnn_forward(problem.data, problem.offsets, weights.moved(cupy.asarray))
    with pytest.raises(UnsupportedError, match=r"initial hidden: .* found it in main memory"):
        rnn_forward(
            *(there, problem.offsets, weights.moved(cupy.asarray)),
            initial=States(hidden=problem.states[0]),
        )


def test_a_loop_of_ones_own_runs_on_the_device() -> None:
    rng = np.random.default_rng(0)
    data, weight = rng.normal(size=(4, 3, 2)), rng.normal(size=(2, 2))

    def looped(move: Callable[[Any], Any]) -> Any:
        inputs, states = TensorArray.unstack(move(data)), TensorArray(size=4)
        step, w = Var(0), move(weight)
        loop = while_loop(loop_vars=[step])
        while loop:
            with loop.frame():
                loop.break_if(np.equal(step, 4))
                before = states.read(step - 1, move(np.zeros((3, 2))))
                states.write(step, np.tanh(np.matmul(before, w) + np.matmul(inputs.read(step), w)))
                step.update(step + 1)
        return states.stack().data

    found = looped(cupy.asarray)
    assert isinstance(found, cupy.ndarray)
    close(found.get(), looped(np.asarray), 1e-13)


def test_a_step_of_ones_own_runs_on_the_device() -> None:
    rng = np.random.default_rng(0)
    rows = LoDTensor(rng.normal(size=(sum(LENGTHS), 2)), [LENGTHS])

    def step(inputs: Any, memory: Any) -> Any:
        memory = inputs if memory is None else np.tanh(memory) + inputs
        return memory * 2, memory

    for reverse in (False, True):
        rnn = DynamicRNN(step, reverse=reverse)
        wanted, found = rnn(rows), rnn(rows.with_data(cupy.asarray(rows.data)))
        assert isinstance(found.all.data, cupy.ndarray)
        close(found.all.data.get(), wanted.all.data, 1e-13)
        close(cupy.asnumpy(found.last), wanted.last, 1e-13)
