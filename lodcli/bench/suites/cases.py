"""Benchmark cases: named ones, or custom sizes and lengths."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lodcli.bench.measure.machine import require_memory
from lodcli.bench.suites.lengths import Lengths, LengthsError, parse_lengths
from lodcli.kernels.errors import SelectionError
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.suggestions import or_near

# Memory to draw one length: its weight, its share, and the order in which the rest is assigned.
DRAWING_BYTES = 80


@dataclass(frozen=True)
class Case:
    """Sequences of rows.

    Attributes:
        name: "B1", or "custom".
        rows: N, the total number of rows.
        features: D, float32 values per row.
        sequences: S.
        lengths: the distribution of the lengths.
        hidden: H, for RNNs.
        seed: of the generator that draws lengths and values.
    """

    name: str
    rows: int
    features: int
    sequences: int
    lengths: Lengths
    hidden: int = 0
    seed: int = 0

    def draw_lengths(self, what: str = "", copies: int = 0) -> Offsets:
        """Return the lengths, (S,) int64; always the same for a case.

        Args:
            what: the name of the measurement, for the error.
            copies: minimum number of copies of the rows that it needs; memory for them is checked
                before drawing, which may take long.

        Raises:
            NotEnoughMemoryError: there is too little memory for the lengths or these copies.
        """
        if self.lengths.given is None:
            require_memory(DRAWING_BYTES * self.sequences, f"drawing {self.sequences:,} lengths")
        require_memory(copies * 4 * self.rows * self.features, f"{what} {self.name}")
        return self.lengths.draw(self.sequences, self.rows, np.random.default_rng(self.seed))

    def offsets(self) -> Offsets:
        """Return the offsets of the sequences, (S+1,) int64."""
        lengths = self.draw_lengths()
        return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the case, as in reports."""
        found: dict[str, Any] = {
            "case": self.name,
            "rows": self.rows,
            "features": self.features,
            "sequences": self.sequences,
            "lengths": self.lengths.text,
        }
        return found | ({"hidden": self.hidden} if self.hidden else {})

    def with_value(self, parameter: str, value: float) -> Case:
        """Return this case with one parameter changed, and if possible the same mean length.

        Raises:
            SelectionError: no such parameter, or one that this case does not have.
        """
        if parameter in ("rows", "sequences"):
            self.lengths.require_drawn(f"--sweep {parameter}")
        if parameter == "hidden" and not self.hidden:
            raise SelectionError(
                "--sweep hidden: this benchmark has no hidden size; use --sweep features"
            )
        whole = int(value)
        if parameter == "rows":
            sequences = max(1, round(whole / max(self.lengths.mean, 1)))
            return replace(self, rows=whole, sequences=sequences)
        if parameter == "sequences":
            return replace(self, sequences=whole)
        if parameter == "features":
            return replace(self, features=whole)
        if parameter == "hidden":
            return replace(self, hidden=whole, features=whole)
        if parameter == "skew":
            return replace(self, lengths=self.lengths.with_sigma(value))
        raise SelectionError(
            f"--sweep {parameter}: expected one of {', '.join(SWEPT)}{or_near(parameter, SWEPT)}"
        )


SWEPT = ("rows", "sequences", "features", "hidden", "skew")


def _case(
    name: str, rows: int, features: int, sequences: int, lengths: str, hidden: int = 0
) -> Case:
    return Case(name, rows, features, sequences, parse_lengths(lengths), hidden)


def _by_name(*cases: Case) -> dict[str, Case]:
    return {case.name: case for case in cases}


