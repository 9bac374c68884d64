"""Costs of this GPU, measured when it first runs a layer, and cached on disk.

A measurement takes some tenths of a second, plus the time to compile five kernels. It is made for
each kind of product in use. LOD_GPU_COSTS=estimated skips it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import cupy
import numpy as np

from lodcli.kernels.cuda.device_limits import DeviceLimits
from lodcli.kernels.cuda.launch import limits
from lodcli.kernels.errors import LaunchRefusedError, OptionError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.native.cache import write
from lodcli.kernels.native.settings import cache_folder
from lodcli.kernels.platform import environment
from lodcli.kernels.rnn.cells.elman.elman import ElmanWeights
from lodcli.kernels.rnn.engine.cupy import persistent
from lodcli.kernels.rnn.engine.cupy.costs import (
    HAS_CLUSTERS,
    Costs,
    Fit,
    Layer,
    Way,
    chunk,
    estimated,
    multiplied,
    product_type,
    shared_bytes,
)
from lodcli.kernels.rnn.engine.cupy.dot import dot
from lodcli.kernels.rnn.engine.cupy.graphs import captured
from lodcli.kernels.rnn.engine.cupy.product import product
from lodcli.kernels.rnn.engine.cupy.spaces import Forward, order_of
from lodcli.kernels.rnn.engine.cupy.table import Table
from lodcli.kernels.rnn.engine.plan import plan_steps
from lodcli.kernels.runtime.precision import Precision, float32_products

# Measures the microseconds that the device takes for the work a call queues.
Clock = Callable[[Callable[[], object]], float]

REPEATS, LAUNCHES = 5, 100
VERSION = 3  # number of steps of the measurements
STEPS, TALL, APART = 128, 32, 4  # of the layers that are measured
SIZES = {4: 64, 8: 32}  # units, by the bytes of a value: these fit into every GPU's shared memory
# Measurements are clipped to this factor above or below the estimate.
TRUSTED = 16.0


def costs_here(kind: str) -> Costs:
    """Return the costs of products of a kind on the current device."""
    device = cupy.cuda.runtime.getDevice()
    wanted = environment.value("LOD_GPU_COSTS")
    if wanted not in ("", "measured", "estimated"):
        raise OptionError(f"LOD_GPU_COSTS: expected measured or estimated, found {wanted[:40]!r}")
    if wanted == "estimated":
        return estimated(kind, limits())
    return _costs(kind, device)


@cache
def _costs(kind: str, device: int) -> Costs:
    return kept_or_measured(kind, limits(), _marks(device), measured)


def kept_or_measured(
    kind: str,
    device: DeviceLimits,
    marks: Sequence[Any],
    measure: Callable[[str, DeviceLimits], Costs],
) -> Costs:
    """Return the cached costs of a device, or measure and cache them.

    Args:
        marks: identifies the device and its software.
    """
    digest = hashlib.sha256(repr((kind, device, *marks)).encode()).hexdigest()[:24]
    folder = cache_folder()
    file = None if folder is None else folder / f"cuda.{digest}.costs"
    if file is not None:
        with contextlib.suppress(OSError, ValueError, TypeError):
            return _checked(json.loads(file.read_text("utf-8")), estimated(kind, device))
    found = measure(kind, device)
    if file is not None:
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            write(file.parent, file, json.dumps(dataclasses.asdict(found)).encode())
    return found


def _marks(device: int) -> tuple[Any, ...]:
    runtime = cupy.cuda.runtime
    name = runtime.getDeviceProperties(device)["name"]
    return name, runtime.driverGetVersion(), cupy.__version__, VERSION


def _checked(kept: dict[str, Any], guess: Costs) -> Costs:
    """Return the costs in a file; raise ValueError or TypeError if they are implausible."""
    found = Costs(**kept)
    if found != _believed(found, guess):
        raise ValueError("costs out of range")
    return found


def _believed(found: Costs, guess: Costs) -> Costs:
    """Return the costs, each clipped to a factor of the estimate."""
    fields = {}
    for name, value in dataclasses.asdict(guess).items():
        measured_value = getattr(found, name)
        if isinstance(value, float):
            low, high = value / TRUSTED, value * TRUSTED
            measured_value = min(max(measured_value, low), high)
            if not math.isfinite(measured_value):
                raise ValueError(f"{name} is {measured_value}")
        fields[name] = measured_value
    return Costs(**fields)


def on_device(run: Callable[[], object]) -> float:
    """Return the minimum microseconds of some runs, by events of the current stream."""
    run()
    start, end, found = cupy.cuda.Event(), cupy.cuda.Event(), math.inf
    for _ in range(REPEATS):
        start.record()
        run()
        end.record()
        end.synchronize()
        found = min(found, 1e3 * cupy.cuda.get_elapsed_time(start, end))
    return found


def measured(kind: str, device: DeviceLimits, clock: Clock = on_device) -> Costs:
    """Return the measured costs of the current device, after synchronizing."""
    guess = estimated(kind, device)
    cupy.cuda.Device().synchronize()
    dtype = np.dtype(np.float64 if kind == "float64" else np.float32)
    precision: Precision = "float32" if kind == "float64" else kind  # type: ignore[assignment]
    with cupy.cuda.Stream(non_blocking=True) as stream, float32_products(precision):
        found = _measured(guess, kind, dtype, device, clock)
        stream.synchronize()
    return _believed(found, guess)


def _measured(
    guess: Costs, kind: str, dtype: np.dtype[Any], device: DeviceLimits, clock: Clock
) -> Costs:
    # One value, so the time is that of the launch.
    tiny = _products(dtype, 1, 1, 1)
    python_launch = clock(lambda: [tiny() for _ in range(LAUNCHES)]) / LAUNCHES
    graph = captured(lambda: [tiny() for _ in range(LAUNCHES)])
    graph_launch = python_launch if graph is None else clock(graph.launch) / LAUNCHES
    rows, columns, depth = 1024, 2048, 1024
    left, right, out = (
        cupy.zeros(shape, dtype) for shape in ((rows, depth), (columns, depth), (rows, columns))
    )

    def multiply() -> Array:
        return dot(left, right.T, out)

    by_cublas = clock(multiply) - guess.cublas_start
    tall, wide, deep = 256, 2048, 512
    by_tiles = clock(_products(dtype, tall, wide, deep)) - graph_launch
    found = dataclasses.replace(
        guess,
        python_launch=python_launch,
        graph_launch=graph_launch,
        cublas_rate=_rate(rows * columns * depth, by_cublas),
        tiles_rate=_rate(tall * wide * deep, by_tiles),
        captured=captured(multiply) is not None,
        measured=True,
    )
    if not device.together or device.multiprocessors < APART:
        return found
    size = SIZES[dtype.itemsize]
    near, apart_near = guess.near_step, guess.near_step + guess.near_meeting
    try:
        alone = clock(_layer(kind, dtype, 1, size, device)) / STEPS
        many = clock(_layer(kind, dtype, TALL, size, device)) / STEPS
        apart = clock(_layer(kind, dtype, 1, size // APART, device)) / STEPS
        near = clock(_layer(kind, dtype, 1, size, device, cluster=1)) / STEPS
        if device.capability >= HAS_CLUSTERS:
            layer = _layer(kind, dtype, 1, size // APART, device, cluster=APART)
            apart_near = clock(layer) / STEPS
    except LaunchRefusedError:
        return found
    return dataclasses.replace(
        found,
        step=alone,
        meeting=apart - alone - APART * guess.arrival,
        near_step=near,
        near_meeting=apart_near - near,
        block_rate=_rate((multiplied(kind, TALL) - multiplied(kind, 1)) * size**2, many - alone),
    )


def _rate(flops: int, microseconds: float) -> float:
    return flops / microseconds if microseconds > 0 else math.inf


def _products(dtype: np.dtype[Any], rows: int, columns: int, depth: int) -> Callable[[], None]:
    """Return the launch of a product by rnn_product.cu."""
    table = Table()
    arrays = [
        cupy.zeros(shape, dtype) for shape in ((rows, depth), (columns, depth), (rows, columns))
    ]
    launch = product(table, *arrays).launch(rows, by_cublas=False)
    words = cupy.asarray(table.words())

    def run() -> None:
        # Keep the arrays alive: the table holds only their addresses.
        assert arrays
        launch(words)

    return run


def _layer(
    kind: str,
    dtype: np.dtype[Any],
    sequences: int,
    units: int,
    device: DeviceLimits,
    cluster: int = 0,
) -> Callable[[], None]:
    """Return the launch of an Elman layer, of `units` in each block; `cluster` as in Fit."""
    size = SIZES[dtype.itemsize]
    plan = plan_steps(np.arange(sequences + 1, dtype=np.int64) * STEPS)

    def zeros(rows: int) -> Array:
        made: Array = cupy.zeros((rows, size), dtype)
        return made

    weights = ElmanWeights(weight_ih=None, weight_hh=zeros(size))
    layer = Layer("Elman<TANH>", size, 1, size, 1, dtype.itemsize, kind, size * size, 2)
    row_bytes = math.prod(layer.passed)
    types = f"{layer.cell}, {product_type(kind, cluster)}"
    deep = layer.passed[0] if cluster else chunk(layer, units, device.shared_bytes)
    shared = shared_bytes(layer, units, deep, multiplied(kind, TALL) if cluster else 0)
    if shared > device.shared_bytes:
        raise LaunchRefusedError(f"{shared} bytes of shared memory, of {device.shared_bytes}")
    fit = Fit(types, units, TALL, 1, deep, shared, row_bytes, 0.0, cluster=cluster)
    first = zeros(sequences)
    space = Forward(
        table=Table(),
        order=order_of(plan, reverse=False),
        weights=weights,
        projected=zeros(sequences * STEPS),
        recurrent=None,
        hidden=first.copy(),
        cell=None,
        opened=None,
        candidate=None,
        outputs=zeros(sequences * STEPS),
        cells=None,
        gates=None,
        inner=None,
        begin=first,
    )
    way = Way(0, fit, STEPS, 0.0)
    return lambda: persistent.run_steps(space, way)
