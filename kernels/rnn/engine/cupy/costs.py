"""Chooses the fastest way to run a layer on a GPU, by a cost model.

There are three kinds of steps, with the same results up to rounding:

    together   all steps in one launch, the recurrent weights in shared memory: blocks pass states
               through global memory (rnn_persistent.cu), or within a cluster (rnn_cluster.cu)
    tiles      a product (rnn_product.cu) and a launch each step, captured as a graph
    cublas     a product by cuBLAS and a launch each step

The first steps of a batch are the largest. So a layer runs some steps, perhaps none, with cublas,
and the rest with one of the other kinds. Times are in microseconds. The parameters, `Costs`, are
estimates for a GPU of the size of an H100 until calibration.py has measured them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lodcli.kernels.cuda.device_limits import DeviceLimits, blocks
from lodcli.kernels.index.checks import Offsets

THREADS, HIGH, STAGES, SUMS = 256, 32, 4, 16  # as in rnn_operand.cuh
COLUMNS = 256  # maximum of a block's product, for as many rows as its threads can add up
UNITS = (4, 8, 16, 32, 64, 128)
ROWS = (4, 8, 16, 32)
BROUGHT = 64  # minimum number of values of a row loaded at once, divided among threads
# Blocks of a cluster: every GPU with clusters supports 8. 0: barriers in global memory instead.
CLUSTERS = (0, 1, 2, 4, 8)
HAS_CLUSTERS = (9, 0)  # lowest compute capability with clusters of several blocks
# How many numbers of first steps with cuBLAS are compared, if the others are one launch.
CUTS = 8

_CLOCKS = 1750.0  # clock cycles per microsecond
# C++ types of the operands of tensor cores: tensor_cores.cuh.
NUMBERS = {"tf32": "TF32", "bfloat16": "BF16", "float16": "FP16"}
_PRODUCTS = {kind: f"Rounded<{number}" for kind, number in NUMBERS.items()}
Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Costs:
    """Times in microseconds, and rates in multiply-adds or bytes per microsecond.

    Attributes:
        python_launch: time of a kernel launched from Python, besides its work.
        graph_launch: the same in a graph.
        cublas_start: time of the smallest product by cuBLAS.
        cublas_rate: multiply-adds of cuBLAS on the whole device.
        tiles_rate: multiply-adds of rnn_product.cu on the whole device.
        memory_rate: bytes that a launch reads and writes.
        step: time of a step within one launch: gates, and states read from the L2 cache.
        meeting: time of the barrier of a group of blocks after a step.
        arrival: additional time of the barrier for each block.
        near_step: like `step`, for a single block, which keeps its states.
        near_meeting: like `meeting`, for a cluster, including the states passed between blocks.
        block_rate: multiply-adds of one block.
        block_bytes: bytes that a block reads from the L2 cache.
        captured: whether steps of cuBLAS are captured in graphs.
        measured: whether this GPU was measured.
    """

    python_launch: float
    graph_launch: float
    cublas_start: float
    cublas_rate: float
    tiles_rate: float
    memory_rate: float
    step: float
    meeting: float
    arrival: float
    near_step: float
    near_meeting: float
    block_rate: float
    block_bytes: float
    captured: bool = False
    measured: bool = False


# Multiplications in a clock of a multiprocessor, estimated: of cuBLAS as far as it reaches the
# peak with a thousand rows; of a block as far as its loops do. On tensor cores shared memory limits
# those: of 128 columns a warp executes six ldmatrix, of four clocks each, for eight mma.sync, of
# 1,024 multiplications in tf32 and 2,048 of 16-bit values.
_CUBLAS = {"float32": 100.0, "float64": 50.0, "tf32": 600.0, "bfloat16": 800.0, "float16": 800.0}
_BLOCK = {"float32": 75.0, "float64": 35.0, "tf32": 340.0, "bfloat16": 680.0, "float16": 680.0}
_TILES = {"float32": 45.0, "float64": 22.0, "tf32": 150.0, "bfloat16": 250.0, "float16": 250.0}


def estimated(kind: str, device: DeviceLimits) -> Costs:
    """Return the estimated costs of an unmeasured device; `kind` of products, see Layer."""
    whole = device.multiprocessors * _CLOCKS
    return Costs(
        python_launch=13.0,
        graph_launch=1.5,
        cublas_start=4.0,
        cublas_rate=_CUBLAS[kind] * whole,
        tiles_rate=_TILES[kind] * whole,
        memory_rate=14.0 * whole,
        step=1100 / _CLOCKS,
        meeting=1500 / _CLOCKS,
        arrival=8 / _CLOCKS,
        near_step=500 / _CLOCKS,
        near_meeting=900 / _CLOCKS,
        block_rate=_BLOCK[kind] * _CLOCKS,
        block_bytes=64 * _CLOCKS,
    )


@dataclass(frozen=True)
class Layer:
    """The properties of a layer that determine its cost.

    Attributes:
        cell: the C++ type of the cell; None if its steps cannot run in one launch.
        size, gates: H and G.
        depth: of a step's product: H forward, G*H back.
        width: columns of a step's product for each unit: G forward, 1 back.
        value_bytes: size of a computed value: 4 or 8.
        kind: the type of the factors of products: float32, tf32, bfloat16, float16 or float64.
        flops: multiply-adds for each sequence in a step.
        held: number of values in shared memory for each unit and sequence of a block, besides the
            product: forward G inputs and the cell's states, back none.
        launches: kernels per step for kinds other than `together`.
        stored: the C++ type of rows of two bytes, which `together` reads without conversion.
    """

    cell: str | None
    size: int
    gates: int
    depth: int
    width: int
    value_bytes: int
    kind: str
    flops: int
    held: int = 0
    launches: int = 2
    stored: str | None = None

    @property
    def passed(self) -> tuple[int, int]:
        """Number and size in bytes of the values exchanged between blocks, per sequence and
        step."""
        step = _least(self.kind)
        return blocks(self.depth, step) * step, self.value_bytes // _values(self.kind)


@dataclass(frozen=True)
class Fit:
    """How the steps of one launch are distributed over blocks.

    Attributes:
        types: the C++ types of the cell, of the product, and of rows of two bytes.
        units: number of units of the hidden state per block.
        tall: number of sequences that a group processes at a time.
        groups: number of groups of blocks; the blocks of a group share all units.
        deep: values of a chunk of the product's left operand; in a cluster, all of them.
        shared_bytes: shared memory of a block.
        row_bytes: bytes passed between blocks for each sequence in a step.
        microseconds: estimated time.
        narrow: whether rows have two bytes.
        cluster: number of blocks of a cluster; 0: blocks pass states through global memory.
    """

    types: str
    units: int
    tall: int
    groups: int
    deep: int
    shared_bytes: int
    row_bytes: int
    microseconds: float
    narrow: bool = False
    cluster: int = 0


@dataclass(frozen=True)
class Way:
    """How a layer is run, forward or backward.

    Attributes:
        large: number of first steps that use cuBLAS.
        fit: configuration of the other steps in one launch; None if they use tiles.
        steps: number of all steps.
        microseconds: estimated time of all steps.
        captured: whether steps of cuBLAS may be captured in a graph.
    """

    large: int
    fit: Fit | None
    steps: int
    microseconds: float
    captured: bool = False

    @property
    def narrow(self) -> bool:
        """Whether all steps take rows of two bytes."""
        return not self.large and self.fit is not None and self.fit.narrow

    def __str__(self) -> str:
        rest, parts = self.steps - self.large, []
        if self.large:
            parts.append(f"{self.large} steps by cuBLAS")
        if rest and self.fit:
            fit = self.fit
            near = f", clusters of {fit.cluster}" if fit.cluster > 1 else ""
            parts.append(
                f"{rest} steps in one launch ({fit.units} units a block, {fit.tall} sequences, "
                f"{fit.groups} groups{near})"
            )
        elif rest:
            parts.append(f"{rest} steps by launches")
        return ", ".join(parts) or "no steps"


def best_way(layer: Layer, step_sizes: Offsets, device: DeviceLimits, costs: Costs) -> Way:
    """Return the fastest way to run steps of this many sequences, in descending order."""
    lengths = np.searchsorted(-step_sizes, -np.arange(step_sizes[0]), side="left")
    sizes = step_sizes.astype(np.float64)
    first = np.concatenate([[0.0], np.cumsum(cublas_times(layer, sizes, costs))])
    tiles = np.cumsum(tiles_times(layer, sizes, costs)[::-1])[::-1]
    rest = np.concatenate([tiles, [0.0]])
    large = int(np.argmin(first + rest))
    steps, captured = sizes.size, costs.captured
    ways = [Way(large, None, steps, float(first[large] + rest[large]), captured)]
    # Switching pays only before a step with few sequences.
    ends = np.flatnonzero(np.diff(sizes)) + 1
    picked = ends[np.linspace(0, ends.size - 1, min(CUTS, ends.size)).astype(int)]
    for cut in sorted({0, large, *picked.tolist()} - {steps}):
        left = lengths[: int(step_sizes[cut])] - cut
        fit = best_fit(layer, left, device, costs)
        if fit:
            ways.append(Way(cut, fit, steps, float(first[cut]) + fit.microseconds, captured))
    return min(ways, key=lambda way: way.microseconds)


def cublas_times(layer: Layer, sizes: Times, costs: Costs) -> Times:
    """Return the time of each step with cuBLAS."""
    on_device = _gates(layer, sizes, costs) + costs.cublas_start
    on_device += sizes * layer.flops / costs.cublas_rate
    if costs.captured:
        return on_device + layer.launches * costs.graph_launch
    # Either Python is ahead of the device, or the device waits for Python.
    return np.maximum(on_device, layer.launches * costs.python_launch)


def tiles_times(layer: Layer, sizes: Times, costs: Costs) -> Times:
    """Return the time of each step with rnn_product.cu, in a graph."""
    launches = layer.launches * costs.graph_launch
    return launches + _gates(layer, sizes, costs) + sizes * layer.flops / costs.tiles_rate


def _gates(layer: Layer, sizes: Times, costs: Costs) -> Times:
    """Return the time of the gates: reading product and inputs, and writing states."""
    values = 3 * sizes * layer.gates * layer.size
    return values * layer.value_bytes / costs.memory_rate


def best_fit(layer: Layer, lengths: Offsets, device: DeviceLimits, costs: Costs) -> Fit | None:
    """Return the fastest one-launch configuration for a device; None if none fits.

    Args:
        lengths: of the sequences, longest first, none of them 0.
    """
    if not device.together or layer.cell is None:
        return None
    found = []
    for tall in ROWS:
        most = min(COLUMNS, THREADS * SUMS // multiplied(layer.kind, tall))
        for units in UNITS:
            if units * layer.width <= most:
                dealt = (
                    _fit(layer, lengths, device, costs, units, tall, cluster)
                    for cluster in CLUSTERS
                )
                found += [fit for fit in dealt if fit]
        if tall >= len(lengths):
            break
    return min(found, key=lambda fit: fit.microseconds, default=None)


def _fit(
    layer: Layer,
    lengths: Offsets,
    device: DeviceLimits,
    costs: Costs,
    units: int,
    tall: int,
    cluster: int,
) -> Fit | None:
    """Return the configuration with this many units per block and sequences per group, if it
    fits."""
    apart = blocks(layer.size, units)
    if cluster:
        # As many blocks as hold all units; some may have none.
        if not cluster // 2 < apart <= cluster:
            return None
        if cluster > 1 and device.capability < HAS_CLUSTERS:
            return None
        apart = cluster
    if apart > device.multiprocessors:
        return None
    deep = layer.passed[0] if cluster else chunk(layer, units, device.shared_bytes)
    shared = shared_bytes(layer, units, deep, multiplied(layer.kind, tall) if cluster else 0)
    if shared > device.shared_bytes:
        return None
    lasting = lengths[::tall]  # of each slice, its longest sequence
    groups = min(len(lasting), device.multiprocessors // apart)
    rows = multiplied(layer.kind, min(tall, len(lengths)))
    row_bytes = math.prod(layer.passed)
    step = rows * layer.depth * units * layer.width / costs.block_rate
    if cluster:
        step += costs.near_step
        if cluster > 1:
            # A block writes what its units pass on to all blocks.
            written = rows * units * (layer.depth // layer.size) * layer.passed[1] * cluster
            step += costs.near_meeting + written / costs.block_bytes
    else:
        step += costs.step + rows * row_bytes / costs.block_bytes
        if apart > 1:
            step += costs.meeting + costs.arrival * apart
    microseconds = step * max(float(lasting[0]), float(lasting.sum()) / groups)
    narrow = layer.stored is not None
    types = f"{layer.cell}, {product_type(layer.kind, cluster)}" + f", {layer.stored}" * narrow
    return Fit(types, units, tall, groups, deep, shared, row_bytes, microseconds, narrow, cluster)


def multiplied(kind: str, rows: int) -> int:
    """Return how many rows a block multiplies for this many: rnn_exact.cuh, rnn_rounded.cuh."""
    least = 16 if kind in NUMBERS else 4
    return blocks(rows, least) * least


def product_type(kind: str, cluster: int) -> str:
    """Return the C++ type of what multiplies in one launch; `cluster` as in Fit."""
    made = _PRODUCTS.get(kind, "Exact<double" if kind == "float64" else "Exact<float")
    return made + (", Pair>" if cluster else ">")


def _values(kind: str) -> int:
    """Return the number of operand values per value of the data."""
    return 2 if kind in ("bfloat16", "float16") else 1


def _least(kind: str) -> int:
    """Return the granularity of the depth of a product: rnn_exact.cuh, rnn_rounded.cuh."""
    return 16 * _values(kind) if kind in NUMBERS else 4


def chunk(layer: Layer, units: int, room_bytes: int) -> int:
    """Return how many values of the left operand are loaded at once.

    All of it in STAGES chunks, or in fewer chunks of BROUGHT values if they fit; else in more.

    Args:
        units: of a block.
        room_bytes: its shared memory.
    """
    depth, value_bytes = layer.passed
    least, wanted = 16, max(BROUGHT, blocks(depth, STAGES))
    if layer.kind in NUMBERS:
        # Something for each of the warps that share out the depth.
        across = blocks(units * layer.width, 8)
        least = _least(layer.kind) * max(1, THREADS // 32 // across)
    least = min(least, depth)
    left = room_bytes - shared_bytes(layer, units, 0)
    fits = max(0, left) // (STAGES * HIGH * value_bytes)
    return max(least, min(blocks(wanted, least), blocks(depth, least), fits // least) * least)


def shared_bytes(layer: Layer, units: int, deep: int, held: int = 0) -> int:
    """Return the shared memory of a block: see rnn_one_launch.cuh.

    Args:
        units: of a block.
        deep: as in Fit.
        held: rows that are kept of each of two steps; 0: chunks of rows come from memory.
    """
    depth, columns = layer.passed[0], units * layer.width
    tiles = 2 * held if held else STAGES * HIGH
    if layer.kind in NUMBERS:
        each = _values(layer.kind)
        wide = blocks(columns, 8) * 8
        values = wide * (depth // each + 4) + tiles * (deep // each + 4)
    else:
        values = depth * columns + tiles * (deep + 4)
    if layer.held:
        values += HIGH * units * layer.held + 2 * columns
    return (values + THREADS * SUMS) * layer.value_bytes + 2 * HIGH * 8