KERNEL_CASES = _by_name(
    _case("B1", 1_000_000, 64, 20_000, "lognormal:50,1,0.03"),
    _case("B2", 5_000_000, 1, 500_000, "lognormal:10,0.5,0.03"),
    _case("B3", 100_000, 1024, 200, "lognormal:500,0.6,0.03"),
    # Small batches, and rows of odd widths.
    _case("S1", 10, 64, 3, "lognormal:3,0.5"),
    _case("S2", 1_000, 64, 20, "lognormal:50,1"),
    *(
        _case(f"W{width}", 64_000_000 // width, width, 1_280_000 // width, "lognormal:50,1")
        for width in (3, 5, 7, 48, 100, 300)
    ),
    # For GPUs: equal lengths, skewed ones, and skewed ones whose padded batch fits in memory.
    _case("G1", 10_000_000, 64, 200_000, "fixed:50"),
    _case("G2", 10_000_000, 64, 200_000, "lognormal:50,1.5,0.03"),
    _case("G3", 10_000_000, 64, 200_000, "lognormal:50,0.5,0.03"),
)
# The cases measured by default, by device.
USUAL_KERNEL_CASES = {"cpu": "B1,B2,B3", "cuda": "G1"}

CONVERT_CASES = _by_name(_case("lines", 4_000_000, 1, 80_000, "lognormal:50,0.8"))
FILE_CASES = _by_name(_case("rows", 500_000, 128, 6_250, "lognormal:80,0.5"))
LOAD_CASES = _by_name(_case("rows", 1_000_000, 16, 20_000, "lognormal:50,0.9"))
# Files of 5, 51 and 512 MB.
SLICE_SWEEP = "rows=1e4,1e5,1e6"

# The same mean length with different skews.
QUESTION_CASES = _by_name(
    *(
        _case(f"skew {sigma}", 100_000, 64, 2_000, f"lognormal:50,{sigma}", 64)
        for sigma in ("0", "0.4", "0.8", "1.2")
    )
)

RNN_CASES = _by_name(
    _case("a", 1_600, 128, 32, "lognormal:50,0.8,0,200", 128),
    _case("b", 15_360, 256, 256, "lognormal:60,0.8,0,240", 256),
    _case("c", 12_800, 512, 64, "lognormal:200,0.8,0,800", 512),
    _case("d", 500, 256, 1, "fixed:500", 256),
    # For GPUs: 1,024 sequences at once, and equal lengths, which need no padding.
    _case("e", 102_400, 1024, 1024, "lognormal:100,0.8,0,400", 1024),
    _case("b-equal", 15_360, 256, 256, "fixed:60", 256),
    _case("c-equal", 12_800, 512, 64, "fixed:200", 512),
    _case("e-equal", 102_400, 1024, 1024, "fixed:100", 1024),
    # Narrow states: all units in one block, or a few of them.
    _case("h64", 12_800, 64, 64, "lognormal:200,0.8,0,800", 64),
    _case("h128", 12_800, 128, 64, "lognormal:200,0.8,0,800", 128),
    _case("h192", 12_800, 192, 64, "lognormal:200,0.8,0,800", 192),
    # One sequence, or a few: sequences x hidden size.
    _case("1x200", 500, 200, 1, "fixed:500", 200),
    _case("1x512", 500, 512, 1, "fixed:500", 512),
    _case("8x200", 800, 200, 8, "lognormal:100,0.8,0,400", 200),
    _case("64x200", 6_400, 200, 64, "lognormal:100,0.8,0,400", 200),
)
# Equal lengths, which need no padding, except in the last case.
LINEAR_CASES = _by_name(
    _case("many", 12_800, 128, 64, "fixed:200", 128),
    _case("long", 16_000, 64, 16, "fixed:1000", 64),
    _case("wide", 4_000, 256, 4, "fixed:1000", 256),
    _case("one", 20_000, 64, 1, "fixed:20000", 64),
    _case("skewed", 12_800, 128, 64, "lognormal:200,0.8,0,800", 128),
)
USUAL_RNN_CASES = {"cpu": "a,b,c,d", "cuda": "b,c,d,e"}


def custom_case(
    base: Case,
    *,
    rows: int | None,
    features: int | None,
    sequences: int | None,
    hidden: int | None,
    lengths: Lengths | None,
    seed: int,
) -> Case:
    """Return a custom case: parameters that are None are taken from `base`.

    Two of rows, sequences and the mean length determine the third; the lengths of a file
    determine all three.

    Raises:
        LengthsError: sizes that contradict the lengths.
    """
    chosen = lengths or base.lengths
    if chosen.given is not None:
        if rows is not None or sequences is not None:
            chosen.require_drawn("--rows" if rows is not None else "--sequences")
        rows, sequences = int(chosen.given.sum()), int(chosen.given.size)
    mean = max(chosen.mean, 1e-9)
    if rows is None and sequences is None:
        rows = base.rows
    if rows is None:
        assert sequences is not None
        rows = round(sequences * mean)
    if sequences is None:
        if rows and not chosen.mean:
            raise LengthsError(
                f"--lengths {chosen.text}: no number of empty sequences has {rows:,} rows; choose "
                "greater lengths"
            )
        sequences = max(1, round(rows / mean))
    return Case(
        "custom",
        rows,
        base.features if features is None else features,
        sequences,
        chosen,
        base.hidden if hidden is None else hidden,
        seed,
    )
