"""Kernels that scan whole lines of JSON: values into their columns, lists into offsets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lodcli.formats.json.scanner.tokens_numba import STOP, past_blanks
from lodcli.formats.json.scanner.walk_numba import _object, _value
from lodcli.formats.json.words_numba import byte_at, int_at, put_int
from lodcli.kernels.native.declare import kernel


class Columns(NamedTuple):
    """The fields of lines, and the addresses that their values are written to.

    Attributes:
        columns: number of columns.
        kinds, depths: (columns,) int64.
        keys: the names of the fields, concatenated; key_ends: (columns + 1,) int64.
        objects: whether lines are objects; others: whether these may have other fields.
        values: (columns, room) of eight bytes.
        offsets: (columns, levels, room) int64.
        counts: (columns, levels) int64, zeros.
        largest: (columns,) int64, zeros.
        hard: (hard_room, HARD_INTS) int64.
        seen: (columns,) int64, the last line with each field; -1 for none.
        unknown: (MOST_UNKNOWN, 2) int64, for the unknown fields of a line.
    """

    columns: int
    kinds: int
    depths: int
    keys: int
    key_ends: int
    objects: bool
    others: bool
    values: int
    offsets: int
    levels: int
    room: int
    counts: int
    largest: int
    hard: int
    hard_room: int
    seen: int
    unknown: int


@kernel()
def scan_lines(data: int, size: int, to: Columns) -> int:
    """Scan all lines; return how many hard numbers they have, or STOP.

    Args:
        data: (size,) bytes, followed by zeros.
    """
    for column in range(to.columns):
        for level in range(int_at(to.depths + 8 * column)):
            put_int(to.offsets + 8 * (column * to.levels + level) * to.room, 0)
    at, end = data, data + size
    hards = line = 0
    while at < end:
        if not to.objects:
            at, hards = _value(
                at, 0, int_at(to.kinds), int_at(to.depths), to.values, to.offsets, to.room,
                to.counts, to.largest, to.hard, to.hard_room, hards,
            )  # fmt: skip
        else:
            at, hards = _object(
                past_blanks(at), line, to.seen, to.unknown, to.columns, to.kinds, to.depths,
                to.keys, to.key_ends, to.others, to.values, to.offsets, to.levels, to.room,
                to.counts, to.largest, to.hard, to.hard_room, hards,
            )  # fmt: skip
        if at < 0:
            return STOP
        at = past_blanks(at)
        if at < end:
            if byte_at(at) != 10:
                return STOP
            at += 1
        line += 1
    return hards


@kernel()
def is_ascii(data: int, size: int) -> int:
    """Return whether no byte has its highest bit set; reads up to the next multiple of eight.

    Args:
        data: (size,) bytes, followed by zeros.
    """
    found = 0
    for place in range(data, data + size, 8):
        found |= int_at(place)
    return 1 if found & np.int64(-0x7F7F7F7F7F7F7F80) == 0 else 0
