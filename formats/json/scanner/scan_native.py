"""Scans JSON lines to rows, offsets and nulls, with all checks; unusual input stops the scan.

A scan that stops does not mean that the lines are invalid: the exact parser reads them, and raises
the error if there is one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.immutable import immutable
from lodcli.kernels.native import load
from lodcli.kernels.platform.machine import sparse_zeros
from lodcli.kernels.tensor.nulls import Mask

# As in the kernels: kinds of nodes, int64s per number left to Python and per open object, most
# names of skipped fields.
WHOLE, REAL, TRUTH, TEXT, NOTHING, RECORD, SKIPPED = range(7)
HARD_INTS, OPEN_INTS, MOST_UNKNOWN = 4, 5, 256

# Zeros after a block, which end any token.
PADDING_BYTES = 8
# Maximum number of numbers in a block that Python rounds.
MOST_HARD = 1 << 16

_MODULE = "formats.json.scanner.scan_numba"
_scan_lines, _is_ascii = (load.kernel(_MODULE, name) for name in ("scan_lines", "is_ascii"))


def is_available() -> bool:
    """Return whether the scanner's kernels are available; compiles them if needed."""
    try:
        return all(each[""] for each in (_scan_lines, _is_ascii))
    except load.NativeUnavailableError:
        return False


