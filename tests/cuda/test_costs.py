"""How a layer is run on a GPU: the model of times. No GPU is needed, and none is emulated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.cuda.device_limits import DeviceLimits
from lodcli.kernels.rnn.engine.cupy import costs
from lodcli.kernels.rnn.engine.cupy.costs import Costs, Layer, Way, best_way, estimated

H200 = DeviceLimits((9, 0), 132, 227 << 10, True)
TYPES = {1: "Elman<TANH>", 3: "GRU", 4: "LSTM<SIGMOID, TANH, TANH, false>"}


def layer(size: int, gates: int, kind: str = "float32", *, backward: bool = False) -> Layer:
    depth, width = (gates * size, 1) if backward else (size, gates)
    value_bytes, held = 8 if kind == "float64" else 4, 0 if backward else gates + 1
    return Layer(
        TYPES[gates], size, gates, depth, width, value_bytes, kind, gates * size * size, held
    )


def sizes(*parts: tuple[int, int]) -> Any:
    """Return the sizes of steps, given pairs of a number of sequences and a number of steps."""
    return np.repeat([size for size, _ in parts], [steps for _, steps in parts]).astype(np.int64)


def way(one: Layer, steps: Any, **changed: Any) -> Way:
    return best_way(one, steps, H200, replace(estimated(one.kind, H200), **changed))


@pytest.mark.parametrize(
    ("sequences", "mean", "size"), [(256, 60, 256), (64, 200, 512), (1, 500, 256)]
)
@pytest.mark.parametrize("gates", [1, 3, 4])
@pytest.mark.parametrize("backward", [False, True])
def test_common_layers_are_one_launch(
    sequences: int, mean: int, size: int, gates: int, backward: bool
) -> None:
    one = layer(size, gates, backward=backward)
    found = way(one, sizes((sequences, mean)))
    assert found.large == 0
    assert found.fit is not None
    assert found.fit.shared_bytes <= H200.shared_bytes
    assert -(-size // found.fit.units) * found.fit.groups <= H200.multiprocessors
    assert found.fit.units * one.width <= costs.COLUMNS


def test_wide_layers_of_many_sequences_are_of_cublas() -> None:
    assert way(layer(1024, 3), sizes((1024, 50))).large == 50


def test_few_sequences_that_go_on_are_one_launch_after_steps_of_cublas() -> None:
    found = way(layer(1024, 3), sizes((1024, 50), (24, 750)))
    assert found.large == 50
    assert found.fit is not None
    assert str(found).startswith("50 steps by cuBLAS, 750 steps in one launch (")


@pytest.mark.parametrize("kind", ["tf32", "bfloat16", "float16"])
def test_rounded_products_of_cublas_cost_less(kind: str) -> None:
    steps = sizes((1024, 100))
    exact, rounded = (way(layer(1024, 4, one), steps) for one in ("float32", kind))
    assert exact.large == rounded.large == 100
    assert rounded.microseconds < exact.microseconds / 2
    # Not the rate of exact ones: a step of 1,024 sequences and units is estimated below 60.
    assert rounded.microseconds / 100 < 60


def test_double_precision_costs_more() -> None:
    exact, double = (way(layer(256, 4, one), sizes((64, 100))) for one in ("float32", "float64"))
    assert double.microseconds > exact.microseconds


def test_python_bounds_small_steps_of_cublas_and_a_graph_does_not() -> None:
    # 96 sequences of 2,048 units, whose weights exceed the shared memory.
    one, steps = layer(2048, 4), sizes((96, 100))
    for python_launch in (13.0, 5000.0):
        slow = way(one, steps, python_launch=python_launch)
        assert slow.large == (100 if python_launch < 100 else 0)
        assert slow.fit is None
    captured = way(one, steps, python_launch=5000.0, captured=True)
    assert captured.large == 100
    assert captured.captured
    plain = costs.cublas_times(one, steps.astype(float), estimated("float32", H200))
    assert captured.microseconds == pytest.approx(float(plain.sum()) + 100 * 2 * 1.5)


def test_only_as_many_steps_are_of_cublas_as_gain_by_it() -> None:
    given = replace(estimated("float32", H200), tiles_rate=1e5, cublas_rate=1e9, python_launch=50)
    steps = np.arange(600, 0, -1)
    found = best_way(replace(layer(256, 1), cell=None), steps, H200, given)
    # A step of n sequences takes tiles n * 65536 / 1e5 microseconds and two launches of 1.5, and
    # cuBLAS two launches of 50.
    gates = 3 * 256 * 4 / given.memory_rate
    turn = (100 - 3) / (65536 / 1e5 + gates)
    assert abs((600 - found.large) - turn) <= 1
    assert found.fit is None


def test_every_cut_is_compared_with_all_steps_in_one_launch() -> None:
    # cuBLAS gains a little on the first step: never enough for the launches.
    steps = sizes((33, 1), (32, 500))
    found = way(layer(512, 1), steps)
    assert found.large == 0
    assert found.fit is not None


@pytest.mark.parametrize("kind", ["float32", "tf32", "bfloat16"])
@pytest.mark.parametrize("size", [32, 64])
def test_a_block_that_holds_all_units_waits_for_no_other(size: int, kind: str) -> None:
    one, given, lengths = layer(size, 4, kind), estimated(kind, H200), np.full(4 * size, 100)
    alone = replace(given, meeting=1e6, near_meeting=1e6)
    fit = costs.best_fit(one, lengths, H200, alone)
    assert fit is not None
    assert (fit.units, fit.cluster) == (size, 1)
    # Nor for the L2 cache.
    assert costs.best_fit(one, lengths, H200, replace(alone, step=1e6, block_bytes=1e-6)) == fit


@pytest.mark.parametrize(("kind", "size"), [("float32", 256), ("bfloat16", 256)])
def test_up_to_eight_blocks_are_a_cluster(kind: str, size: int) -> None:
    one, given = layer(size, 4, kind), estimated(kind, H200)
    fit = costs.best_fit(one, np.full(16, 100), H200, given)
    assert fit is not None
    assert fit.cluster == -(-size // fit.units) == 8
    assert "groups, clusters of 8)" in str(Way(0, fit, 100, 0.0))
    assert fit.cluster * fit.groups <= H200.multiprocessors
    # Its blocks keep a whole step's operand; larger layers have more blocks.
    assert fit.deep == size
    assert fit.shared_bytes <= H200.shared_bytes
    many = costs.best_fit(layer(2 * size, 4, kind), np.full(16, 100), H200, given)
    assert many is not None
    assert many.cluster == 0


def test_gpus_before_compute_capability_9_have_no_clusters() -> None:
    one, given = layer(256, 4), estimated("float32", H200)
    old = H200._replace(capability=(8, 9))
    fit = costs.best_fit(one, np.full(4, 100), old, given)
    assert fit is not None
    assert fit.cluster == 0
    small = costs.best_fit(layer(16, 4), np.full(4, 100), old, given)
    assert small is not None
    assert small.cluster == 1


@pytest.mark.parametrize("kind", ["float32", "float64", "tf32", "bfloat16"])
@pytest.mark.parametrize("size", [16, 64, 200, 512])
@pytest.mark.parametrize("gates", [1, 3, 4])
def test_a_block_has_no_more_sums_than_its_threads(kind: str, size: int, gates: int) -> None:
    for sequences in (1, 7, 16, 64, 1024):
        lengths = np.full(sequences, 10)
        fit = costs.best_fit(layer(size, gates, kind), lengths, H200, estimated(kind, H200))
        if fit is not None:
            sums = costs.multiplied(kind, min(fit.tall, sequences)) * fit.units * gates
            assert sums <= costs.THREADS * costs.SUMS


def test_halves_take_half_the_shared_memory_and_half_the_way() -> None:
    exact, half = (layer(1024, 4, kind, backward=True) for kind in ("float32", "float16"))
    assert exact.passed == (4096, 4)
    assert half.passed == (4096, 2)
    # The weights of twice as many units fit.
    assert costs.shared_bytes(exact, 8, 64) < H200.shared_bytes < costs.shared_bytes(exact, 16, 64)
    assert costs.shared_bytes(half, 16, 64) < H200.shared_bytes < costs.shared_bytes(half, 32, 64)


def test_the_depth_comes_in_four_chunks_where_they_fit() -> None:
    one = layer(512, 4, "bfloat16")
    assert costs.chunk(one, 16, H200.shared_bytes) == 128
    tight = costs.shared_bytes(one, 16, 96)
    assert costs.chunk(one, 16, tight) == 96
    assert costs.chunk(one, 16, tight - 1) == 64
    # At least the size with which all threads have work, even if less is left.
    assert costs.chunk(one, 16, 0) == 32
    # At most the whole depth, rounded up.
    assert costs.chunk(layer(20, 3), 8, H200.shared_bytes) == 32


def test_no_launch_of_all_steps_without_cooperation_or_a_kernel() -> None:
    steps = sizes((3, 3))
    assert way(layer(8, 3), steps).fit is not None
    given = estimated("float32", H200)
    assert best_way(layer(8, 3), steps, H200._replace(together=False), given).fit is None
    assert best_way(replace(layer(8, 3), cell=None), steps, H200, given).fit is None


@pytest.mark.parametrize("kind", ["float32", "float64", "tf32", "bfloat16", "float16"])
def test_the_estimates_grow_with_the_device(kind: str) -> None:
    small, large = (estimated(kind, H200._replace(multiprocessors=n)) for n in (66, 132))
    assert large.cublas_rate == 2 * small.cublas_rate
    assert large.block_rate == small.block_rate
    assert isinstance(small, Costs)
    assert not small.measured
