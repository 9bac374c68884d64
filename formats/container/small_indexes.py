"""Reads many small indexes of a container with few reads of the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from lodcli.formats.arrays import crc32c
from lodcli.formats.container.alike import near
from lodcli.formats.container.header import DatasetEntry
from lodcli.formats.container.stored import StoredDataset
from lodcli.kernels.errors import InvalidLoDError
from lodcli.kernels.index.checks import Offsets, check_offsets
from lodcli.kernels.platform import files

_KIND = np.dtype("<i8")


def read_together(
    fd: int,
    paths: Iterable[str],
    entries: Mapping[str, DatasetEntry],
    stored: Mapping[str, StoredDataset],
) -> dict[str, Offsets]:
    """Return the offsets in datasets of one block each, checked and read-only, by path.

    Those of more than one block, in chunks, or with an error are left out: the caller reads them
    one by one.
    """
    small = []
    for path in paths:
        entry, offset = entries[path], stored[path].offset
        if offset is not None and entry.shape[0] <= entry.block_rows:
            small.append((offset, path, entry.shape[0] * _KIND.itemsize, entry.crc32c))
    if not small:
        return {}
    small.sort()
    found: dict[str, Offsets] = {}
    for low, high in near(np.array([offset for offset, *_ in small], np.int64)):
        first, last = small[low], small[high - 1]
        read = files.pread(fd, last[0] + last[2] - first[0], first[0])
        for offset, path, size, checksum in small[low:high]:
            start = offset - first[0]
            part = read[start : start + size]
            if len(part) < size or f"{crc32c.value(part):08x}" != checksum:
                continue
            offsets = np.frombuffer(part, _KIND)
            try:
                check_offsets(offsets, level=0)
            except InvalidLoDError:
                continue
            found[path] = offsets
    return found
