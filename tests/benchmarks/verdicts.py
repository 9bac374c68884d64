"""Verdicts: whether the reports reach a target of targets.py.

Where most samples of ours or the peer's were disturbed, a median is no fact: then the verdict is
by the quartiles of all samples, and is "unclear" unless both agree.

What is asked of a ratio may be more than the machine can do. A missed target is "at the limit" if
what we reach of the machine's limit, measured in the same rounds, is at least AT_LIMIT of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lodcli.bench.report.results import is_disturbed
from tests.benchmarks.targets import Target

THREADS = 2
REACHED, LIMITED, MISSED = "yes", "at the limit", "no"
UNCLEAR, UNMEASURED = "unclear", "not measured"
AT_LIMIT = 0.9

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Between:
    """A figure that lies between two others; both are the same if it is certain."""

    low: float
    high: float

    def over(self, other: Between) -> Between:
        return Between(self.low / other.high, self.high / other.low)

    def times(self, factor: float) -> Between:
        return Between(self.low * factor, self.high * factor)

    def text(self, ending: str = "", scale: float = 1.0, digits: int = 2) -> str:
        low, high = (f"{scale * value:.{digits}f}{ending}" for value in (self.low, self.high))
        return low if low == high else f"{low} to {high}"


@dataclass(frozen=True)
class Verdict:
    """What became of a target.

    Attributes:
        word: REACHED, LIMITED, MISSED, UNCLEAR or UNMEASURED.
        found: the figures, as people read them.
        share: found over asked, the smaller of two; None if not measured.
        against: the name of the other measurement.
        roofline: the fraction of the machine's limit, measured in the same rounds, in words.
    """

    target: Target
    word: str
    found: str = ""
    share: Between | None = None
    against: str = ""
    roofline: str = ""


def time_of(row: Row) -> Between:
    """Return how long a call of a row takes."""
    if is_disturbed(row):
        return Between(*(float(each) for each in np.quantile(row["times"], (0.25, 0.75))))
    return Between(row["median"], row["median"])


def verdict(target: Target, rows: Sequence[Row], startup: Sequence[Row] = ()) -> Verdict:
    """Return what became of a target.

    Args:
        rows: the results of all reports of `lod bench`.
        startup: those of startup.py.
    """
    if target.most is not None:
        return _of_startup(target, startup)
    if target.spread is not None:
        return _of_sweep(target, rows)
    ours = ours_of(target, rows)
    if ours is None:
        return Verdict(target, UNMEASURED)
    shares: list[Between] = []
    words: list[str] = []
    against: list[str] = []
    if target.ratio is not None:
        peer = _peer(target, ours, rows)
        if peer is None:
            return Verdict(target, UNMEASURED)
        ratio = time_of(peer).over(time_of(ours))
        shares.append(ratio.times(1 / target.ratio))
        words.append(ratio.text("x"))
        against.append(f"{peer['library']} {peer['label']}".strip())
    if target.fraction is not None:
        fraction = fraction_of(ours)
        shares.append(fraction.times(1 / target.fraction))
        words.append(fraction.text("%", 100, 0))
        against.append(f"the limit, {ours['limit']}")
    if target.padded is not None:
        padded = _padded(target, rows)
        if padded is None:
            return Verdict(target, UNMEASURED)
        ratio = time_of(padded).over(time_of(ours))
        share = ratio.times(1 / float(ours["parameters"]["padding_ratio"]))
        shares.append(share.times(1 / target.padded))
        words.append(share.text())
        against.append("itself on padded input" if padded["ours"] else "torch padded")
    worst = Between(min(one.low for one in shares), min(one.high for one in shares))
    word = _word(worst)
    if (
        word == MISSED
        and ours["fraction_of_limit"] is not None
        and fraction_of(ours).low >= AT_LIMIT
    ):
        word = LIMITED
    return Verdict(target, word, ", ".join(words), worst, ", ".join(against), roofline_of(ours))


def roofline_of(row: Row) -> str:
    """Return the fraction of the machine's limit that a row reached, in words; "" without one."""
    fraction = row["fraction_of_limit"]
    return "" if fraction is None else f"{fraction:.0%} of {row['limit']}"


