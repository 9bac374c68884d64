"""Computed steps and FLOP of an RNN, and how many padding would add."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.rnn.stack.flops import operations_per_row
from lodcli.kernels.rnn.stack.stack import RNNWeights
from lodcli.shell.output import plural


@dataclass
class _Level:
    operations: int = 0
    rows: int = 0
    sequences: int = 0
    longest: int = 0


@dataclass
class Work:
    """Work done so far.

    Attributes:
        seconds: spent computing, without reading and writing.
        passes: multiple of the operations of a forward pass: 3 with a backward pass.
    """

    seconds: float = 0.0
    passes: int = 1
    levels: dict[int, _Level] = field(default_factory=dict)

    def add(self, place: int, weights: RNNWeights | None, lengths: Offsets) -> None:
        """Count one batch of one RNN; a step function has no weights, and counts 0 operations."""
        level = self.levels.setdefault(place, _Level())
        level.operations = 0 if weights is None else operations_per_row(weights)
        level.rows += int(lengths.sum())
        level.sequences += len(lengths)
        level.longest = max(level.longest, int(lengths.max(initial=0)))

    def report(self) -> dict[str, Any]:
        """Return the counts, outermost RNN first, and their sums."""
        rows = sum(level.rows for level in self.levels.values())
        padded = sum(level.sequences * level.longest for level in self.levels.values())
        useful = sum(level.rows * level.operations for level in self.levels.values())
        with_padding = sum(
            level.sequences * level.longest * level.operations for level in self.levels.values()
        )
        return {
            "sequences": [level.sequences for level in self.levels.values()],
            "steps": [level.longest for level in self.levels.values()],
            "rows": rows,
            "padded_rows": padded,
            "operations": useful * self.passes,
            "padded_operations": with_padding * self.passes,
            "seconds": self.seconds,
        }

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        found = self.report()
        counts = ", ".join(
            f"{plural(level.sequences, 'sequence')} of up to {plural(level.longest, 'step')}"
            for level in self.levels.values()
        )
        rows, padded = found["rows"], found["padded_rows"]
        ratio = f" ({padded / rows:.2f} times as many)" if rows else ""
        lines = [f"{counts}: {rows:,} steps useful, {padded:,} if padded{ratio}"]
        seconds = f"{self.seconds:.3f} s computing"
        useful, wasted = found["operations"], found["padded_operations"]
        if not useful:
            return [*lines, seconds]
        speed = useful / self.seconds / 1e9 if self.seconds else 0.0
        return [
            *lines,
            f"{useful / 1e9:.3g} GFLOP useful, {wasted / 1e9:.3g} if padded; {seconds}, "
            f"{speed:.3g} GFLOP/s",
        ]
