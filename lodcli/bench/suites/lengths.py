"""Sequence lengths of a benchmark: random, or those of a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lodcli.kernels.errors import InvalidDataError, SelectionError
from lodcli.kernels.index.checks import Offsets

# The shares of sequences in all rows, in proportion.
Weights = np.ndarray[tuple[int], np.dtype[np.float64]]
KINDS = "lognormal:MEAN,SIGMA[,EMPTY[,MOST]], uniform:LEAST,MOST, fixed:LENGTH or a file"
# Maximum sigma of a lognormal distribution: above it, one sequence has nearly all rows.
MOST_SIGMA = 5.0


class LengthsError(SelectionError):
    """A distribution of lengths that is unknown or impossible."""


@dataclass(frozen=True)
class Lengths:
    """A distribution of lengths.

    Attributes:
        text: its notation, such as "lognormal:50,0.9".
        kind: "lognormal", "uniform", "fixed" or "file".
        numbers: the numbers after the colon.
        given: the lengths in a file.
    """

    text: str
    kind: str
    numbers: tuple[float, ...] = ()
    given: Offsets | None = None

    @property
    def mean(self) -> float:
        """The mean of the lengths."""
        if self.given is not None:
            return float(self.given.mean()) if self.given.size else 0.0
        if self.kind == "uniform":
            return (self.numbers[0] + self.numbers[1]) / 2
        return self.numbers[0]

    def require_drawn(self, option: str) -> None:
        """Raise LengthsError if the lengths are those of a file, so that an option has no effect.

        Args:
            option: such as "--rows".
        """
        if self.given is not None:
            raise LengthsError(
                f"{option}: the file {self.text} of --lengths determines rows and sequences; "
                "leave out one of the two options"
            )

    def with_sigma(self, sigma: float) -> Lengths:
        """Return the distribution with another skew and the same mean.

        Raises:
            LengthsError: only a lognormal distribution has a sigma.
        """
        if self.kind != "lognormal":
            raise LengthsError(f"--lengths {self.text}: only lognormal lengths have a skew")
        if not 0 <= sigma <= MOST_SIGMA:
            raise LengthsError(f"skew {sigma:g}: expected a sigma from 0 to {MOST_SIGMA:g}")
        numbers = (self.numbers[0], sigma, *self.numbers[2:])
        return Lengths("lognormal:" + ",".join(f"{n:g}" for n in numbers), self.kind, numbers)

    def draw(self, sequences: int, rows: int, rng: np.random.Generator) -> Offsets:
        """Return `sequences` lengths that add up to `rows`, (S,) int64.

        The lengths in a file are returned unchanged.
        """
        if self.given is not None:
            return self.given
        weights = _DRAWN[self.kind](self.numbers, sequences, rng)
        lengths = shares(weights, rows, rng)
        if self.kind == "lognormal" and len(self.numbers) > 3:
            lengths = _at_most(int(self.numbers[3]), lengths, rng)
        return lengths


def shares(weights: Weights, rows: int, rng: np.random.Generator) -> Offsets:
    """Return integers in proportion to `weights` that add up to `rows`.

    For a weight of 0 the result is 0; the remainder of rounding is added to others at random.
    """
    total = float(weights.sum())
    if not total:
        if rows:
            raise LengthsError(f"{rows} rows cannot go into sequences that are all empty")
        return np.zeros(weights.size, np.int64)
    lengths: Offsets = np.floor(weights / total * rows).astype(np.int64)
    takers = np.flatnonzero(weights > 0)
    # Rounding down has removed less than one from each of them.
    lengths[rng.choice(takers, rows - int(lengths.sum()), replace=False)] += 1
    return lengths


def _at_most(most: int, lengths: Offsets, rng: np.random.Generator) -> Offsets:
    """Return the lengths limited to `most`, with the excess divided among the others."""
    full = int((lengths > 0).sum())
    if int(lengths.sum()) > most * full:
        raise LengthsError(
            f"{int(lengths.sum())} rows do not fit into {full} sequences of at most {most}"
        )
    while (over := int((lengths - most).clip(min=0).sum())) > 0:
        lengths = lengths.clip(max=most)
        free = (lengths > 0) & (lengths < most)
        lengths = lengths + shares(np.where(free, lengths, 0).astype(np.float64), over, rng)
    return lengths


def _lognormal(numbers: tuple[float, ...], count: int, rng: np.random.Generator) -> Weights:
    weights = rng.lognormal(0, numbers[1], count)
    if len(numbers) > 2:
        weights[rng.random(count) < numbers[2]] = 0
        if count and not weights.any():
            weights[0] = 1
    return weights


def _uniform(numbers: tuple[float, ...], count: int, rng: np.random.Generator) -> Weights:
    return rng.integers(int(numbers[0]), int(numbers[1]) + 1, count).astype(np.float64)


def _fixed(numbers: tuple[float, ...], count: int, rng: np.random.Generator) -> Weights:
    return np.ones(count)


_DRAWN: dict[str, Callable[..., Weights]] = {
    "lognormal": _lognormal,
    "uniform": _uniform,
    "fixed": _fixed,
}
_NUMBERS = {"lognormal": (2, 3, 4), "uniform": (2,), "fixed": (1,)}


def parse_lengths(text: str, read: Callable[[str], Offsets] | None = None) -> Lengths:
    """Return the distribution written as text.

    Args:
        text: `lognormal:50,0.9`, `lognormal:50,0.9,0.03` (3 % empty), `uniform:1,99`,
            at most 400 long with `lognormal:50,0.9,0,400`, `fixed:50`, or the name of a file.
        read: returns the lengths in a file of that name.

    Raises:
        LengthsError: no such distribution, or impossible numbers.

    >>> parse_lengths("uniform:1,99").mean
    50.0
    """
    kind, colon, rest = text.partition(":")
    if kind in _NUMBERS and colon:
        return Lengths(text, kind, _numbers(text, kind, rest))
    if read is None or (colon and not rest.startswith(":") and "/" not in kind and "." not in kind):
        raise LengthsError(f"--lengths {text}: expected {KINDS}")
    given = read(text)
    if given.ndim != 1:
        raise InvalidDataError(f"--lengths {text}: expected one level of lengths")
    return Lengths(text, "file", (), given)


def _numbers(text: str, kind: str, rest: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(number) for number in rest.split(","))
    except ValueError:
        raise LengthsError(f"--lengths {text}: expected {KINDS}") from None
    if len(numbers) not in _NUMBERS[kind] or not all(0 <= n < 1e12 for n in numbers):
        raise LengthsError(f"--lengths {text}: expected {KINDS}")
    if kind == "lognormal" and not (
        numbers[0] > 0 and numbers[1] <= MOST_SIGMA and sum(numbers[2:3]) < 1
    ):
        raise LengthsError(
            f"--lengths {text}: expected a mean above 0, a sigma of at most {MOST_SIGMA:g} and a "
            "share of empty sequences below 1"
        )
    if kind == "uniform" and numbers[0] > numbers[1]:
        raise LengthsError(f"--lengths {text}: the least length is above the greatest")
    if kind != "lognormal" and any(n != int(n) for n in numbers):
        raise LengthsError(f"--lengths {text}: expected whole numbers")
    return numbers
