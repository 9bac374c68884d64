"""The groups and datasets of a file of many tensors, checked as arrays.

Such a file repeats a few structures, which differ only in addresses, sizes and shapes. The first of
each kind is parsed by `parser` and `stored`, and the others are compared with it, all at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lodcli.formats.container import parser
from lodcli.formats.container.header import PATH, DatasetEntry
from lodcli.formats.container.parser import Blocks, Link
from lodcli.formats.container.types import numpy_type
from lodcli.kernels.platform import files

# Parts that are compared at a time, so that memory does not hold all of a large file.
_AT_ONCE = 1 << 15
# Larger than any file, and sums of two such numbers fit int64.
_LIMIT = 1 << 62
# Structures at most this far apart are read together, and at most this many bytes at a time.
_NEAR_BYTES, _SPAN_BYTES = 16 << 10, 4 << 20
_TREE_BYTES = 24 + 8 * (2 * parser.CHILDREN_A_NODE + 1)
_ENTRY_BYTES = 40

Int64s = npt.NDArray[np.int64]
Rows = npt.NDArray[np.uint8]
# Raises the errors of a dataset.
Check = Callable[[Link, str, DatasetEntry], None]


class UnlikeError(Exception):
    """A structure differs from the first of its kind: all must be parsed one by one."""


class _Part(NamedTuple):
    """A group or dataset.

    Attributes:
        holds: the parts of a group by name, each a path or the parts of a group; None of a dataset.
        address: of its object header.
        cached: the addresses of the tree and heap of a group in the link to it; None without.
    """

    path: str
    holds: Mapping[str, Any] | None
    address: int
    cached: tuple[int, int] | None


def positions(
    blocks: Blocks,
    links: Mapping[str, Link],
    holds: Mapping[str, Any],
    entries: Mapping[str, DatasetEntry],
    check: Check,
) -> dict[str, int | None]:
    """Return the position of the rows of each dataset by path; None without bytes.

    Args:
        blocks: the file, with the claims of the structures parsed so far.
        links: of the root group.
        holds: the parts of the root group that the header names.
        entries: of all datasets.
        check: raises the errors of a dataset, without claims.

    Raises:
        UnlikeError, LodError: all objects must be parsed one by one, which may raise an error.
    """
    found: dict[str, int | None] = {}
    claims = _Claims(blocks)
    if links.keys() != {*holds, PATH[1:]}:
        raise UnlikeError
    waiting = [_part("", name, holds, links[name]) for name in holds]
    while waiting:
        kinds: dict[object, list[_Part]] = {}
        for part in waiting:
            kinds.setdefault(_kind(part, entries), []).append(part)
        waiting = []
        for parts in kinds.values():
            # In the order of the file, of which near parts are read together.
            parts.sort(key=_address)
            for first in range(0, len(parts), _AT_ONCE):
                some = parts[first : first + _AT_ONCE]
                if some[0].holds is None:
                    found |= _datasets(claims, some, entries, check)
                else:
                    waiting += _below(claims, some)
    claims.check()
    return found


def _part(above: str, name: str, holds: Mapping[str, Any], link: Link) -> _Part:
    if link.address is None or max((link.address, *(link.cached or ()))) >= _LIMIT:
        raise UnlikeError
    below = holds[name]
    return _Part(
        f"{above}/{name}", None if isinstance(below, str) else below, link.address, link.cached
    )


def _address(part: _Part) -> int:
    return part.address


def _kind(part: _Part, entries: Mapping[str, DatasetEntry]) -> object:
    """Return a key that is equal for parts with equal structures."""
    if part.holds is not None:
        return tuple(part.holds), part.cached is None
    entry = entries[part.path]
    return entry.dtype, len(entry.shape), 0 in entry.shape


class _Claims:
    """The bytes that structures use.

    Args:
        blocks: the file, with earlier claims.
    """

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self._extents: list[npt.NDArray[np.int64]] = [
            np.array([extent[:2] for extent in blocks.extents], np.int64)
        ]

    def add(self, starts: Int64s, sizes: Int64s | int) -> None:
        """Claim some bytes from each of these addresses on."""
        self._extents.append(np.column_stack([starts, starts + sizes]))

    def check(self) -> None:
        """Raise UnlikeError if two structures claim the same bytes, or one exceeds the file."""
        extents = np.concatenate(self._extents)
        starts, stops = extents[np.argsort(extents[:, 0])].T
        if stops.max() > self.blocks.size or (stops[:-1] > starts[1:]).any():
            raise UnlikeError
        if (starts[:-1] == starts[1:]).any():
            raise UnlikeError

    def alone(self) -> Blocks:
        """Return the file without claims, for the structures that are claimed as arrays."""
        return Blocks(self.blocks.fd, self.blocks.size)


def _below(claims: _Claims, parts: Sequence[_Part]) -> Iterator[_Part]:
    """Yield the members of groups with the same names."""
    first = parts[0]
    assert first.holds is not None
    alone, link = claims.alone(), Link(first.address, first.cached)
    messages = parser.object_at(alone, link, first.path)
    if parser.GROUP not in messages.by_kind:
        raise UnlikeError
    names = list(parser.links_of(alone, link, messages, first.path))
    if sorted(names) != sorted(first.holds):
        raise UnlikeError
    headers, places = _headers(claims, parts)
    at = places[parser.GROUP]
    _require_same(headers, [(at, at + 16)])
    trees, heaps = _field(headers, at), _field(headers, at + 8)
    if first.cached is not None:
        cached = np.array([part.cached for part in parts], np.int64)
        if (trees != cached[:, 0]).any() or (heaps != cached[:, 1]).any():
            raise UnlikeError
    heads = _gathered(claims.blocks, heaps, 32)
    _require_same(heads, [(24, 32)])
    segments, size = _field(heads, 24), int.from_bytes(heads[0, 8:16].tobytes(), "little")
    _require_same(_gathered(claims.blocks, segments, size), [])
    nodes = _gathered(claims.blocks, trees, 48)
    if nodes[0, 5] or nodes[0, 6] != 1:  # the height, and the number of children
        raise UnlikeError
    _require_same(nodes, [(32, 40)])
    leaves = _field(nodes, 32)
    symbols = _gathered(claims.blocks, leaves, 8 + _ENTRY_BYTES * len(names))
    entries = range(8, symbols.shape[1], _ENTRY_BYTES)
    if any(symbols[0, entry + 16] > 1 for entry in entries):  # a soft link
        raise UnlikeError
    varying = [(entry + 8, entry + 16) for entry in entries]
    _require_same(symbols, varying + [(entry + 24, entry + 40) for entry in entries])
    claims.add(heaps, 32)
    claims.add(segments, size)
    claims.add(trees, _TREE_BYTES)
    claims.add(leaves, 8 + _ENTRY_BYTES * parser.NAMES_A_LEAF)
    for name, entry in zip(names, entries, strict=True):
        fields = (_field(symbols, entry + place).tolist() for place in (8, 24, 32))
        is_group = symbols[0, entry + 16]
        for part, (address, tree, heap) in zip(parts, zip(*fields, strict=True), strict=True):
            assert part.holds is not None
            yield _part(
                part.path, name, part.holds, Link(address, (tree, heap) if is_group else None)
            )


def _datasets(
    claims: _Claims, parts: Sequence[_Part], entries: Mapping[str, DatasetEntry], check: Check
) -> dict[str, int | None]:
    """Return the positions of datasets of one dtype and number of axes."""
    first = entries[parts[0].path]
    # Of those without bytes the one with the most rows, whose number is limited.
    most = max(parts, key=lambda part: entries[part.path].shape[0])
    for part in {parts[0], most}:
        check(Link(part.address, None), part.path, entries[part.path])
    shapes = np.array([entries[part.path].shape for part in parts], np.uint64)
    headers, places = _headers(claims, parts)
    layout, space = places[parser.LAYOUT], places[parser.DATASPACE]
    if headers[0, layout + 1] != 1:  # not contiguous
        raise UnlikeError
    axes = headers[0, space + 1].item()
    stop = space + 8 + 8 * axes * (1 + headers[0, space + 2].item())  # maximum extents follow
    _require_same(headers, [(space + 8, stop), (layout + 2, layout + 18)])
    stored = headers[:, space + 8 : stop].copy().view("<u8")
    if (stored[:, :axes] != shapes).any() or (
        stored[:, axes:] < stored[:, : stored.shape[1] - axes]
    ).any():
        raise UnlikeError
    paths = [part.path for part in parts]
    if 0 in first.shape:
        return dict.fromkeys(paths)
    sizes = np.prod(shapes, axis=1).astype(np.int64) * numpy_type(first.dtype).itemsize
    addresses = _field(headers, layout + 2)
    if (_field(headers, layout + 10) != sizes).any():
        raise UnlikeError
    claims.add(addresses, sizes)
    return dict(zip(paths, addresses.tolist(), strict=True))


def _headers(claims: _Claims, parts: Sequence[_Part]) -> tuple[Rows, dict[int, int]]:
    """Return object headers, claimed, and where the content of each message of the first begins."""
    addresses = np.array([part.address for part in parts], np.int64)
    size = struct.unpack_from("<I", claims.blocks.look(parts[0].address, 16), 8)[0]
    headers = _gathered(claims.blocks, addresses, 16 + size)
    claims.add(addresses, 16)
    claims.add(addresses + 16, size)
    first, at, places = headers[0].tobytes(), 16, dict[int, int]()
    while at < len(first):
        kind, length = struct.unpack_from("<HH", first, at)
        places[kind] = at + 8
        at += 8 + length
    if parser.CONTINUATION in places:
        raise UnlikeError
    return headers, places


def _field(rows: Rows, place: int) -> Int64s:
    """Return the 8 bytes from a place on in each row, as numbers below _LIMIT."""
    found: Int64s = rows[:, place : place + 8].copy().view("<i8")[:, 0]
    if ((found < 0) | (found >= _LIMIT)).any():
        raise UnlikeError
    return found


def _require_same(rows: Rows, varying: Sequence[tuple[int, int]]) -> None:
    """Raise UnlikeError unless all rows equal the first one outside of these columns."""
    fixed = np.ones(rows.shape[1], np.bool_)
    for start, stop in varying:
        fixed[start:stop] = False
    if (rows != rows[0])[:, fixed].any():
        raise UnlikeError


def near(addresses: Int64s) -> Iterator[tuple[int, int]]:
    """Yield the bounds of runs of ascending addresses that are worth reading together."""
    apart = (np.diff(addresses) > _NEAR_BYTES) | (np.diff(addresses // _SPAN_BYTES) != 0)
    return pairwise([0, *(np.flatnonzero(apart) + 1).tolist(), addresses.size])


def _gathered(blocks: Blocks, addresses: Int64s, size: int) -> Rows:
    """Return bytes of a file from each of these addresses on, (addresses, size)."""
    if addresses.size * size > blocks.size:  # they overlap
        raise UnlikeError
    order = np.argsort(addresses)
    ordered = addresses[order]
    if ordered.item(-1) > blocks.size - size:
        raise UnlikeError
    found = np.empty((addresses.size, size), np.uint8)
    for low, high in near(ordered):
        start, stop = ordered.item(low), ordered.item(high - 1) + size
        read = np.frombuffer(files.pread(blocks.fd, stop - start, start), np.uint8)
        if read.size < stop - start:
            raise UnlikeError
        windows = np.lib.stride_tricks.sliding_window_view(read, size)
        found[order[low:high]] = windows[ordered[low:high] - start]
    return found
