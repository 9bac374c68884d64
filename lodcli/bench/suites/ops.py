"""The sequence ops of `lod bench kernels`: their inputs, and lod's implementation."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes  # noqa: F401 - makes NumPy know bfloat16
import numpy as np

from lodcli.bench.measure.checks import Result
from lodcli.bench.measure.tasks import OUT, LimitKind, Way, Work
from lodcli.bench.suites.cases import Case
from lodcli.bench.suites.lengths import shares
from lodcli.bench.suites.row_numbers import row_numbers
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.attention.attention import sequence_attention_grad
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.runtime.devices import moved
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Inputs = dict[str, Any]

# A larger padded batch is truncated at the 99th percentile of the lengths.
LARGEST_BOX_BYTES = 3 << 30
FLOAT = 4
# The inputs that are rows: for a GPU they are in its memory.
ROWS = ("data", "values", "other", "addend", "box", "weight")
EPSILON = 1.2e-7
HALF_EPSILONS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
# conv: each row with the one before and after it; the maximum number of columns of its result.
CONTEXT_ROWS, MOST_FILTERS = 3, 64


@dataclass(frozen=True)
class BenchOp:
    """How an op of lodcli.kernels.ops.registry is measured.

    Attributes:
        inputs: names beyond "data" and "offsets": "values" (S, D), "other" (a second
            tensor), "addend" (N, D), "weight" (3 * D, M), "box" (a padded batch), "maxlen", "picks"
            (numbers of sequences), "rows" (row numbers for peers).
        limit: the machine's limit that applies.
        moved: function from the sizes of a case to the bytes that must be moved; with the limit
            "fma" to the additions and multiplications.
        arguments: function from the inputs to the arguments of the op.
        results: function from a result to the arrays to compare; indices as int64 rows.
        rounds_off: whether the result depends on the order of additions.
        name: in the registry, if it differs.
        function: the measured function, if it is not an op of the registry.
        has_backend: whether it has a parameter `backend`.
        dtype: of the rows on a GPU. If it is not float32, the op is measured only there, and
            compared with NumPy on float32 rows rounded to this dtype.
    """

    limit: LimitKind
    moved: Callable[[Sizes], float]
    arguments: Callable[[Inputs], tuple[tuple[Any, ...], dict[str, Any]]]
    inputs: tuple[str, ...] = ()
    results: Callable[[Any, Inputs], Result] = lambda value, inputs: [value.data]
    rounds_off: bool = False
    useful: Callable[[Sizes], float] | None = None
    name: str = ""
    function: Callable[..., Any] | None = None
    has_backend: bool = True
    dtype: str = "float32"

    @property
    def on_cpu(self) -> bool:
        """Whether it is measured on the CPU as well."""
        return self.dtype == "float32"

    def load(self, op: str) -> Callable[..., Any]:
        """Return the measured function."""
        return self.function or OPS[self.name or op].load()


@dataclass(frozen=True)
class Sizes:
    """The sizes of the arrays of a case.

    Attributes:
        scores: number of scores of attention: each row with all rows of its sequence.
    """

    rows: int
    row_bytes: int
    sequences: int
    longest: int
    scores: int
    box_rows: int
    other_rows: int
    kept_rows: int

    @property
    def features(self) -> int:
        return self.row_bytes // FLOAT

    @property
    def data(self) -> int:
        return self.rows * self.row_bytes

    @property
    def index(self) -> int:
        return 8 * (self.sequences + 1)

    @property
    def pooled(self) -> int:
        return self.sequences * self.row_bytes


def filters(features: int) -> int:
    """Return the number of columns of the result of conv."""
    return min(features, MOST_FILTERS)


def _tensor(inputs: Inputs) -> LoDTensor:
    return LoDTensor(inputs["data"], LoD([inputs["offsets"]]))


def _one(inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (_tensor(inputs),), {}


def _pool_op(**changes: Any) -> BenchOp:
    return BenchOp("read", lambda z: z.data + z.index + z.pooled, _one, results=_of_full, **changes)


def _copy_op(**changes: Any) -> BenchOp:
    return BenchOp("copy", lambda z: 2 * z.data + z.index, _one, **changes)


def _pick_op() -> BenchOp:
    return BenchOp(
        "copy", lambda z: 2 * z.pooled + z.index, _one, inputs=("rows",), results=_of_full
    )


def _of_full(value: Any, inputs: Inputs) -> Result:
    """Return the rows of sequences that are not empty: libraries fill the others differently."""
    return [value.data[inputs["full"]]]


def _values_and_their_rows(value: Any, inputs: Inputs) -> Result:
    return extremes_at(value[0].data, value[1].data, inputs)


def extremes_at(values: Array, rows: Array, inputs: Inputs) -> Result:
    """Return the extremes, and the values in the rows returned as their positions.

    For equal values, libraries return different rows, which are all correct.
    """
    full = inputs["full"]
    return [values[full], np.take_along_axis(inputs["data"], rows[full], axis=0)]


def _three(inputs: Inputs) -> tuple[LoDTensor, LoDTensor, LoDTensor]:
    return _tensor(inputs), _tensor(inputs), _tensor(inputs)


def _half_attention(dtype: str) -> BenchOp:
    return BenchOp(
        "copy",
        lambda z: 2 * z.data + z.index,
        lambda i: (_three(i), {}),
        results=lambda value, _: [value.data.astype(np.float32)],
        rounds_off=True,
        name="attention",
        dtype=dtype,
    )


def _half_attention_grad(dtype: str) -> BenchOp:
    return BenchOp(
        "copy",
        lambda z: 3.5 * z.data + z.index,
        lambda i: ((i["addend"], *_three(i)), {}),
        inputs=("addend",),
        results=lambda value, _: [one.data.astype(np.float32) for one in value],
        rounds_off=True,
        function=sequence_attention_grad,
        dtype=dtype,
    )


BENCH_OPS: dict[str, BenchOp] = {
    "sum": _pool_op(rounds_off=True),
    "mean": _pool_op(rounds_off=True),
    "max": _pool_op(),
    "min": _pool_op(),
    "max_index": BenchOp(
        "read", lambda z: z.data + z.index + 3 * z.pooled, _one, results=_values_and_their_rows
    ),
    "softmax": _copy_op(rounds_off=True),
    "log_softmax": _copy_op(rounds_off=True),
    "pad": BenchOp(
        "copy",
        lambda z: z.data + z.index + z.box_rows * z.row_bytes,
        lambda i: ((_tensor(i),), {"maxlen": i["maxlen"], "truncate": True}),
        inputs=("maxlen",),
        results=lambda value, inputs: [value[0]],
        useful=lambda z: 2 * z.kept_rows * z.row_bytes,
    ),
    "unpad": BenchOp(
        "copy",
        lambda z: 2 * z.kept_rows * z.row_bytes + z.index,
        lambda i: ((i["box"], i["kept"]), {}),
        inputs=("maxlen", "box", "rows"),
    ),
    "expand": BenchOp(
        "write",
        lambda z: z.data + z.index + z.pooled,
        lambda i: ((LoDTensor(i["values"], LoD([])), _tensor(i)), {}),
        inputs=("values", "rows"),
        name="expand_as",
    ),
    "concat": BenchOp(
        "copy",
        lambda z: 2 * (z.data + z.other_rows * z.row_bytes) + 3 * z.index,
        lambda i: (([_tensor(i), LoDTensor(i["other"], LoD([i["other_offsets"]]))],), {}),
        inputs=("other", "rows"),
    ),
    "reverse": _copy_op(inputs=("rows",)),
    "first": _pick_op(),
    "last": _pick_op(),
    "slice": BenchOp(
        "copy",
        lambda z: 2 * (z.rows // 2) * z.row_bytes + 3 * z.index,
        lambda i: ((_tensor(i), i["slice_starts"], i["slice_lengths"]), {}),
        inputs=("slices", "rows"),
    ),
    "cumsum": _copy_op(rounds_off=True),
    "shift": _copy_op(),
    "diff": BenchOp("copy", lambda z: 2 * z.data + 2 * z.index, _one),
    "add": BenchOp(
        "copy",
        lambda z: 3 * z.data + 2 * z.index,
        lambda i: ((_tensor(i), _tensor(i).with_data(i["addend"])), {}),
        inputs=("addend",),
    ),
    # Self-attention with one head.
    "attention": BenchOp(
        "fma",
        lambda z: 4.0 * z.features * z.scores,
        lambda i: (_three(i), {}),
        rounds_off=True,
    ),
    "attention_float16": _half_attention("float16"),
    "attention_bfloat16": _half_attention("bfloat16"),
    # Forward and backward.
    "attention_grad_float16": _half_attention_grad("float16"),
    "attention_grad_bfloat16": _half_attention_grad("bfloat16"),
    "sort_by_length": _copy_op(inputs=("rows",), has_backend=False),
    # Each row with its neighbours, times a matrix.
    "conv": BenchOp(
        "fma",
        lambda z: 2.0 * z.rows * CONTEXT_ROWS * z.features * filters(z.features),
        lambda i: (
            (_tensor(i), i["weight"]),
            {"context_length": CONTEXT_ROWS, "context_start": -1},
        ),
        inputs=("weight", "rows"),
        rounds_off=True,
    ),
    # tensor[numbers]: half of the sequences, in random order.
    "pick": BenchOp(
        "copy",
        lambda z: z.data + 2 * z.index,
        lambda i: ((_tensor(i), i["picks"]), {}),
        inputs=("picks", "rows"),
        function=operator.getitem,
        has_backend=False,
    ),
}


def ops_of(devices: Sequence[str]) -> list[str]:
    """Return the ops that are measured on one of the devices."""
    return [op for op, entry in BENCH_OPS.items() if entry.on_cpu or "cuda" in devices]


def sizes_of(case: Case, lengths: Offsets) -> Sizes:
    """Return the sizes of a case without making its arrays."""
    row_bytes = FLOAT * case.features
    longest = int(lengths.max(initial=0))
    if longest * lengths.size * row_bytes > LARGEST_BOX_BYTES:
        longest = int(np.quantile(lengths, 0.99))
    return Sizes(
        rows=int(lengths.sum()),
        row_bytes=row_bytes,
        sequences=int(lengths.size),
        longest=longest,
        scores=int((lengths * lengths).sum()),
        box_rows=longest * int(lengths.size),
        other_rows=int(lengths.sum()) // 2,
        kept_rows=int(np.minimum(lengths, longest).sum()),
    )


def needed_bytes(op: str, sizes: Sizes) -> int:
    """Return the maximum memory for measuring an op: inputs, results, temporaries of peers."""
    box = sizes.box_rows * sizes.row_bytes
    if op in ("pad", "unpad"):
        return 2 * sizes.data + 4 * box
    if not BENCH_OPS[op].on_cpu:  # q, k, v and their gradients, also as padded batches
        return 12 * sizes.data + 8 * sizes.rows
    if op == "concat":
        return 9 * sizes.data
    if op == "conv":  # rows with their neighbours, and row numbers
        return 14 * sizes.data + 40 * sizes.rows
    # A composed softmax needs about six arrays of the size of the rows; other ops fewer.
    return 8 * sizes.data if "softmax" in op else 5 * sizes.data + 8 * sizes.rows


def work_of(op: str, sizes: Sizes) -> Work:
    """Return the bytes that an op must move, or the operations that it must compute."""
    entry = BENCH_OPS[op]
    moved = entry.moved(sizes)
    useful = entry.useful(sizes) if entry.useful else moved
    return Work(useful, "FLOP" if entry.limit == "fma" else "B", moved, entry.limit)


def tolerance_of(op: str, lengths: Offsets) -> float:
    """Return the difference allowed between two orders of adding float32 numbers.

    Errors of a running sum grow with the square root of its length; the factor is a safety
    margin. Weights in float16 or bfloat16 are rounded before the product.
    """
    if not BENCH_OPS[op].on_cpu:
        return 8 * HALF_EPSILONS[BENCH_OPS[op].dtype]
    if not BENCH_OPS[op].rounds_off:
        return 0.0
    return float(max(1e-5, 4 * EPSILON * np.sqrt(lengths.max(initial=1))))


def make_inputs(op: str, case: Case, sizes: Sizes) -> Inputs:
    """Return the input arrays of an op; always the same for a case."""
    rng = np.random.default_rng([case.seed + 1, 1])
    offsets = case.offsets()
    lengths = np.diff(offsets)
    found: Inputs = {
        "data": _drawn(int(offsets[-1]), case.features, case.seed + 1),
        "offsets": offsets,
        "full": lengths > 0,
    }
    wanted = BENCH_OPS[op].inputs
    if "values" in wanted:
        found["values"] = rng.standard_normal((lengths.size, case.features), np.float32)
    if "other" in wanted:
        other = shares(rng.random(lengths.size), sizes.other_rows, rng)
        found["other"] = rng.standard_normal((sizes.other_rows, case.features), np.float32)
        found["other_offsets"] = np.concatenate([[0], np.cumsum(other)]).astype(np.int64)
    if "addend" in wanted:
        found["addend"] = rng.standard_normal(found["data"].shape, np.float32)
    if not BENCH_OPS[op].on_cpu:
        for name in (one for one in ROWS if one in found):
            found[name] = found[name].astype(BENCH_OPS[op].dtype).astype(np.float32)
    if "weight" in wanted:
        shape = CONTEXT_ROWS * case.features, filters(case.features)
        found["weight"] = rng.standard_normal(shape, np.float32) / np.float32(shape[0] ** 0.5)
    if "picks" in wanted:
        found["picks"] = rng.permutation(lengths.size)[: lengths.size // 2]
    if "maxlen" in wanted:
        found["maxlen"] = sizes.longest
        found["kept"] = np.minimum(lengths, sizes.longest)
    if "box" in wanted:
        found["box"] = _box(found)
    if "slices" in wanted:
        found["slice_starts"] = lengths // 4
        found["slice_lengths"] = lengths // 2
    if "rows" in wanted:
        found["rows"] = row_numbers(op, found)
    return found


@lru_cache(maxsize=1)
def _drawn(rows: int, features: int, seed: int) -> Array:
    """Return random rows, shared by all ops of a case: drawing gigabytes takes longer than most."""
    return np.random.default_rng(seed).standard_normal((rows, features), np.float32)


def _box(inputs: Inputs) -> Array:
    data, kept = inputs["data"], inputs["kept"]
    box = np.zeros((kept.size, inputs["maxlen"], data.shape[1]), data.dtype)
    where = np.arange(inputs["maxlen"]) < kept[:, None]
    box[where] = data[: int(kept.sum())]
    return box


def ours(op: str, inputs: Inputs, there: Inputs | None = None) -> dict[str, Way]:
    """Return lod's implementations of an op: allocating, and writing to a preallocated array.

    Args:
        there: the inputs with their rows on a GPU, to compute there.
    """
    entry = BENCH_OPS[op]
    function = entry.load(op)
    given = dict(there or inputs)
    for name in (one for one in ROWS if one in given):
        given[name] = given[name].astype(entry.dtype, copy=False)
    arguments, options = entry.arguments(given)

    def call() -> Any:
        return function(*arguments, **options)

    def results(value: Any) -> Result:
        return entry.results(at_home(value), inputs)

    ways: dict[str, Way] = {"": (call, results)}
    if "out" in inspect.signature(function).parameters:
        target = _made_before(op, call())
        ways[OUT] = (lambda: function(*arguments, **options, out=target), results)
    return ways


def reference(op: str, inputs: Inputs) -> Callable[[], Result]:
    """Return a function that computes an op with NumPy, as a reference for results of a GPU."""
    entry = BENCH_OPS[op]
    function = entry.load(op)
    arguments, options = entry.arguments(inputs)
    options = {**options, **({"backend": "numpy"} if entry.has_backend else {})}
    return lambda: entry.results(function(*arguments, **options), inputs)


def at_home(value: Any) -> Any:
    """Return a result in main memory."""
    if isinstance(value, tuple):
        return tuple(at_home(part) for part in value)
    return value.to_device("cpu") if isinstance(value, LoDTensor) else moved(value, "cpu")


def _made_before(op: str, value: Any) -> Any:
    """Return an array for `out`, written to once so that its pages exist before timing."""
    parts = value if isinstance(value, tuple) else (value,)
    arrays = [part.data if isinstance(part, LoDTensor) else part for part in parts]
    made = [np.zeros_like(array) for array in arrays]
    return tuple(made) if op == "max_index" else made[0]
