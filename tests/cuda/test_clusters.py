"""Layers whose states stay in shared memory, of a block or of a cluster, against NumPy's.

With tests/cuda/host on the path, on the CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli import float32_products
from lodcli.kernels.errors import LaunchRefusedError

cupy: Any = pytest.importorskip("cupy")
from lodcli.kernels.cuda import launch  # noqa: E402
from lodcli.kernels.rnn.engine.cupy import costs, persistent, ways  # noqa: E402
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
    """Return the list of all launches in clusters; no layer is run in another way."""
    seen: list[tuple[Any, ...]] = []

    def noted(*args: Any) -> None:
        seen.append(args)
        launch.run_in_clusters(*args)

    monkeypatch.setattr(persistent, "run_in_clusters", noted)
    monkeypatch.setenv("LOD_GPU_COSTS", "estimated")
    choose(monkeypatch, 0, rest=True)
    return seen


def deal(monkeypatch: pytest.MonkeyPatch, cluster: int, units: int, tall: int) -> None:
    """Make clusters have this many blocks, units per block and sequences per cluster."""
    if cluster > 1 and launch.limits().capability < costs.HAS_CLUSTERS:
        pytest.skip("this GPU has no clusters")
    monkeypatch.setattr(costs, "CLUSTERS", (cluster,))
    monkeypatch.setattr(costs, "UNITS", (units,))
    monkeypatch.setattr(costs, "ROWS", (tall,))


def names(launched: list[Any]) -> list[str]:
    return [name.partition(",")[0] for _, name, *_ in launched]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    "variant",
    ["elman-tanh", "gru", "gru-without-bias", "lstm", "lstm-peepholes", "lstm-coupled", "slstm"],
)
def test_results_and_gradients_agree_with_numpy(
    variant: str, reverse: bool, launched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # 20 units: three blocks of a cluster have some, the fourth one none.
    deal(monkeypatch, 4, 8, 8)
    problem = Problem(variant, "float64", LENGTHS, hidden=20)
    wanted = problem.solve(np.asarray, reverse=reverse)
    found = problem.solve(cupy.asarray, reverse=reverse)
    check(found, wanted, TOLERANCES["float64"])
    assert names(launched) == ["cluster_forward<4", "cluster_backward<4"]


@pytest.mark.parametrize(
    ("cluster", "units", "tall", "hidden", "sequences"),
    [
        (1, 32, 4, 24, 30),
        (2, 16, 32, 24, 70),
        (4, 8, 16, 30, 70),
        (8, 4, 8, 32, 17),
        (8, 4, 4, 29, 1),
    ],
)
def test_however_it_is_dealt_out(
    cluster: int,
    units: int,
    tall: int,
    hidden: int,
    sequences: int,
    launched: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deal(monkeypatch, cluster, units, tall)
    few = launch.limits()._replace(multiprocessors=2 * cluster)
    monkeypatch.setattr(ways, "limits", lambda: few)
    lengths = np.random.default_rng(units).integers(0, 6, sequences)
    lengths[0] = 5
    problem = Problem("lstm", "float32", lengths.tolist(), hidden=hidden)
    wanted = problem.solve(np.asarray, reverse=False)
    check(problem.solve(cupy.asarray, reverse=False), wanted, 1e-4)
    slices = -(-np.count_nonzero(lengths) // tall)
    assert [grid for _, _, grid, *_ in launched] == [(cluster, min(slices, 2))] * 2


@pytest.mark.parametrize("cluster", [1, 4])
@pytest.mark.parametrize("precision", ROUNDED)
def test_products_on_tensor_cores(
    precision: Any, cluster: int, launched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    deal(monkeypatch, cluster, 32 // cluster, 16)
    problem = Problem("lstm", "float32", [5, 1, 0, 3, *[2] * 18], hidden=21 + cluster)
    wanted = problem.solve(np.asarray, reverse=False)
    with float32_products(precision):
        check(problem.solve(cupy.asarray, reverse=False), wanted, ROUNDED[precision])
    assert len(launched) == 2


@pytest.mark.parametrize("cluster", [1, 4])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rows_of_two_bytes(
    dtype: str, cluster: int, launched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    deal(monkeypatch, cluster, 32 // cluster, 32)
    problem = Problem("gru", dtype, [5, 1, 0, 3, *[2] * 18], hidden=22)
    wanted = problem.solve(np.asarray, reverse=True)
    check(problem.solve(cupy.asarray, reverse=True), wanted, ROUNDED[dtype])
    assert all(name.endswith(f", {dtype}>") for _, name, *_ in launched)
    assert len(launched) == 2


def test_steps_after_those_of_cublas(launched: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    deal(monkeypatch, 2, 4, 8)
    choose(monkeypatch, 3, rest=True)
    problem = Problem("lstm", "float64", LENGTHS, hidden=8)
    wanted = problem.solve(np.asarray, reverse=True)
    check(problem.solve(cupy.asarray, reverse=True), wanted, TOLERANCES["float64"])
    assert [(args[-2], args[-1]) for args in launched] == [(3, 3)] * 2


def test_where_clusters_are_refused_steps_are_launched_one_by_one(
    launched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    deal(monkeypatch, 2, 4, 8)
    monkeypatch.setattr(ways, "_refusing", set())

    class Refusing:
        max_dynamic_shared_size_bytes = 1 << 20

        def __call__(self, *_: object, **more: object) -> None:
            raise cupy.cuda.driver.CUDADriverError(912)

    function = launch._function
    monkeypatch.setattr(
        launch,
        "_function",
        lambda file, *rest: Refusing() if file == "rnn_cluster" else function(file, *rest),
    )
    with pytest.raises(LaunchRefusedError, match="some"):
        launch.run_in_clusters("rnn_cluster", "some", (2, 1), (256,), 0)
    problem = Problem("lstm", "float64", LENGTHS, hidden=8)
    wanted = problem.solve(np.asarray, reverse=False)
    check(problem.solve(cupy.asarray, reverse=False), wanted, TOLERANCES["float64"])
    assert names(launched) == ["cluster_forward<2"]
