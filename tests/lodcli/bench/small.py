"""Cases so small that a test can measure every candidate."""

from __future__ import annotations

from lodcli.bench.measure.harness import Effort
from lodcli.bench.suites.cases import KERNEL_CASES, RNN_CASES, Case, custom_case
from lodcli.bench.suites.lengths import parse_lengths

QUICK = Effort(rounds=1, least_rounds=1, budget_seconds=600, most_rounds=1, sample_seconds=1e-6)


def small_case(
    features: int,
    *,
    rows: int = 400,
    base: Case = KERNEL_CASES["B1"],
    lengths: str = "lognormal:9,1,0.1",
) -> Case:
    """Return sequences, by default skewed ones, some of them empty."""
    return custom_case(
        base,
        rows=rows,
        features=features,
        sequences=None,
        hidden=None,
        lengths=parse_lengths(lengths),
        seed=1,
    )


def small_layer(*, rows: int = 60, sequences: int = 7) -> Case:
    """Return sequences for an RNN; all its sizes differ."""
    return custom_case(
        RNN_CASES["a"],
        rows=rows,
        features=5,
        sequences=sequences,
        hidden=6,
        lengths=parse_lengths("uniform:1,20"),
        seed=2,
    )
