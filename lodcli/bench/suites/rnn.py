"""`lod bench rnn`: one RNN layer over sequences of many lengths, against other libraries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from lodcli.bench.measure.checks import Result
from lodcli.bench.measure.machine import require_memory
from lodcli.bench.measure.peer_set import PeerSet
from lodcli.bench.measure.tasks import OURS, LimitKind, Task, Way, Work, in_this_process
from lodcli.bench.suites.cases import Case
from lodcli.bench.suites.plan import Plan
from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.dtypes import is_half
from lodcli.kernels.rnn.engine.amx.availability import require_amx
from lodcli.kernels.rnn.engine.engine import rnn_backward, rnn_forward
from lodcli.kernels.rnn.stack.stack import seeded_weights
from lodcli.kernels.runtime.arrays import is_on_device
from lodcli.kernels.runtime.devices import moved
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.runtime.precision import Precision, float32_products

CELLS = {"lstm": 4, "gru": 3, "elman": 1}
WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
PASSES = ("forward", "training")
ON_PADDED = "on padded input"
STEP_BY_STEP = "step by step"
ON_FLOAT32 = "on float32 rows"
# Sums of float32 in another order: outputs are within 1, gradients are sums of thousands of rows.
TOLERANCE = {"forward": 3e-5, "training": 3e-4}
# For operands of 11 bits, over a hundred steps; of 8 bits for bfloat16, to which torch also rounds
# states and results.
ROUNDED_TOLERANCE = {"forward": 1e-2, "training": 5e-2}
# By precision or dtype.
_TOLERANCES = {
    "float32": TOLERANCE,
    "float64": {"forward": 1e-13, "training": 1e-12},
    "bfloat16": {"forward": 5e-2, "training": 2e-1},
}


@dataclass(frozen=True)
class RnnPlan(Plan):
    """The cells and cases to measure, forward only or forward and backward ("lstm training").

    Attributes:
        precision: of products: "float32" or "bfloat16"; on a GPU also "tf32" or "float16".
        dtype: of rows and weights: "float32" or "float64".
    """

    precision: Precision = "float32"
    dtype: str = "float32"

    def check(self, devices: Sequence[str]) -> None:
        """Raise NotEnoughMemoryError if a case would not fit, UnsupportedError without AMX."""
        if self.precision == "bfloat16" and "cpu" in devices:
            require_amx()
        needs = _needed_bytes if "cpu" in devices else _needed_at_home_bytes
        for case in self.cases:
            lengths = rnn_lengths(case, f"rnn {self.ops[0].split()[0]}", 3)
            for cell in dict.fromkeys(op.split()[0] for op in self.ops):
                needed = needs(cell, case, lengths) * (1 + (self.dtype == "float64"))
                require_memory(needed, f"rnn {cell} {case.name}")

    def task(self, op: str, case: Case, peers: PeerSet, opened: ExitStack) -> Task:
        """See Plan."""
        cell, which = op.split()
        return rnn_task(cell, which, case, peers, self.precision, self.dtype)


def rnn_lengths(case: Case, what: str = "", copies: int = 0) -> Offsets:
    """Return the lengths of a case, none of them 0: torch cannot pack empty sequences.

    Args:
        what, copies: see `Case.draw_lengths`.
    """
    return np.maximum(case.draw_lengths(what, copies), 1)


def rnn_task(
    cell: str,
    which: str,
    case: Case,
    peers: PeerSet,
    precision: Precision = "float32",
    dtype: str = "float32",
) -> Task:
    """Return the task of running one cell on one case, with lod and the peers."""
    inputs = make_inputs(cell, case, dtype) | {"precision": precision}
    exact = precision == "float32"
    # With a different name, so that it is not compared with float32.
    kind = dtype if exact else precision
    there = _on_gpu(cell, case, inputs) if peers.device == "cuda" else None
    others, skipped = peers.candidates("rnn", which, there or inputs)
    lengths = inputs["lengths"]
    rows, gates = int(lengths.sum()), CELLS[cell] * case.hidden
    # Multiplications and additions of the two products; backward does each twice.
    operations = 2.0 * rows * gates * (case.features + case.hidden) * (1 + 2 * (which != "forward"))
    # Computed with NumPy in full precision, as a reference for results of a GPU.
    whole = inputs | {"precision": "float32"}
    call, results = _way(which, whole, *_rows(inputs), None, "numpy")
    padding = float(lengths.max() * lengths.size / rows)
    our_ways = ours(which, there or inputs)
    return Task(
        bench="rnn",
        op=f"{cell} {which}",
        parameters={
            **case.parameters(),
            "rows": rows,
            "padding_ratio": round(padding, 3),
            **({} if kind == "float32" else {"case": f"{case.name} {kind}"}),
            **({} if exact else {"precision": precision}),
            **({} if dtype == "float32" else {"dtype": dtype}),
            **(_chosen(our_ways[""][0]) if there else {}),
        },
        candidates=[*in_this_process(OURS, our_ways, peers.timed), *others],
        # The limit is a product in float32.
        work=Work(operations, "FLOP", operations, _limit(there is not None, kind)),
        tolerance=_TOLERANCES.get(kind, ROUNDED_TOLERANCE)[which],
        skipped=skipped,
        device=peers.device,
        witness=(lambda: results(call())) if there else None,
    )


def _chosen(call: Callable[[], Any]) -> dict[str, Any]:
    """Return how a GPU runs the layer, and the estimated time: see costs.py of the engine."""
    from lodcli.kernels.rnn.engine.cupy.ways import observed

    with observed() as found:
        call()
    return {
        "way": "; back: ".join(map(str, found)),
        "estimated_seconds": f"{1e-6 * sum(way.microseconds for way in found):.3g}",
    }


def _limit(on_gpu: bool, kind: str) -> LimitKind | None:
    if kind != "float32":
        return None
    return "gemm" if on_gpu else "fma"


def _on_gpu(cell: str, case: Case, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs with all arrays except the lengths on the GPU."""
    from lodcli.bench.measure import gpu_cupy

    needed = _needed_bytes(cell, case, inputs["lengths"])
    gpu_cupy.require_memory(needed, f"rnn {cell} {case.name}")
    return gpu_cupy.moved(inputs, ("data", "upstream", *WEIGHTS))


