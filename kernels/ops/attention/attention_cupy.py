"""See attention.py. Scores are computed in tiles and never stored: attention.cu."""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import blocks, c_type, limits, on_device, run, shortest_and_longest
from lodcli.kernels.cuda.tensor_cores import TENSOR_CORES, precision_of
from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.ops.attention.attention import Align, grouped
from lodcli.kernels.ops.dtypes import is_half, working_dtype
from lodcli.kernels.options import to_main_memory

# Width of rows that the tensor core tiles are made for; wider rows use the exact tiles.
WIDTHS = (32, 64, 128)
_NUMBERS = {"float32": "TF32", "float16": "FP16", "bfloat16": "BF16"}
# Keys of a query are divided into parts if that fills a GPU; minimum number of keys of a part.
LEAST_KEYS = 256
# Blocks of attention.cu resident on a multiprocessor; no parts are made if there are more than this
# many times as many tiles.
_RESIDENT, _MANY = 2, 16
# Positions inside a segment are 32-bit.
_LONGEST = (1 << 31) - 256


class _Tiles(NamedTuple):
    """The tiles of a kernel, as in attention_exact.cuh and attention_rounded.cuh.

    Attributes:
        name: the type in C++.
        own: rows per block.
        wide: columns of the result per block.
        threads: per block.
        shared_bytes: shared memory per block.
    """

    name: str
    own: int
    wide: int
    threads: int
    shared_bytes: int