def fraction_of(row: Row) -> Between:
    """Return the fraction of the machine's limit of a row, which must not be None."""
    least: float = row["fraction_of_limit"] * row["median"]
    return Between(least, least).over(time_of(row))


def ratio_of(target: Target, rows: Sequence[Row]) -> Between | None:
    """Return the time of the peer that a target means over ours, if both were measured."""
    ours = ours_of(target, rows)
    peer = ours and _peer(target, ours, rows)
    return time_of(peer).over(time_of(ours)) if ours and peer else None


def _padded(target: Target, rows: Sequence[Row]) -> Row | None:
    """Return the same work on padded input: ours, and on a GPU cuDNN's."""
    for row in _of(target, rows):
        who = "lod" if target.device == "cpu" else "torch"
        if row["library"] == who and "padded" in row["label"]:
            return row
    return None


def _word(share: Between) -> str:
    if share.low >= 1:
        return REACHED
    return MISSED if share.high < 1 else UNCLEAR


def ours_of(target: Target, rows: Sequence[Row]) -> Row | None:
    """Return our measurement that a target is about: into an array made before, if there is."""
    found = [row for row in _of(target, rows) if row["ours"] and "padded" not in row["label"]]
    return min(found, key=lambda row: bool(row["allocates"]), default=None)


def _of(target: Target, rows: Sequence[Row]) -> list[Row]:
    wanted = (target.bench, target.op, target.case, target.device)
    return [
        row
        for row in rows
        if (row["bench"], row["op"], row["case"], device_of(row)) == wanted
        and (row["threads"] == THREADS or target.device != "cpu")
    ]


def device_of(row: Row) -> str:
    """Return where a row was computed."""
    return str(row.get("device") or row["parameters"].get("device") or "cpu")


def _peer(target: Target, ours: Row, rows: Sequence[Row]) -> Row | None:
    """Return the peer that a target means: one library's best way, or the best of all."""
    found = [
        row
        for row in _of(target, rows)
        if (
            row["library"] == target.peer
            if target.peer
            else f"{row['library']} {row['label']}".strip() == ours["best_peer"]
        )
    ]
    return min(found, key=lambda row: float(row["median"]), default=None)


def _of_startup(target: Target, startup: Sequence[Row]) -> Verdict:
    row = next((row for row in startup if row["name"] == target.op), None)
    if row is None:
        return Verdict(target, UNMEASURED)
    assert target.most is not None
    share = Between(*[target.most / row["ratio"]] * 2)
    return Verdict(target, _word(share), f"{row['ratio']:.2f}x", share, target.op.split(" / ")[1])


def sweep_of(op: str, swept: str, rows: Sequence[Row]) -> list[Row]:
    """Return ours at each value of a sweep, the values ascending."""
    found: dict[float, Row] = {}
    for row in rows:
        name, _, value = str(row["case"]).partition("=")
        if not row["ours"] or (row["op"], name, row["threads"]) != (op, swept, THREADS):
            continue
        if float(value) not in found or not row["allocates"]:
            found[float(value)] = row
    return [found[value] for value in sorted(found)]


def _of_sweep(target: Target, rows: Sequence[Row]) -> Verdict:
    assert target.spread is not None
    found = sweep_of(target.op, target.case, rows)
    if len(found) < 2:
        return Verdict(target, UNMEASURED)
    costs = [time_of(row).times(1 / row["useful"]) for row in found]
    # Of the slowest and the fastest, whichever they are.
    spread = Between(
        max(1.0, max(one.low for one in costs) / min(one.high for one in costs)),
        max(one.high for one in costs) / min(one.low for one in costs),
    )
    share = Between(target.spread / spread.high, target.spread / spread.low)
    by_median = [row["median"] / row["useful"] for row in found]
    values = [str(row["case"]).partition("=")[2] for row in found]
    slowest, fastest = (values[by_median.index(pick(by_median))] for pick in (max, min))
    against = f"slowest at {slowest}, fastest at {fastest}"
    return Verdict(target, _word(share), spread.text("x"), share, against)