def _needed_bytes(cell: str, case: Case, lengths: Offsets) -> int:
    box = int(lengths.max(initial=0)) * lengths.size
    width = case.features + 3 * CELLS[cell] * case.hidden
    # Padded peers save values for backward for every step of the padded batch.
    return 4 * (3 * box + 3 * int(lengths.sum())) * width


def _needed_at_home_bytes(cell: str, case: Case, lengths: Offsets) -> int:
    """Return the main memory needed if a GPU computes: inputs, the NumPy run, results."""
    rows, box = int(lengths.sum()), int(lengths.max(initial=0)) * lengths.size
    width = case.features + 3 * CELLS[cell] * case.hidden
    return 4 * (3 * rows * width + 3 * box * (case.features + case.hidden))


def make_inputs(cell: str, case: Case, dtype: str = "float32") -> dict[str, Any]:
    """Return rows, lengths, weights in torch's layout and names, and an upstream gradient."""
    rng = np.random.default_rng(case.seed + 1)
    lengths = rnn_lengths(case)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = int(offsets[-1])
    weights = seeded_weights(cell, case.features, case.hidden, rng=rng).layers[0][0]
    return {
        "cell": cell,
        "lengths": lengths,
        "offsets": offsets,
        # Positions of the rows in a flattened padded batch of S sequences of T steps.
        "places": box_places(lengths),
        "data": rng.standard_normal((rows, case.features), np.float32).astype(dtype, copy=False),
        "upstream": rng.standard_normal((rows, case.hidden), np.float32).astype(dtype, copy=False),
        **{name: array.astype(dtype, copy=False) for name, array in weights.arrays().items()},
    }


