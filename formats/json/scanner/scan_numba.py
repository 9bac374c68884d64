"""Kernels that scan whole lines of JSON: values into their columns, lists into offsets."""

from __future__ import annotations

import numpy as np

from lodcli.formats.json.scanner.tokens_numba import STOP, past_blanks
from lodcli.formats.json.scanner.walk_numba import DEPTH, NODE_INTS, Tree, line_at
from lodcli.formats.text.words_numba import byte_at, int_at, put_int
from lodcli.kernels.native.declare import kernel


@kernel()
def scan_lines(data: int, size: int, to: Tree) -> int:
    """Scan all lines; return how many hard numbers they have, or STOP.

    Args:
        data: (size,) bytes, followed by zeros.
    """
    for node in range(to.many):
        for level in range(int_at(to.nodes + 8 * NODE_INTS * node + DEPTH)):
            put_int(to.offsets + 8 * (node * to.levels + level) * to.room, 0)
    at, end = data, data + size
    hards = objects = 0
    while at < end:
        at, objects, hards = line_at(at, objects, to, hards)
        if at < 0:
            return STOP
        at = past_blanks(at)
        if at < end:
            if byte_at(at) != 10:
                return STOP
            at += 1
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
