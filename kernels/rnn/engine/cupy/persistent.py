"""All steps of a layer in one launch, with the recurrent weights in shared memory.

See rnn_one_launch.cuh for the roles of blocks, and costs.py for when it is used.
"""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import blocks, run_in_clusters, run_together
from lodcli.kernels.rnn.engine.cupy.costs import THREADS, Way
from lodcli.kernels.rnn.engine.cupy.spaces import Backward, Forward

COUNT_BYTES = 128  # one cache line per group for its barrier


def run_steps(space: Forward | Backward, way: Way) -> None:
    """Run the steps that are one launch; backward, the last product is in `flow`."""
    direction = "forward" if isinstance(space, Forward) else "backward"
    fit, place, weights = way.fit, space.place, space.weights
    assert fit is not None
    sequences = int(space.order.plan.step_sizes[way.large])
    run = cupy.asarray(space.table.words())[place:]
    if fit.cluster:
        run_in_clusters(
            "rnn_cluster",
            f"cluster_{direction}<{fit.cluster}, {fit.types}>",
            *((fit.cluster, fit.groups), (THREADS,), fit.shared_bytes),
            *(run, weights.weight_hh, fit.units, fit.tall, sequences, way.large),
        )
        return
    passed = 2 * sequences * fit.row_bytes
    zeros = cupy.zeros((passed + fit.groups * COUNT_BYTES) // 4, np.uint32)
    run_together(
        "rnn_persistent",
        f"persistent_{direction}<{fit.types}>",
        *((blocks(weights.hidden_size, fit.units), fit.groups), (THREADS,), fit.shared_bytes),
        *(run, weights.weight_hh, zeros, zeros[passed // 4 :]),
        *(fit.units, fit.tall, sequences, fit.deep, way.large),
    )
