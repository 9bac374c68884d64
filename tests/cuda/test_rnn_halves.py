"""RNNs of rows of two bytes, against NumPy's; with tests/cuda/host on the path, on the CPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

cupy: Any = pytest.importorskip("cupy")
from lodcli.kernels.cuda import launch  # noqa: E402
from lodcli.kernels.rnn.engine.cupy import costs, persistent, ways  # noqa: E402
from lodcli.kernels.rnn.engine.engine import States, rnn_backward, rnn_forward  # noqa: E402
from lodcli.kernels.rnn.stack.chunked import Chunking, chunked_forward  # noqa: E402
from tests.cuda.problem_rnn import LENGTHS, Problem, check, choose  # noqa: E402
from tests.oracles_rnn import close  # noqa: E402

pytestmark = pytest.mark.gpu

# Values saved for the backward pass are rounded once, as are those passed on in each of
# seven steps: a few halves of the last digit.
TOLERANCES = {"float16": 4e-3, "bfloat16": 4e-2}


@pytest.fixture(autouse=True)
def estimated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use estimated costs, without cached decisions before and after the test; without clusters."""
    monkeypatch.setenv("LOD_GPU_COSTS", "estimated")
    monkeypatch.setattr(costs, "CLUSTERS", (0,))
    ways._decided.cache_clear()
    yield
    ways._decided.cache_clear()


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Return the list of the types of each launch of all steps, and of its arrays."""
    seen: list[tuple[str, Any]] = []

    def noted(space: Any, way: Any) -> None:
        seen.append((way.fit.types.rpartition(", ")[2], space))
        run(space, way)

    run = persistent.run_steps
    monkeypatch.setattr(persistent, "run_steps", noted)
    return seen


def _bytes(space: Any) -> dict[str, int]:
    """Return the bytes of a value of each array of a run that has a row for each of the data."""
    rows = int(space.order.plan.lengths.sum())
    kept = getattr(space, "kept", None)
    arrays = vars(space) | ({} if kept is None else kept._asdict())
    return {
        name: array.itemsize
        for name, array in arrays.items()
        if isinstance(array, cupy.ndarray) and len(array) == rows
    }


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("variant", ["elman-tanh", "gru", "gru-without-bias", "lstm"])
def test_rows_stay_of_two_bytes_forward_and_back(
    variant: str, reverse: bool, dtype: str, launched: list[Any]
) -> None:
    problem = Problem(variant, dtype, LENGTHS, hidden=20)
    wanted = problem.solve(np.asarray, reverse=reverse)
    check(problem.solve(cupy.asarray, reverse=reverse), wanted, TOLERANCES[dtype])
    assert [types for types, _ in launched] == [dtype, dtype]
    for _, space in launched:
        found = _bytes(space)
        assert {"projected", "outputs"} <= found.keys() or {"gradients", "by_row"} <= found.keys()
        assert set(found.values()) == {2}, found
    back = launched[1][1]
    # What is added up from step to step is float32.
    assert back.flow.dtype == back.carried.dtype == np.float32


@pytest.mark.parametrize(
    ("hidden", "units", "tall"), [(21, 4, 8), (24, 8, 8), (68, 16, 32), (1, 4, 8)]
)
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_of_any_size_and_however_it_is_dealt_out(
    dtype: str,
    hidden: int,
    units: int,
    tall: int,
    launched: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(costs, "UNITS", (units,))
    monkeypatch.setattr(costs, "ROWS", (tall,))
    choose(monkeypatch, 0, rest=True)
    few = launch.limits()._replace(multiprocessors=6)
    monkeypatch.setattr(ways, "limits", lambda: few)
    lengths = [5, 1, 0, 3, *[2] * 18]
    problem = Problem("lstm", dtype, lengths, hidden=hidden)
    wanted = problem.solve(np.asarray, reverse=False)
    check(problem.solve(cupy.asarray, reverse=False), wanted, TOLERANCES[dtype])
    assert [types for types, _ in launched] == [dtype, dtype]


@pytest.mark.parametrize("places", [0, 1])
def test_projected_inputs_may_begin_anywhere(places: int, launched: list[Any]) -> None:
    problem = Problem("gru", "float16", LENGTHS, hidden=6)
    weights = dataclasses.replace(problem.weights, weight_ih=None)
    rng = np.random.default_rng(1)
    values = rng.normal(size=int(problem.offsets[-1]) * 18 + places).astype(np.float16)
    wanted = rnn_forward(values[places:].reshape(-1, 18), problem.offsets, weights).outputs
    there = weights.moved(cupy.asarray)
    given = cupy.asarray(values)[places:].reshape(-1, 18)
    found = rnn_forward(given, problem.offsets, there)
    close(cupy.asnumpy(found.outputs), wanted, TOLERANCES["float16"], "outputs")
    assert [types for types, _ in launched] == ["float16"]


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    "variant", ["lstm-peepholes", "lstm-projection", "paddle-gru", "slstm", "mingru"]
)
def test_other_cells_compute_with_float32_rows(
    variant: str, dtype: str, launched: list[Any]
) -> None:
    problem = Problem(variant, dtype, LENGTHS, hidden=8)
    wanted = problem.solve(np.asarray, reverse=False)
    check(problem.solve(cupy.asarray, reverse=False), wanted, TOLERANCES[dtype])
    assert dtype not in {types for types, _ in launched}


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("rest", [False, True])
def test_steps_by_cublas_compute_with_float32_rows(
    dtype: str, rest: bool, launched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(monkeypatch, 3, rest=rest)
    problem = Problem("lstm", dtype, LENGTHS, hidden=8)
    wanted = problem.solve(np.asarray, reverse=True)
    check(problem.solve(cupy.asarray, reverse=True), wanted, TOLERANCES[dtype])
    number = {"float16": "Rounded<FP16>", "bfloat16": "Rounded<BF16>"}[dtype]
    assert [types for types, _ in launched] == [number, number] * rest


@pytest.mark.parametrize("first", [True, False])
def test_one_pass_in_two_bytes_and_the_other_in_four(first: bool, launched: list[Any]) -> None:
    problem = Problem("gru", "float16", LENGTHS, hidden=8)
    wanted = problem.solve(np.asarray, reverse=False)
    weights = problem.weights.moved(cupy.asarray)
    given = cupy.asarray(problem.data), problem.offsets, weights
    initial = States(hidden=cupy.asarray(problem.states[0]))
    if first:
        run = rnn_forward(*given, initial=initial, keep=True)
    else:
        with ways.step_by_step():
            run = rnn_forward(*given, initial=initial, keep=True)
    assert run.tape is not None
    by = {
        "grad_outputs": cupy.asarray(problem.by_row[0]),
        "grad_last_hidden": cupy.asarray(problem.by_sequence[0]),
    }
    if first:
        with ways.step_by_step():
            found = rnn_backward(run.tape, **by)
    else:
        found = rnn_backward(run.tape, **by)
    close(cupy.asnumpy(found.input), wanted["input"], TOLERANCES["float16"], "input")
    # A forward pass in float32 has left float32.
    assert [types for types, _ in launched] == ["float16" if first else "Rounded<FP16>"]


def test_an_old_gpu_computes_exactly_with_float32_rows(
    launched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = launch.limits()._replace(capability=(7, 5))
    monkeypatch.setattr(ways, "limits", lambda: old)
    problem = Problem("lstm", "bfloat16", LENGTHS, hidden=8)
    wanted = problem.solve(np.asarray, reverse=False)
    found = problem.solve(cupy.asarray, reverse=False)
    check(found, wanted, TOLERANCES["bfloat16"])
    assert [types for types, _ in launched] == ["Exact<float>", "Exact<float>"]


def test_a_way_is_observed_once() -> None:
    problem = Problem("lstm", "float16", LENGTHS, hidden=8)
    for steps in (False, True):
        with ways.observed() as found:
            if steps:
                with ways.step_by_step():
                    problem.solve(cupy.asarray, reverse=False)
            else:
                problem.solve(cupy.asarray, reverse=False)
        assert len(found) == 2  # forward and back


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("checkpoint", [3, None])
def test_chunks_use_tensor_cores_as_a_whole_run_does(
    checkpoint: int | None, dtype: str, launched: list[Any]
) -> None:
    problem = Problem("lstm", dtype, LENGTHS, hidden=8)
    wanted = problem.solve(np.asarray, reverse=False)
    states = [cupy.asarray(each) for each in problem.states]
    run = chunked_forward(
        cupy.asarray(problem.data),
        problem.offsets,
        problem.weights.moved(cupy.asarray),
        chunking=Chunking(checkpoint=checkpoint),
        initial=States(hidden=states[0], cell=states[1]),
    )
    forward = len(launched)
    assert forward == len(run.tape.kept.chunks) == (3 if checkpoint else 1)
    found = rnn_backward(
        run.tape,
        grad_outputs=cupy.asarray(problem.by_row[0]),
        grad_cells=cupy.asarray(problem.by_row[1]),
        grad_last_hidden=cupy.asarray(problem.by_sequence[0]),
        grad_last_cell=cupy.asarray(problem.by_sequence[1]),
    )
    for name, array in {"outputs": run.outputs, "input": found.input}.items():
        assert array.dtype == dtype
        close(cupy.asnumpy(array), wanted[name], TOLERANCES[dtype], name)
    number = {"float16": "Rounded<FP16>", "bfloat16": "Rounded<BF16>"}[dtype]
    recomputed = forward if checkpoint else 0
    assert [types for types, _ in launched] == [number] * (2 * forward + recomputed)
