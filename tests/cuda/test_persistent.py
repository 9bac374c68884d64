"""Layers that are one launch, against NumPy's; with tests/cuda/host on the path, on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lodcli import float32_products
from lodcli.kernels.errors import InvalidDataError, LaunchRefusedError, UnsupportedError
from lodcli.kernels.runtime.precision import PRECISIONS

cupy: Any = pytest.importorskip("cupy")
from lodcli.kernels.cuda import launch  # noqa: E402
from lodcli.kernels.rnn.engine.cupy import costs, graphs, persistent, ways  # noqa: E402
from lodcli.kernels.rnn.engine.cupy.dot import dot  # noqa: E402
from tests.cuda.problem_rnn import (  # noqa: E402
    LENGTHS,
    ROUNDED,
    TOLERANCES,
    Problem,
    check,
    choose,
)

pytestmark = pytest.mark.gpu


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Return the list of all cooperative launches."""
    seen: list[tuple[Any, ...]] = []

    def noted(*args: Any) -> None:
        seen.append(args)
        launch.run_together(*args)

    monkeypatch.setattr(persistent, "run_together", noted)
    return seen


def solved(problem: Problem, launched: list[Any], *, reverse: bool = False) -> dict[str, Any]:
    found = problem.solve(cupy.asarray, reverse=reverse)
    assert [name.partition("<")[0] for _, name, *_ in launched] == [
        "persistent_forward",
        "persistent_backward",
    ]
    return found


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "variant",
    [
        *("elman-tanh", "gru", "gru-without-bias"),
        *("lstm", "lstm-peepholes", "lstm-coupled", "slstm"),
    ],
)
def test_results_and_gradients_agree_with_numpy(
    variant: str, reverse: bool, launched: list[Any]
) -> None:
    problem = Problem(variant, "float64", LENGTHS, hidden=20)
    wanted = problem.solve(np.asarray, reverse=reverse)
    check(solved(problem, launched, reverse=reverse), wanted, TOLERANCES["float64"])


