"""Marks: what the values of a tensor mean, beyond their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD

Values = Literal["text", "bytes"]
# Decoded at a time: as characters text may take four times as much.
_BLOCK_BYTES = 1 << 20
VALUES: tuple[Values, ...] = ("text", "bytes")


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one tensor; without any it holds numbers.

    Attributes:
        values: what each finest sequence is: "text" (UTF-8) or "bytes"; None for numbers.
    """

    values: Values | None = None

    def __bool__(self) -> bool:
        return self.values is not None

    def __str__(self) -> str:
        return self.values or "none"

    def misfit(self, dtype: np.dtype[Any], row_shape: tuple[int, ...], levels: int) -> str | None:
        """Return why a tensor of this description cannot have these marks; None if it can."""
        if not self or (dtype == np.uint8 and not row_shape and levels):
            return None
        return (
            f"{self.values} is uint8 rows of one value under one level or more, found {dtype}, "
            f"rows of shape {row_shape}, {levels} levels"
        )

    def kept(self, levels: int) -> Marks:
        """Return the marks of whole sequences that were chosen: none if no level is left."""
        return self if levels else NO_MARKS


NO_MARKS = Marks()
TEXT = Marks("text")
BYTES = Marks("bytes")


def check_text(data: Array, lod: LoD) -> None:
    """Raise InvalidDataError unless every finest sequence is UTF-8.

    Args:
        data: (N,) uint8.
        lod: one level or more.

    >>> check_text(np.frombuffer(b"a\\xffb", np.uint8), LoD.from_lengths([[1, 2]]))
    Traceback (most recent call last):
    lodcli.kernels.errors.InvalidDataError: item <1>: is not UTF-8 (byte 0xff at position 0)
    """
    if not data.size or int(data.max()) < 0x80:
        return
    wrong = _wrong_byte(np.ascontiguousarray(data), lod.levels[-1][:-1])
    if wrong is None:
        return
    path: list[int] = []
    place = wrong
    for offsets in reversed(lod.levels):
        item = int(np.searchsorted(offsets, place, side="right")) - 1
        path.insert(0, place - int(offsets[item]))
        place = item
    branch = ",".join(map(str, [place, *path[:-1]]))
    raise InvalidDataError(
        f"item <{branch}>: is not UTF-8 (byte {int(data[wrong]):#04x} at position {path[-1]})"
    )


def _wrong_byte(data: Array, starts: Array) -> int | None:
    """Return the first byte that is not UTF-8, or that a sequence cannot begin with."""
    wrong, start = None, 0
    while start < data.size and wrong is None:
        stop = min(start + _BLOCK_BYTES, data.size)
        while start < stop < data.size and data[stop] & 0xC0 == 0x80:  # within a character
            stop -= 1
        try:
            str(data[start:stop].data, "utf-8")
        except UnicodeDecodeError as error:
            wrong = start + error.start
        start = stop
    starts = starts[starts < data.size]
    inside = starts[data[starts] & 0xC0 == 0x80]
    found = [int(one) for one in (*inside[:1], wrong) if one is not None]
    return min(found, default=None)
