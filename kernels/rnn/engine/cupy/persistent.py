"""All steps of a layer in one launch, with the recurrent weights in shared memory.

See rnn_persistent.cu for who does what, and costs.py for when.
"""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import blocks, run_together
from lodcli.kernels.rnn.engine.cupy.costs import THREADS, Way
from lodcli.kernels.rnn.engine.cupy.spaces import Backward, Forward

COUNT_BYTES = 128  # a line for the meetings of each group


def run_forward(space: Forward, way: Way) -> None:
    """Run the steps forward that are one launch."""
    _run("persistent_forward", space, way)


def run_backward(space: Backward, way: Way) -> None:
    """Go back through the steps that are one launch; the last product is in `flow`."""
    _run("persistent_backward", space, way)


def _run(kernel: str, space: Forward | Backward, way: Way) -> None:
    fit, place, weights = way.fit, space.place, space.weights
    assert fit is not None
    sequences = int(space.order.plan.step_sizes[way.large])
    passed = 2 * sequences * fit.row_bytes
    zeros = cupy.zeros((passed + fit.groups * COUNT_BYTES) // 4, np.uint32)
    run_together(
        "rnn_persistent",
        f"{kernel}<{fit.types}>",
        (blocks(weights.hidden_size, fit.units), fit.groups),
        (THREADS,),
        fit.shared_bytes,
        cupy.asarray(space.table.words())[place:],
        weights.weight_hh,
        zeros,
        zeros[passed // 4 :],
        fit.units,
        fit.tall,
        sequences,
        fit.deep,
        way.large,
    )