class _Task(NamedTuple):
    """The problem of one launch.

    Attributes:
        q, k, v: (N, heads, D), (M, heads, D) and (M, heads, E), as kernels read them.
        q_offsets, k_offsets: (S+1,).
        rounded: whether products use tensor cores.
        result: the dtype of the result.
        sums: the dtype of accumulators.
        way: 0 for all keys, 1 or 2 for causal: see attention.cu.
        scale: factor of the scores.
    """

    q: Array
    k: Array
    v: Array
    q_offsets: Offsets
    k_offsets: Offsets
    rounded: bool
    result: np.dtype[Any]
    sums: np.dtype[Any]
    way: int
    scale: float

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The number of heads, D and E."""
        return self.q.shape[1], self.q.shape[2], self.v.shape[2]

    def tiles(self, of: str) -> _Tiles:
        """Return the tiles for the result (""), or for the gradients of "QUERY" or "KEY"."""
        _, *widths = self.sizes
        wide = max(widths) if of == "KEY" else widths[0] if of else widths[1]
        return (
            _rounded_tiles(self.q.dtype, max(widths), of)
            if self.rounded
            else _exact_tiles(self.q.dtype, wide, of)
        )


def segment_attention(
    q: Array,
    k: Array,
    v: Array,
    q_offsets: Offsets,
    k_offsets: Offsets,
    *,
    causal: bool,
    align: Align = "last",
    scale: float,
) -> Array:
    """See attention.py. Two-byte rows are multiplied on tensor cores without conversion.

    A head of keys that several heads of queries read is copied for each of them.
    """
    k, v = _repeated(k, v, grouped(q, k))
    return _forward(_task(q, k, v, q_offsets, k_offsets, causal, align, scale))[0]


def segment_attention_grad(
    q: Array,
    k: Array,
    v: Array,
    q_offsets: Offsets,
    k_offsets: Offsets,
    grad: Array,
    *,
    causal: bool,
    align: Align = "last",
    scale: float,
) -> tuple[Array, Array, Array]:
    """See attention.py. Keys are copied as by `segment_attention`, and their gradients summed."""
    groups = grouped(q, k)
    k, v = _repeated(k, v, groups)
    task = _task(q, k, v, q_offsets, k_offsets, causal, align, scale)
    flow = cupy.ascontiguousarray(grad.astype(task.q.dtype, copy=False))
    result, logs = _forward(task)
    deltas = cupy.empty(logs.shape, logs.dtype)
    queries, keys = (task.q, flow), (task.k, task.v)
    grad_q, _ = _gradients("QUERY", task, queries, keys, result, logs, deltas)
    grad_k, grad_v = _gradients("KEY", task, keys, queries, result, logs, deltas)
    if groups > 1:
        grad_k, grad_v = (
            one.reshape(len(one), one.shape[1] // groups, groups, one.shape[2])
            .sum(axis=2, dtype=task.sums)
            .astype(task.result, copy=False)
            for one in (grad_k, grad_v)
        )
    return grad_q, grad_k, grad_v


def _repeated(k: Array, v: Array, groups: int) -> tuple[Array, Array]:
    """Return keys and values with each head repeated for the heads of queries that read it."""
    if groups == 1:
        return k, v
    return cupy.repeat(k, groups, axis=1), cupy.repeat(v, groups, axis=1)


def _task(
    q: Array,
    k: Array,
    v: Array,
    q_offsets: Offsets,
    k_offsets: Offsets,
    causal: bool,
    align: Align,
    scale: float,
) -> _Task:
    """Return the problem and its dtypes."""
    for offsets in (q_offsets, k_offsets):
        if offsets.size > 1 and shortest_and_longest(offsets)[1] > _LONGEST:
            raise UnsupportedError(
                f"attention on a GPU takes sequences of at most {_LONGEST} rows; "
                f"{to_main_memory('the rows')}"
            )
    half, precision = is_half(q.dtype), precision_of(q.dtype)
    fits = max(q.shape[2], v.shape[2]) <= WIDTHS[-1] and limits().capability >= TENSOR_CORES
    rounded = fits and (half or precision != "float32")
    dtype = result = np.dtype(np.float32) if half and not rounded else q.dtype
    if rounded and precision in ("float16", "bfloat16"):
        dtype = dtype_of_rows(precision)
    q, k, v = (cupy.ascontiguousarray(one.astype(dtype, copy=False)) for one in (q, k, v))
    sums = working_dtype(result)
    way = 0 if not causal else 2 if align == "last" else 1
    return _Task(q, k, v, q_offsets, k_offsets, rounded, result, sums, way, float(scale))


def _exact_tiles(dtype: np.dtype[Any], width: int, of: str) -> _Tiles:
    many = 16 // dtype.itemsize
    high = 16 * many
    parts = 1 if width <= high else 2
    # So that all values of a thread fit in registers.
    threads = 256 if of and dtype.itemsize == 4 else 128
    name = f"ExactTiles<{c_type(dtype, 'attention')}, {parts}, {threads}>"
    values = 2 * 2 * high * (4 * many + many) + high * (high + 4 * many)
    return _Tiles(name, high, high * parts, threads, values * dtype.itemsize)


def _rounded_tiles(dtype: np.dtype[Any], width: int, of: str) -> _Tiles:
    wide = next(one for one in WIDTHS if width <= one)
    across = wide * dtype.itemsize // 4 + 4
    if of:
        sides, others = 2, 32 if wide < WIDTHS[-1] else 16
    else:
        sides, others = 1, 64 if across < WIDTHS[-1] else 32
    name = f"RoundedTiles<{_NUMBERS[dtype.name]}, {wide}, {others}, {sides}>"
    return _Tiles(name, 64, wide, 128, (sides * 64 + 4 * others) * across * 4)


def _forward(task: _Task) -> tuple[Array, Array]:
    """Return the result, and (N, heads) the log-sum-exp of every query."""
    heads, _, width = task.sizes
    out = cupy.empty((task.q.shape[0], heads, width), task.result)
    logs = cupy.empty(out.shape[:2], task.sums)
    tiles = task.tiles("")
    counts = _counts(task.q_offsets, tiles.own)
    slabs = max(1, blocks(width, tiles.wide))
    parts = _parts(task, counts, tiles.own, slabs)
    grid_blocks, to, dtype = int(counts[-1]), (out, logs), task.result
    index = on_device(task.q_offsets), on_device(counts)
    divided: tuple[Any, ...] = (index[1], 0, 0)
    if parts:
        grid_blocks, dtype = int(parts.offsets[-1]), task.sums
        divided = (on_device(parts.offsets), parts.keys, parts.rows)
        shape = (grid_blocks * parts.rows, heads, width)
        to = cupy.empty(shape, dtype), cupy.empty(shape[:2], dtype)
    run(
        *("attention", f"attention<{tiles.name}, {c_type(dtype, 'attention')}>"),
        *((grid_blocks, heads, slabs), (tiles.threads,)),
        *(task.q, task.k, task.v, index[0], on_device(task.k_offsets)),
        *(index[1], task.q_offsets.size - 1, *task.sizes, task.scale, task.way, *divided, *to),
        shared_bytes=tiles.shared_bytes,
    )
    if parts:
        run(
            *("attention", f"attention_joined<{tiles.name}, {c_type(task.result, 'attention')}>"),
            *((out.shape[0], heads), (128,), *to, *index, divided[0], task.q_offsets.size - 1),
            *(heads, width, parts.rows, out, logs),
        )
    return out, logs


class _Parts(NamedTuple):
    """How the keys of tiles of queries are divided among blocks.

    Attributes:
        offsets: of the parts of each tile.
        keys: per part.
        rows: maximum per tile.
    """

    offsets: Offsets
    keys: int
    rows: int


def _parts(task: _Task, counts: Offsets, own: int, slabs: int) -> _Parts | None:
    """Return how to split the keys into parts; None if each tile processes all its keys.

    Args:
        counts: offsets of the tiles of each segment.
        own: queries per tile.
        slabs: number of column slabs of the result.
    """
    wanted, tiles = _RESIDENT * limits().multiprocessors, int(counts[-1])
    each = task.sizes[0] * slabs
    on_host = isinstance(task.q_offsets, np.ndarray) and isinstance(task.k_offsets, np.ndarray)
    if not (on_host and 0 < tiles * each < _MANY * wanted):
        return None
    many, others = np.diff(task.q_offsets), np.diff(task.k_offsets)
    segments = np.repeat(np.arange(many.size), np.diff(counts))
    ends = others[segments]
    if task.way:
        # The number of keys that the last query of each tile sees.
        last = (np.arange(tiles) - counts[segments] + 1) * own
        seen = np.minimum(last, many[segments])
        seen += (others - many)[segments] if task.way == 2 else 0
        ends = np.clip(seen, 0, ends)
    keys = max(LEAST_KEYS, -(-int(ends.sum()) * each // wanted))
    keys = blocks(keys, 64) * 64  # whole tiles of keys
    if int(ends.max()) < 2 * keys:
        return None
    offsets = lengths_to_offsets(np.maximum(1, -(-ends // keys)), level=0)
    return _Parts(offsets, keys, min(own, int(many.max())))


def _gradients(
    of: str,
    task: _Task,
    own: tuple[Array, Array],
    others: tuple[Array, Array],
    result: Array,
    logs: Array,
    deltas: Array,
) -> tuple[Array, Array]:
    """Return the gradients of own rows and values; those of queries have only the first.

    The kernel of the queries runs first: it writes the `deltas` that the kernel of the keys reads.
    """
    ours, theirs = task.q_offsets, task.k_offsets
    if of == "KEY":
        ours, theirs = theirs, ours
    heads, width, value_width = task.sizes
    wide = width if of == "QUERY" else max(width, value_width)
    first = cupy.empty(own[0].shape, task.result)
    second = cupy.empty(own[1].shape, task.result) if of == "KEY" else first
    tiles = task.tiles(of)
    counts = _counts(ours, tiles.own)
    run(
        *("attention", f"attention_grad<{tiles.name}, {c_type(task.result, 'attention')}, {of}>"),
        *((int(counts[-1]), heads, blocks(wide, tiles.wide)), (tiles.threads,)),
        *(*own, *others, on_device(ours), on_device(theirs), on_device(counts), ours.size - 1),
        *(*task.sizes, task.scale, task.way, result, logs, deltas, first, second),
        shared_bytes=tiles.shared_bytes,
    )
    return first, second


def _counts(offsets: Offsets, own: int) -> Offsets:
    """Return the offsets of the tiles of this many rows that each segment is split into."""
    return lengths_to_offsets(-(-np.diff(offsets) // own), level=0)