def box_places(lengths: Offsets) -> Offsets:
    """Return the position of each row in a flattened padded batch (S, T)."""
    return np.flatnonzero(np.arange(lengths.max(initial=0)) < lengths[:, None])


def ours(which: str, inputs: dict[str, Any]) -> dict[str, Way]:
    """Return lod's implementations: on ragged rows, and on the same rows padded.

    On a GPU also step by step, if all steps could be one launch. With precision "float16" or
    "bfloat16" the rows have this dtype, as for peers; float32 rows are a separate implementation.
    """
    if is_on_device(inputs["data"]) and inputs["precision"] in ("float16", "bfloat16"):
        there = _way(which, inputs, *_rows(inputs), None)
        return _ours(which, _narrow(inputs)) | {ON_FLOAT32: there}
    return _ours(which, inputs)


def _narrow(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the inputs with rows and weights in the dtype of the precision."""
    dtype = dtype_of_rows(inputs["precision"])
    return inputs | {name: inputs[name].astype(dtype) for name in ("data", "upstream", *WEIGHTS)}


def _ours(which: str, inputs: dict[str, Any]) -> dict[str, Way]:
    lengths = inputs["lengths"]
    steps, places = int(lengths.max()), inputs["places"]
    everywhere = np.arange(lengths.size + 1) * steps

    def padded(rows: Array) -> Array:
        box = np.zeros_like(rows, shape=(lengths.size * steps, rows.shape[1]))
        box[np.asarray(places, like=rows)] = rows
        return box

    ways = {"": _way(which, inputs, *_rows(inputs), None)}
    if is_on_device(inputs["data"]):
        call, results = ways[""]
        ways[STEP_BY_STEP] = (_stepwise(call), results)
    if everywhere[-1] > len(inputs["data"]):
        boxes = padded(inputs["data"]), padded(inputs["upstream"])
        ways[ON_PADDED] = _way(which, inputs, boxes[0], everywhere, boxes[1], places)
    return ways


def _stepwise(call: Callable[[], Any]) -> Callable[[], Any]:
    """Return a call that launches every step separately."""
    from lodcli.kernels.rnn.engine.cupy.ways import step_by_step

    def stepwise() -> Any:
        with step_by_step():
            return call()

    return stepwise


def _rows(inputs: dict[str, Any]) -> tuple[Array, Offsets, Array]:
    return inputs["data"], inputs["offsets"], inputs["upstream"]


def _way(
    which: str,
    inputs: dict[str, Any],
    data: Array,
    offsets: Offsets,
    upstream: Array,
    places: Offsets | None,
    backend: Backend = "auto",
) -> Way:
    from lodcli.kernels.rnn.cells.registry import weights_class

    weights = weights_class(inputs["cell"])(**{name: inputs[name] for name in WEIGHTS})
    rows = slice(None) if places is None else places
    # Training changes the weights after every run; inference does not.
    frozen = weights.frozen()

    precision: Precision = inputs["precision"]

    def forward() -> Any:
        with float32_products(precision):
            return rnn_forward(data, offsets, frozen, cells=False, backend=backend)

    def training() -> Any:
        with float32_products(precision):
            run = rnn_forward(data, offsets, weights, keep=True, backend=backend)
            assert run.tape is not None
            return run, rnn_backward(run.tape, grad_outputs=upstream)

    def arrays(found: Any) -> Result:
        if which == "forward":
            return [_comparable(moved(found.outputs, "cpu"))[rows]]
        run, grads = found
        # Padding has inputs of zero, but biases apply: its states go on. They contribute no
        # gradients of weights, since their upstream gradient is zero.
        found = (run.outputs, grads.input, grads.weights.weight_hh)
        outputs, flow, weight = (_comparable(moved(one, "cpu")) for one in found)
        return [outputs[rows], flow[rows], weight]

    return (forward if which == "forward" else training), arrays


def _comparable(found: Array) -> Array:
    """Return an array; float16 and bfloat16 are converted to float32."""
    return found.astype(np.float32) if is_half(found.dtype) else found
