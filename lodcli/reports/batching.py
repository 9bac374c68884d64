"""Reports of `lod plan`."""

from __future__ import annotations

from dataclasses import dataclass

from lodcli.reports.common import Report


@dataclass(frozen=True)
class Cost:
    """The cost of the batches of a strategy.

    Attributes:
        strategy: its name.
        batches: number of batches.
        padding: rows of padding in all batches.
        fill: rows of the sequences, as a share of the maximum number of rows in all batches.
    """

    strategy: str
    batches: int
    padding: int
    fill: float


class BatchPlan(Report):
    """What batching costs.

    Attributes:
        tensor: whose rows count.
        tokens: the maximum of rows of a batch.
        sequences, rows: how many are batched.
        too_long: sequences that are left out since they are longer than a batch.
        strategies: the cost of each.
    """

    tensor: str
    tokens: int
    sequences: int
    rows: int
    too_long: int
    strategies: list[Cost]