@pytest.mark.parametrize(
    ("units", "tall", "sequences"), [(4, 8, 70), (8, 32, 70), (4, 16, 1), (4, 32, 30), (16, 8, 17)]
)
def test_however_it_is_dealt_out(
    units: int, tall: int, sequences: int, launched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "UNITS", (units,))
    monkeypatch.setattr(costs, "ROWS", (tall,))
    choose(monkeypatch, 0, rest=True)
    few = launch.limits()._replace(multiprocessors=6)
    monkeypatch.setattr(ways, "limits", lambda: few)
    lengths = np.random.default_rng(units).integers(0, 6, sequences)
    lengths[0] = 5
    problem = Problem("lstm", "float32", lengths.tolist(), hidden=24)
    wanted = problem.solve(np.asarray, reverse=False)
    check(solved(problem, launched), wanted, 1e-4)
    (_, _, grid, *_), _ = launched
    slices = -(-np.count_nonzero(lengths) // tall)
    assert grid == (-(-24 // units), min(slices, 6 // -(-24 // units)))


@pytest.mark.parametrize(
    ("precision", "tall"), [("float32", 4), ("float32", 16), ("tf32", 16), ("bfloat16", 8)]
)
def test_one_block_has_all_columns_of_64_units(
    precision: Any, tall: int, launched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if hasattr(cupy, "device"):  # the stand-in has less, so that small layers fill it
        monkeypatch.setitem(cupy.device.PROPERTIES, "sharedMemPerBlockOptin", 227 << 10)
    shared_bytes = cupy.cuda.runtime.getDeviceProperties(0)["sharedMemPerBlockOptin"]
    if shared_bytes < 160 << 10:
        pytest.skip("a block has too little shared memory")
    whole = launch.limits()._replace(shared_bytes=shared_bytes)
    monkeypatch.setattr(ways, "limits", lambda: whole)
    monkeypatch.setattr(costs, "UNITS", (64,))
    monkeypatch.setattr(costs, "ROWS", (tall,))
    choose(monkeypatch, 0, rest=True)
    problem = Problem("lstm", "float32", [3, 1, 0, 2, *[1] * 14], hidden=64)
    wanted = problem.solve(np.asarray, reverse=False)
    with float32_products(precision):
        check(solved(problem, launched), wanted, ROUNDED.get(precision, 1e-4))
    (_, _, grid, *_), _ = launched
    assert grid == (1, -(-17 // tall))


@pytest.mark.parametrize(
    ("variant", "hidden"), [("gru", 68), ("lstm", 65), ("gru", 3), ("lstm", 1)]
)
def test_depths_of_more_than_one_tile_and_odd_ones(
    variant: str, hidden: int, launched: list[Any]
) -> None:
    problem = Problem(variant, "float32", [3, 1, 2], hidden=hidden)
    wanted = problem.solve(np.asarray, reverse=False)
    check(solved(problem, launched), wanted, 1e-4)


@pytest.mark.parametrize("precision", ["float32", "tf32", "float16"])
def test_a_depth_of_more_chunks_than_are_on_their_way(
    precision: Any, launched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of a depth of 80, and back of 240.
    monkeypatch.setattr(
        costs, "chunk", lambda layer, units, room: max(16, costs._least(layer.kind))
    )
    choose(monkeypatch, 0, rest=True)
    problem = Problem("gru", "float32", [4, 1, 2], hidden=80)
    wanted = problem.solve(np.asarray, reverse=False)
    with float32_products(precision):
        check(solved(problem, launched), wanted, ROUNDED.get(precision, 1e-4))


@pytest.mark.parametrize("hidden", [21, 68])
@pytest.mark.parametrize("precision", ROUNDED)
def test_tensor_cores_round_as_far_as_they_are_asked_to(
    precision: Any, hidden: int, launched: list[Any]
) -> None:
    problem = Problem("lstm", "float32", [5, 1, 0, 3, *[2] * 18], hidden=hidden)
    exact = problem.solve(np.asarray, reverse=False)
    with float32_products(precision):
        found = solved(problem, launched)
    check(found, exact, ROUNDED[precision])
    # And it is rounded: exact products are a hundred times as near.
    assert np.abs(found["outputs"].get() - exact["outputs"]).max() > 1e-5


def test_float64_is_never_rounded(launched: list[Any]) -> None:
    problem = Problem("lstm", "float64", LENGTHS, hidden=8)
    wanted = problem.solve(np.asarray, reverse=False)
    with float32_products("bfloat16"):
        check(solved(problem, launched), wanted, TOLERANCES["float64"])


def test_whole_products_are_rounded_as_well() -> None:
    problem = Problem("lstm", "float32", LENGTHS)
    exact = problem.solve(np.asarray, reverse=False)
    for precision, tolerance in ROUNDED.items():
        with ways.step_by_step(), float32_products(precision):  # type: ignore[arg-type]
            check(problem.solve(cupy.asarray, reverse=False), exact, tolerance)


def test_there_are_these_precisions_and_not_on_every_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(PRECISIONS) == {"float32", *ROUNDED}
    with (
        pytest.raises(InvalidDataError, match=r"one of float32, tf32, .* found 'fp8'"),
        float32_products("fp8"),  # type: ignore[arg-type]
    ):
        pass
    old = launch.limits()._replace(capability=(7, 5))
    monkeypatch.setattr("lodcli.kernels.cuda.tensor_cores.limits", lambda: old)
    problem = Problem("gru", "float32", LENGTHS, hidden=4)
    with (
        float32_products("tf32"),
        pytest.raises(UnsupportedError, match=r"tf32 needs .* 8.0 or later, this one is of 7.5"),
    ):
        problem.solve(cupy.asarray, reverse=False)


@pytest.mark.parametrize(
    ("variant", "hidden"), [("lstm-projection", 8), ("paddle-gru", 8), ("gru", 8)]
)
def test_sizes_that_do_not_fit_are_computed_step_by_step(
    variant: str, hidden: int, launched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if variant == "gru":  # except that cooperative launches are not supported
        alone = launch.limits()._replace(together=False)
        monkeypatch.setattr(ways, "limits", lambda: alone)
    problem = Problem(variant, "float64", [2, 3], hidden=hidden)
    wanted = problem.solve(np.asarray, reverse=False)
    check(problem.solve(cupy.asarray, reverse=False), wanted, TOLERANCES["float64"])
    assert not launched


def test_where_one_launch_is_refused_steps_are_launched_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def refuse(file: str, kernel: str, *_: object) -> None:
        asked.append(kernel)
        raise LaunchRefusedError("under MPS")

    monkeypatch.setattr(persistent, "run_together", refuse)
    monkeypatch.setattr(ways, "_refusing", set())
    problem = Problem("lstm", "float64", LENGTHS, hidden=8)
    wanted = problem.solve(np.asarray, reverse=False)
    for _ in range(2):
        check(problem.solve(cupy.asarray, reverse=False), wanted, TOLERANCES["float64"])
    # Requested once, then cached.
    assert [name.partition("<")[0] for name in asked] == ["persistent_forward"]


def test_step_by_step_launches_no_persistent_kernel(launched: list[Any]) -> None:
    problem = Problem("lstm", "float64", LENGTHS, hidden=8)
    wanted = problem.solve(np.asarray, reverse=False)
    with ways.step_by_step():
        check(problem.solve(cupy.asarray, reverse=False), wanted, TOLERANCES["float64"])
    assert not launched


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clear the cached decisions before and after this test; for clusters see test_clusters.py."""
    monkeypatch.setattr(costs, "CLUSTERS", (0,))
    ways._decided.cache_clear()
    yield
    ways._decided.cache_clear()


@pytest.mark.parametrize("variant", ["lstm", "gru"])
@pytest.mark.parametrize("rest", [True, False])
def test_large_steps_are_left_to_cublas(
    variant: str, rest: bool, launched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(variant, "float64", LENGTHS, hidden=8)
    wanted = problem.solve(np.asarray, reverse=True)
    # The first three steps have six sequences or more.
    choose(monkeypatch, 3, rest=rest)
    for _ in range(3):  # a graph of the others among them
        check(problem.solve(cupy.asarray, reverse=True), wanted, TOLERANCES["float64"])
    assert [(args[-3], args[-1]) for args in launched] == [(3, 3)] * 6 * rest


@pytest.fixture(params=[True, False])
def permitted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether cupy captures calls of cuBLAS."""
    if not hasattr(cupy.cuda.cublas, "PERMITTED"):
        pytest.skip("a GPU's cupy decides by itself")
    monkeypatch.setattr(cupy.cuda.cublas, "PERMITTED", request.param)
    graphs._graphs.clear()
    graphs._notes.clear()
    return bool(request.param)


def test_steps_of_cublas_give_the_same_captured_or_not(
    permitted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(monkeypatch, 2, captured=True)
    problem = Problem("gru", "float32", LENGTHS, hidden=8)
    exact = problem.solve(np.asarray, reverse=False)
    with float32_products("tf32"):
        for _ in range(4):
            check(problem.solve(cupy.asarray, reverse=False), exact, ROUNDED["tf32"])


def test_a_product_of_cublas_is_captured_where_cupy_permits_it(permitted: bool) -> None:
    left, right, out = (cupy.asarray(np.zeros((2, 2), np.float32)) for _ in range(3))

    def launches(steps: range) -> Any:
        return [lambda table: dot(left, right, out)] * len(steps)

    for number in range(4):
        left[...] = cupy.asarray(np.full((2, 2), number, np.float32))
        right[...] = cupy.asarray(np.eye(2, dtype=np.float32))
        with float32_products("tf32"):
            words = np.zeros(1, np.int64)
            graphs.play(words, range(2), launches, key="products", refusable=True)
        np.testing.assert_array_equal(out.get(), left.get())
    assert len(graphs._graphs) == permitted


def test_launches_without_cublas_must_be_captured() -> None:
    def launches(steps: range) -> Any:
        return [lambda table: cupy.empty(1)]

    graphs._notes.clear()
    words = np.zeros(1, np.int64)
    graphs.play(words, range(1), launches, key="room")
    if not hasattr(cupy.cuda.cublas, "PERMITTED"):
        pytest.skip("a GPU's cupy allocates while a stream is capturing")
    with pytest.raises(RuntimeError, match="empty while a stream is capturing"):
        graphs.play(words, range(1), launches, key="room")