@dataclass(frozen=True)
class Node:
    """The expected content of lines, or of a field.

    Attributes:
        kind: of the values: WHOLE, REAL, TRUTH, TEXT; NOTHING: only nulls; RECORD: objects;
            SKIPPED: any, and no column.
        depth: the number of lists around them; text counts as one.
        nullable: the levels that may have nulls; `depth` stands for the values.
        lacking: whether objects may lack the field.
        fields: of the objects.
        hollow: whether objects may have only nulls.
        others: whether objects may have other fields, which are skipped.
    """

    kind: int
    depth: int
    nullable: frozenset[int] = frozenset()
    lacking: bool = False
    fields: dict[str, Node] = field(default_factory=dict)
    hollow: bool = True
    others: bool = False

    @property
    def lists(self) -> int:
        """The number of lists, without text."""
        return self.depth - (self.kind == TEXT)

    def reserved_bytes(self, size: int) -> int:
        """Return how much memory a scanner reserves for a block; most of it is never touched."""
        levels = 1 + max(node.depth for node in self._all())
        return self.size * (8 + 9 * levels) * (size * 5 // 8)

    @property
    def size(self) -> int:
        """The number of nodes, with those of all fields."""
        return sum(1 for _ in self._all())

    def _all(self) -> Iterator[Node]:
        yield self
        for inner in self.fields.values():
            yield from inner._all()


# The names of the fields from a line to a node.
Path = tuple[str, ...]


@dataclass(frozen=True)
class Scanned:
    """The values of a node in lines.

    Attributes:
        values: int64, float64, bool or uint8; of records and skipped fields, none.
        offsets: of each level, outermost first.
        masks: of each level and of the values: True where one is not null; None: all.
        largest: largest absolute value of the integers among floats.
        count: number of values.
    """

    values: Array
    offsets: tuple[Offsets, ...]
    masks: tuple[Mask | None, ...]
    largest: int
    count: int


class JsonScanner:
    """Scans blocks of lines, and reuses its memory.

    Args:
        root: the node of a line.
    """

    def __init__(self, root: Node) -> None:
        nodes: dict[Path, Node] = {(): root}
        firsts: list[int] = []
        waiting: list[Path] = [()]
        for path in waiting:  # which grows
            firsts.append(len(waiting))
            for name, inner in nodes[path].fields.items():
                nodes[*path, name] = inner
                waiting.append((*path, name))
        self._paths = {path: number for number, path in enumerate(waiting)}
        self._nodes = [nodes[path] for path in waiting]
        self._levels = 1 + max(node.depth for node in self._nodes)
        empties = [[self._paths[each] for each in _empties(nodes, path)] for path in waiting]
        spelt = [_spelt(path[-1]) if path else (b"", b"") for path in waiting]
        ends = [0, *accumulate(map(len, empties))]
        key_ends = [0, *accumulate(len(each) for pair in spelt for each in pair)]
        rows = [
            (
                *(node.kind, node.depth, node.lists, sum(1 << level for level in node.nullable)),
                *(node.hollow, node.lacking, node.others, first, len(node.fields)),
                *(ends[number], ends[number + 1]),
                *(key_ends[2 * number + place] for place in (0, 1, 1, 2)),
            )
            for number, (node, first) in enumerate(zip(self._nodes, firsts, strict=True))
        ]
        unknown = (SKIPPED, *(0 for _ in rows[0][1:]))
        self._table = np.array([*rows, unknown], np.int64)
        self._empties = np.array([*chain.from_iterable(empties), 0], np.int64)
        self._keys = np.frombuffer(b"".join(chain.from_iterable(spelt)) + b"\0", np.uint8)
        deepest = 1 + max(map(len, waiting))
        self._open = np.empty((deepest, OPEN_INTS), np.int64)
        self._unknown = np.empty((MOST_UNKNOWN, 2), np.int64)
        self._held = 0

    def _reserve(self, size: int) -> None:
        """Reserve memory for everything that a block of this size may hold."""
        if size <= self._held:
            return
        held = size + size // 4  # sizes vary, because blocks end with a line
        most = held // 2 + 2  # at least a digit and a separator per value
        self._held = 0  # until all of it is reserved
        shape = len(self._nodes), self._levels, most
        self._values = _sparse((len(self._nodes), most), np.int64)
        self._offsets = _sparse(shape, np.int64)
        self._masks = _sparse(shape, np.bool_)
        self._hard = np.empty((MOST_HARD, HARD_INTS), np.int64)
        self._held = held

    def scan(self, block: bytes) -> dict[Path, Scanned] | None:
        """Return the values of whole lines, or None if something is unusual."""
        return self.scan_padded(np.frombuffer(block + bytes(PADDING_BYTES), np.uint8), len(block))

    def scan_padded(self, data: Array, size: int) -> dict[Path, Scanned] | None:
        """Return the values in the first bytes of `data`, whole lines; see `scan`.

        Args:
            data: uint8, contiguous, with PADDING_BYTES zeros after `size` bytes.
            size: of the lines.
        """
        try:
            self._reserve(size)
        except MemoryError:  # a line of many megabytes, and many columns
            return None
        begin = load.address(data)
        if not _is_ascii[""].call(0, 1, begin, size):
            try:
                bytes(data[:size]).decode()
            except UnicodeDecodeError:
                return None
        many, levels, room = self._offsets.shape
        counts, nulls = np.zeros((2, many, levels), np.int64)
        largest, seen = np.zeros((2, many), np.int64)
        hard = _scan_lines[""].call(
            *(0, 1, begin, size, load.address(self._table), many, load.address(self._empties)),
            *(load.address(self._keys), load.address(self._values), load.address(self._offsets)),
            *(load.address(counts), load.address(self._masks), load.address(nulls), levels, room),
            *(load.address(largest), load.address(self._hard), MOST_HARD, load.address(seen)),
            *(load.address(self._open), load.address(self._unknown)),
        )
        masks = self._taken_masks(counts, nulls)
        if hard < 0 or not self._settle(data, begin, hard):
            return None
        return {
            path: self._scanned(number, counts[number], masks, largest[number])
            for path, number in self._paths.items()
        }

    def _taken_masks(self, counts: Array, nulls: Array) -> dict[tuple[int, int], Mask]:
        """Return the masks with nulls by node and level, and clear them for the next block."""
        found = {}
        for node, level in zip(*map(np.ndarray.tolist, nulls.nonzero()), strict=True):
            written = self._masks[node, level, : counts[node, level]]
            found[node, level] = ~written
            written[:] = False
        return found

    def _settle(self, data: Array, begin: int, count: int) -> bool:
        """Insert the numbers that the kernel left to Python; False if one exceeds float64."""
        rows = self._values.view(np.float64)
        for node, row, start, stop in self._hard[:count].tolist():
            value = rows[node, row] = float(bytes(data[start - begin : stop - begin]))
            if value in (np.inf, -np.inf):
                return False
        return True

    def _scanned(
        self, number: int, counts: Offsets, masks: dict[tuple[int, int], Mask], largest: Any
    ) -> Scanned:
        node = self._nodes[number]
        depth, kind = node.depth, node.kind
        count = int(counts[depth])
        held = self._values[number]
        if kind in (REAL, NOTHING):
            held = held.view(np.float64)
        elif kind in (TRUTH, TEXT):
            held = held.view(np.uint8)
        values = held[: count if kind < RECORD else 0].copy()
        offsets = tuple(
            immutable(self._offsets[number, level, : counts[level] + 1].copy())
            for level in range(depth)
        )
        return Scanned(
            values.view(np.bool_) if kind == TRUTH else values,
            offsets,
            tuple(masks.get((number, level)) for level in range(depth + 1)),
            int(largest),
            count,
        )


def _sparse(shape: tuple[int, ...], kind: type[np.generic]) -> Array:
    """Return zeros, most of which are never written."""
    return np.frombuffer(sparse_zeros(math.prod(shape) * np.dtype(kind).itemsize), kind).reshape(
        shape
    )


def _empties(nodes: dict[Path, Node], path: Path) -> list[Path]:
    """Return the nodes that receive a null if an object of a record is null."""
    found: list[Path] = []
    for name, inner in nodes[path].fields.items():
        if inner.kind != SKIPPED:
            below = *path, name
            found.append(below)
            if inner.kind == RECORD and inner.depth == 0:
                found += _empties(nodes, below)
    return found


def _spelt(key: str) -> tuple[bytes, bytes]:
    """Return how a name is usually written, and with escapes as well if that differs."""
    escaped = json.dumps(key)[1:-1].encode()
    try:
        plain = json.dumps(key, ensure_ascii=False)[1:-1].encode()
    except UnicodeEncodeError:
        plain = escaped
    return plain, b"" if plain == escaped else escaped
