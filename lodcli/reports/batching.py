"""Reports of `lod plan`."""

from __future__ import annotations

from typing import TypedDict

from lodcli.reports.common import Report


class Strategy(TypedDict):
    """The cost of the batches of a strategy.

    Attributes:
        strategy: its name.
        batches: how many there are.
        padding: rows of padding in all of them.
        fill: the share of the rows that all batches could have that are not padding, nor empty.
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
    strategies: list[Strategy]
