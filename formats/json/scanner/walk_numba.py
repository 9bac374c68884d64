"""Compiled parser of whole JSON lines: values into columns, lists into offsets, nulls into masks.

All memory is passed by address: numba counts references to arrays at every call, which takes
longer than a number does. Each node of the expected tree has `room` words of eight bytes for its
rows, and for the offsets of each of its levels; those of consecutive levels are consecutive.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lodcli.formats.json.scanner.tokens_numba import (
    STOP,
    is_new,
    left_out,
    number_at,
    past_blanks,
    past_same,
    skipped_text,
    text_at,
    whole_at,
    word_at,
)
from lodcli.formats.text.numbers_numba import HARD, TENS, rounded
from lodcli.formats.text.words_numba import byte_at, int_at, put_byte, put_int, put_real
from lodcli.kernels.runtime.jit_numba import numba

WHOLE, REAL, TRUTH, TEXT, NOTHING, RECORD, SKIPPED = range(7)
# Words that describe a hard number: its node, its row, its start and its end.
HARD_INTS = 4
# Words that describe a node: see scan_native.
NODE_INTS = 15
(
    KIND, DEPTH, LISTS, NULLABLE, HOLLOW, LACKING, OTHERS, FIRST, COUNT, EMPTIES, EMPTIES_END,
    KEY, KEY_END, ESCAPED, ESCAPED_END,
) = range(0, 8 * NODE_INTS, 8)  # fmt: skip
# Words of an open object: its node, the last child, how many were found, whether one was not null,
# and its number.
OPEN_INTS = 5
_U = np.uint64
_SIGN = _U(1 << 63)
_EXACT = _U(1 << 53)


class Tree(NamedTuple):
    """The expected tree of nodes, and the addresses that its values are written to.

    Attributes:
        nodes: (many + 1, NODE_INTS) int64; the last one is that of unknown fields.
        many: number of nodes without that one.
        empties: int64; for each record the nodes that receive a null if an object of it is null.
        keys: the addresses of keys in `nodes` are relative to this one.
        values: (many, room) of eight bytes.
        offsets: (many, levels, room) int64.
        counts: (many, levels) int64, zeros: items of each level; rows at that of the depth.
        masks: (many, levels, room) bytes, zeros: 1 for a null.
        nulls: (many, levels) int64, zeros: number of nulls.
        largest: (many,) int64, zeros.
        hard: (hard_room, HARD_INTS) int64.
        seen: (many,) int64, zeros: number of the last object with each field.
        open: (depth of objects, OPEN_INTS) int64.
        unknown: (MOST_UNKNOWN, 2) int64, for the names of fields that are skipped.
    """

    nodes: int
    many: int
    empties: int
    keys: int
    values: int
    offsets: int
    counts: int
    masks: int
    nulls: int
    levels: int
    room: int
    largest: int
    hard: int
    hard_room: int
    seen: int
    open: int
    unknown: int


@numba.njit(cache=True)
def _real(w: Any, power: int) -> Any:
    """Return w * 10**power, and 0; or, if that may be inexact, 0.0, and its bits or HARD."""
    if w == _U(0):
        return 0.0, _U(0)
    if w <= _EXACT and -22 <= power <= 22:
        return float(w) * TENS[power] if power >= 0 else float(w) / TENS[-power], _U(0)
    return 0.0, rounded(w, power)


@numba.njit(cache=True)
def _wholes(at: int, rows: int, row: int, many: bool) -> Any:
    """Scan an integer or, if `many`, several with commas between them, up to a null."""
    while True:
        at, value = whole_at(at)
        if at < 0:
            return STOP, row
        put_int(rows + 8 * row, value)
        row += 1
        if not many:
            return at, row
        at = past_blanks(at)
        if byte_at(at) != 44:
            return at, row
        comma = at
        at = past_blanks(at + 1)
        if byte_at(at) == 110:
            return comma, row


@numba.njit(cache=True)
def _reals(
    at: int, rows: int, row: int, many: bool, node: int, largest: int, hard: int, room: int,
    hards: int,
) -> Any:  # fmt: skip
    """Scan a real number or, if `many`, several with commas between them, up to a null."""
    most = _U(int_at(largest + 8 * node))
    while True:
        first = at
        at, w, power, negative, whole, long = number_at(at)
        if at < 0:
            return STOP, row, hards
        if whole:
            if long or w > _EXACT:
                return STOP, row, hards
            most = max(most, w)
            # -0 is written as an integer, which has no negative zero.
            put_real(rows + 8 * row, -float(w) if negative and w != _U(0) else float(w))
        else:
            real, bits = _real(w, power)
            if long or bits == HARD:
                if hards == room:
                    return STOP, row, hards
                place = hard + 8 * HARD_INTS * hards
                put_int(place, node)
                put_int(place + 8, row)
                put_int(place + 16, first)
                put_int(place + 24, at)
                hards += 1
            elif bits:
                put_int(rows + 8 * row, np.int64(bits | _SIGN if negative else bits))
            else:
                put_real(rows + 8 * row, -real if negative else real)
        row += 1
        comma = past_blanks(at) if many else at
        at = comma
        if many and byte_at(comma) == 44:
            at = past_blanks(comma + 1)
        if at == comma or byte_at(at) == 110:
            put_int(largest + 8 * node, np.int64(most))
            return comma, row, hards


@numba.njit(cache=True)
def _close(counts: int, offsets: int, room: int, level: int, end: int) -> None:
    """Append the end offset of an item of a level."""
    count = int_at(counts + 8 * level) + 1
    put_int(counts + 8 * level, count)
    put_int(offsets + 8 * (level * room + count), end)


@numba.njit(cache=True)
def _put_null(node: int, level: int, to: Tree) -> None:
    """Append a null item to a level of a node, or a null row at its depth."""
    one = to.nodes + 8 * NODE_INTS * node
    depth = int_at(one + DEPTH)
    cell = node * to.levels + level
    counts = to.counts + 8 * node * to.levels
    item = int_at(counts + 8 * level)
    put_byte(to.masks + cell * to.room + item, 1)
    put_int(to.nulls + 8 * cell, int_at(to.nulls + 8 * cell) + 1)
    if level < depth:
        offsets = to.offsets + 8 * node * to.levels * to.room
        _close(counts, offsets, to.room, level, int_at(counts + 8 * (level + 1)))
        return
    put_int(counts + 8 * level, item + 1)
    rows = to.values + 8 * node * to.room
    if int_at(one + KIND) == TRUTH:
        put_byte(rows + item, 0)
    else:
        put_int(rows + 8 * item, 0)


@numba.njit(cache=True)
def _put_empties(one: int, to: Tree) -> None:
    """Append a null to all nodes that hold fields of a null object."""
    for place in range(int_at(one + EMPTIES), int_at(one + EMPTIES_END)):
        _put_null(int_at(to.empties + 8 * place), 0, to)


@numba.njit(cache=True)
def _value(at: int, node: int, one: int, to: Tree, hards: int) -> Any:
    """Scan a value of a node without fields.

    Returns:
        Its end (or STOP), whether it is not null, and how many numbers are hard.
    """
    kind, depth, lists = int_at(one + KIND), int_at(one + DEPTH), int_at(one + LISTS)
    rows = to.values + 8 * node * to.room
    offsets = to.offsets + 8 * node * to.levels * to.room
    counts = to.counts + 8 * node * to.levels
    level = 0
    row = int_at(counts + 8 * depth)
    while True:
        at = past_blanks(at)
        first = byte_at(at)
        if first == 110:
            if int_at(one + NULLABLE) >> level & 1 == 0:
                return STOP, False, hards
            at, _ = word_at(at)
            if at < 0:
                return STOP, False, hards
            _put_null(node, level, to)
            if level == 0:
                return at, False, hards
            row = int_at(counts + 8 * depth)
        elif level < lists:
            if first != 91:
                return STOP, False, hards
            level += 1
            at = past_blanks(at + 1)
            if byte_at(at) != 93:
                continue
        elif kind == WHOLE:
            at, row = _wholes(at, rows, row, level > 0)
        elif kind == REAL:
            at, row, hards = _reals(
                at, rows, row, level > 0, node, to.largest, to.hard, to.hard_room, hards
            )
        elif kind == TRUTH:
            at, letter = word_at(at)
            put_byte(rows + row, letter == 116)
            row += 1
        elif kind == TEXT and first == 34:
            at, row = text_at(at + 1, rows, row)
            _close(counts, offsets, to.room, level, row)
        else:
            return STOP, False, hards
        if at < 0:
            return STOP, False, hards
        put_int(counts + 8 * depth, row)
        while level:
            at = past_blanks(at)
            if byte_at(at) != 93:
                break
            level -= 1
            at += 1
            _close(counts, offsets, to.room, level, int_at(counts + 8 * (level + 1)))
        if not level:
            return at, True, hards
        if byte_at(at) != 44:
            return STOP, False, hards
        at += 1


@numba.njit(cache=True)
def _field(at: int, owner: int, last: int, to: Tree) -> Any:
    """Return the end of a field's name and its number in an object; an end < 0 if it is unknown.

    Args:
        at: behind the quote.
        owner: the object's node.
        last: number of the field before it.
    """
    count = int_at(owner + COUNT)
    child = to.nodes + 8 * NODE_INTS * int_at(owner + FIRST)
    tried = last
    for _ in range(count):  # most objects have their fields in the same order
        tried = tried + 1 if tried + 1 < count else 0
        one = child + 8 * NODE_INTS * tried
        end = past_same(at, to.keys + int_at(one + KEY), to.keys + int_at(one + KEY_END))
        if end < 0:
            begin, stop = int_at(one + ESCAPED), int_at(one + ESCAPED_END)
            if begin < stop:
                end = past_same(at, to.keys + begin, to.keys + stop)
        if end > 0:
            return end, tried
    return STOP, -1


@numba.njit(cache=True)
def _may_lack(owner: int, number: int, to: Tree) -> bool:
    """Append nulls to the fields that an object lacks; return whether it may lack them."""
    first = int_at(owner + FIRST)
    for node in range(first, first + int_at(owner + COUNT)):
        if int_at(to.seen + 8 * node) != number:
            one = to.nodes + 8 * NODE_INTS * node
            if not int_at(one + LACKING):
                return False
            kind = int_at(one + KIND)
            if kind != SKIPPED:
                _put_null(node, 0, to)
            if kind == RECORD and int_at(one + LISTS) == 0:
                _put_empties(one, to)
    return True


@numba.njit(cache=True)
def _ends_well(owner: int, number: int, found: int, solid: bool, to: Tree) -> bool:
    """Return whether an object may end here, and append nulls to the fields that it lacks."""
    if found != int_at(owner + COUNT) and not _may_lack(owner, number, to):
        return False
    return solid or int_at(owner + HOLLOW) != 0


@numba.njit(cache=True)
def _named(at: int, owner: int, last: int, number: int, unknown: int, to: Tree) -> Any:
    """Scan the name of a field and its colon.

    Args:
        at: the quote before it.
        owner: the object's node; last: number of the field before it.
        number: of the object.
        unknown: how many unknown fields the line has so far.

    Returns:
        Its end (or STOP), the node of the field, and its number in the object.
    """
    if byte_at(at) != 34:
        return STOP, 0, last
    start = at + 1
    at, field = _field(start, owner, last, to)
    if at > 0:
        last = field
        node = int_at(owner + FIRST) + field
        if int_at(to.seen + 8 * node) == number:
            return STOP, 0, last
        put_int(to.seen + 8 * node, number)
    else:
        at, plain = skipped_text(start)
        if not plain or not int_at(owner + OTHERS):
            return STOP, 0, last
        if not is_new(start, at - 1, to.unknown, 0, unknown):
            return STOP, 0, last
        node = to.many
    at = past_blanks(at)
    return at + 1 if byte_at(at) == 58 else STOP, node, last


@numba.njit(cache=True)
def line_at(at: int, objects: int, to: Tree, hards: int) -> Any:
    """Scan a line.

    Args:
        at: its beginning.
        objects: number of objects before it.

    Returns:
        Its end (or STOP), the number of objects, and how many numbers are hard.
    """
    node = level = depth = unknown = found = 0
    number, last = objects, -1
    solid = filled = False
    one, owner = to.nodes, to.nodes
    while True:
        # A value of `node` begins, within `level` of its lists.
        kind = int_at(one + KIND)
        closes = opens = False
        if kind < RECORD:
            at, filled, hards = _value(at, node, one, to, hards)
        elif kind == SKIPPED:
            at = past_blanks(at)
            filled = byte_at(at) != 110
            at = left_out(at, to.unknown, unknown)
        else:
            at = past_blanks(at)
            first, lists = byte_at(at), int_at(one + LISTS)
            filled = first != 110
            if not filled:
                if int_at(one + NULLABLE) >> level & 1 == 0:
                    return STOP, objects, hards
                at, _ = word_at(at)
                _put_null(node, level, to)
                if level == lists:
                    _put_empties(one, to)
            elif level < lists:
                if first != 91:
                    return STOP, objects, hards
                level += 1
                at = past_blanks(at + 1)
                if byte_at(at) != 93:
                    continue
            else:
                if first != 123:
                    return STOP, objects, hards
                place = to.open + 8 * OPEN_INTS * depth
                put_int(place, owner)
                put_int(place + 8, last)
                put_int(place + 16, found)
                put_int(place + 24, solid)
                put_int(place + 32, number)
                depth += 1
                objects += 1
                owner, last, found, solid, number = one, -1, 0, False, objects
                at = past_blanks(at + 1)
                closes = byte_at(at) == 125
                opens = not closes
                at += closes
        if at < 0:
            return STOP, objects, hards
        while True:
            # A value ended, or `closes`: the object ended, or `opens`: its first field begins.
            if closes:
                if not _ends_well(owner, number, found, solid, to):
                    return STOP, objects, hards
                filled = solid
                one = owner
                node = (one - to.nodes) // (8 * NODE_INTS)
                level = int_at(one + LISTS)
                count = to.counts + 8 * (node * to.levels + level)
                put_int(count, int_at(count) + 1)
                depth -= 1
                place = to.open + 8 * OPEN_INTS * depth
                owner, last, found = int_at(place), int_at(place + 8), int_at(place + 16)
                solid, number = int_at(place + 24) != 0, int_at(place + 32)
            if not opens:
                while level:
                    at = past_blanks(at)
                    if byte_at(at) != 93:
                        break
                    at += 1
                    level -= 1
                    filled = True
                    counts = to.counts + 8 * node * to.levels
                    offsets = to.offsets + 8 * node * to.levels * to.room
                    _close(counts, offsets, to.room, level, int_at(counts + 8 * (level + 1)))
                if level:
                    if byte_at(at) != 44:
                        return STOP, objects, hards
                    at += 1
                    break
                if depth == 0:
                    return at, objects, hards
                solid = solid or filled
                at = past_blanks(at)
                closes = byte_at(at) == 125
                if closes:
                    at += 1
                    continue
                if byte_at(at) != 44:
                    return STOP, objects, hards
                at = past_blanks(at + 1)
            at, node, last = _named(at, owner, last, number, unknown, to)
            if at < 0:
                return STOP, objects, hards
            if node == to.many:
                unknown += 1
            else:
                found += 1
            one = to.nodes + 8 * NODE_INTS * node
            level = 0
            break
