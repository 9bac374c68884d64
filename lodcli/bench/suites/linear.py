"""`lod bench linear`: one layer of a linear cell, against torch's loop and its parallel scans."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from lodcli.bench.measure.checks import Result
from lodcli.bench.measure.machine import require_memory
from lodcli.bench.measure.peer_set import PeerSet
from lodcli.bench.measure.tasks import OURS, Task, Way, Work, in_this_process
from lodcli.bench.suites.cases import Case
from lodcli.bench.suites.plan import Plan
from lodcli.bench.suites.rnn import box_places, rnn_lengths
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.engine.engine import rnn_backward, rnn_forward
from lodcli.kernels.rnn.stack.stack import seeded_weights

LINEAR_CELLS = ("mingru", "minlstm", "rglru", "lru", "s5")
# Prefix of the names of weights in the inputs.
WEIGHT = "weight_"
# For float32: a scan adds in another order. If a candidate is 0 up to rounding, g has one of two
# slopes, which changes a gradient by the contribution of one row.
TOLERANCE = {"forward": 2e-4, "training": 1e-2}


@dataclass(frozen=True)
class LinearPlan(Plan):
    """The cells and cases to measure, forward only or forward and backward ("lru training")."""

    def check(self, devices: Sequence[str]) -> None:
        """Raise NotEnoughMemoryError if a case would not fit."""
        for case in self.cases:
            lengths = rnn_lengths(case, "linear", 2)
            steps = int(lengths.max())
            # A scan by doubling saves the results of each pass for backward.
            passes = 4 + 4 * steps.bit_length()
            needed = 8 * lengths.size * steps * (case.features + passes * case.hidden)
            require_memory(needed, f"linear {case.name}")

    def task(self, op: str, case: Case, peers: PeerSet, opened: ExitStack) -> Task:
        """See Plan."""
        cell, which = op.split()
        return linear_task(cell, which, case, peers)


def linear_task(cell: str, which: str, case: Case, peers: PeerSet) -> Task:
    """Return the task of running one cell on one case, with lod and the peers."""
    inputs, layer = make_inputs(cell, case)
    others, skipped = peers.candidates("linear", which, inputs)
    lengths = inputs["lengths"]
    rows = int(lengths.sum())
    # The operations of the matrix products; backward does each twice.
    operations = float(rows) * layer.operations * (1 + 2 * (which != "forward"))
    padding = float(lengths.max() * lengths.size / rows)
    return Task(
        bench="linear",
        op=f"{cell} {which}",
        parameters={**case.parameters(), "rows": rows, "padding_ratio": round(padding, 3)},
        candidates=[*in_this_process(OURS, {"": _way(which, inputs, layer)}), *others],
        work=Work(operations, "FLOP", operations, "fma"),
        tolerance=TOLERANCE[which],
        skipped=skipped,
    )


def make_inputs(cell: str, case: Case) -> tuple[dict[str, Any], Any]:
    """Return rows, lengths, weights by field and an upstream gradient; and the weights of lod."""
    rng = np.random.default_rng(case.seed + 1)
    lengths = rnn_lengths(case)
    rows = int(lengths.sum())
    weights = seeded_weights(cell, case.features, case.hidden, rng=rng).layers[0][0]
    inputs = {
        "cell": cell,
        "lengths": lengths,
        "offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        "places": box_places(lengths),
        "data": rng.standard_normal((rows, case.features), np.float32),
        "upstream": rng.standard_normal((rows, weights.output_size), np.float32),
        # The weight whose gradient is compared.
        "compared": WEIGHT + weights.INPUT_WEIGHT,
        **{WEIGHT + field: array for field, array in weights.arrays().items()},
    }
    return inputs, weights


def _way(which: str, inputs: dict[str, Any], weights: Any) -> Way:
    frozen = weights.frozen()
    data, offsets, upstream = inputs["data"], inputs["offsets"], inputs["upstream"]

    def forward() -> Array:
        run = rnn_forward(data, offsets, frozen, cells=False)
        return run.outputs

    def training() -> Any:
        run = rnn_forward(data, offsets, weights, keep=True, cells=False)
        assert run.tape is not None
        return run, rnn_backward(run.tape, grad_outputs=upstream)

    def arrays(found: Any) -> Result:
        run, grads = found
        compared = grads.weights.arrays()[weights.INPUT_WEIGHT]
        # Summed, so that the slope in one row has little effect.
        return [run.outputs, grads.input.sum(axis=0, dtype=np.float64), compared]

    return (forward, lambda found: [found]) if which == "forward" else (training, arrays)
