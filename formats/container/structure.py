"""The structure of a container: its header, and the places of its datasets.

Files are opened again and again, for one sequence each. So the structures of a few small files are
kept, with all bytes that they were parsed from. These are read and compared at every opening: a
file that changed is parsed again, whatever its times say.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from lodcli.formats.container import header, parser, stored
from lodcli.formats.container.header import Header
from lodcli.formats.container.stored import StoredDataset
from lodcli.kernels.platform import files

# Number of structures kept, and the most bytes of a part that one was read in.
MOST_KEPT, MOST_PART_BYTES = 16, 32 << 10


@dataclass(frozen=True)
class Structure:
    """What a container holds, and where.

    Attributes:
        header: the decoded header.
        header_crc32c: the CRC32C of its text; see `reader.header_checksum`.
        datasets: by path, in the order of the header.
    """

    header: Header
    header_crc32c: int
    datasets: Mapping[str, StoredDataset]


@dataclass(frozen=True)
class _Kept:
    parts: list[tuple[int, bytes]]
    structure: Structure


@lru_cache(MOST_KEPT)
def _kept(device: int, inode: int, size: int) -> list[_Kept]:
    """Return the list for the structure of a file, empty at first."""
    return []


def structure_of(fd: int) -> Structure:
    """Return the structure of an open container, checked.

    Raises:
        NotThisFormatError: no HDF5 file, or not one that lod wrote.
        DamagedFileError: one that breaks a rule.
        UnsupportedError: of another version.
    """
    state = os.fstat(fd)
    known = _kept(state.st_dev, state.st_ino, state.st_size)
    for kept in known:
        if all(files.pread(fd, len(part), at) == part for at, part in kept.parts):
            return kept.structure
    file = stored.ContainerFile(fd, state.st_size)
    text = file.header()
    found = header.decode(text)
    structure = Structure(found, header.checksum(text), file.datasets(found.datasets))
    # `alike` reads bytes that `file.parts` lacks.
    noted = len(found.datasets) < stored.MANY and len(file.parts) <= parser.MOST_PARTS
    if noted and all(len(part) <= MOST_PART_BYTES for _, part in file.parts):
        known[:] = [_Kept(file.parts, structure)]
    return structure
