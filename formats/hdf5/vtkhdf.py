"""vtkhdf: the cells of VTK's unstructured grids and polygon data in HDF5."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.core.format import Format, Source
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.hdf5.datasets import MODULES, Datasets, DatasetsSource
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Offsets, as_int64, check_offsets, lengths_to_offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option, together

ROOT = "/VTKHDF"
POLYGONS = ("Vertices", "Lines", "Polygons", "Strips")
LEVELS = ("piece", "cell")
MOST_POINTS = 2**61


class VtkHdf(Format):
    """Meshes: for each cell the indices of its points; reading only.

    - "Connectivity": the points of every cell; levels "piece" (a part, or a time step) and
      "cell". Polygon data has "Vertices", "Lines", "Polygons" and "Strips" in this form.
      A mesh that several time steps share is stored once, and is one piece.
    - "Types": one number per cell, level "piece"; only for unstructured grids.
    - "Points": rows (3,), level "piece". Point indices are relative to the piece.

    Fields on points and cells, faces of polyhedra, and attributes are not read: name such datasets
    with `--from hdf5 --data`.
    """

    name = "vtkhdf"
    dtypes = ALL_DTYPES - {"bfloat16", "bool", "complex64", "complex128"}
    min_levels, max_levels = 1, 2
    many = True
    read_only = "tensors lack required parts of a grid"
    modules = MODULES
    isolated = True

    def open(self, source: Input, options: ReadOptions) -> Source:
        datasets = Datasets(source, chosen=False)
        grid = datasets.has(f"{ROOT}/Connectivity")
        polygons = [kind for kind in POLYGONS if datasets.has(f"{ROOT}/{kind}/Connectivity")]
        if not grid and not polygons:
            raise UnsupportedError(
                f"{ROOT}: holds neither an unstructured grid nor polygon data; of several blocks, "
                "write each to a file; of images and trees, read a dataset with "
                f"{together(option('from', 'hdf5'), option('data'))}"
            )
        parts = _parts(datasets)
        tensors = {}
        if grid:
            lod = _cells(datasets, ROOT, parts)
            tensors["Connectivity"] = (f"{ROOT}/Connectivity", lod)
            tensors["Types"] = (f"{ROOT}/Types", lod.without_finest())
        for kind in polygons:
            lod = _cells(datasets, f"{ROOT}/{kind}", parts)
            tensors[kind] = (f"{ROOT}/{kind}/Connectivity", lod)
        points = _points(datasets, parts)
        tensors["Points"] = (f"{ROOT}/Points", LoD([points], LEVELS[:1]))
        return DatasetsSource(datasets, tensors)


@dataclass(frozen=True)
class _Parts:
    """The stored parts, and the parts of each time step.

    Attributes:
        listed: the number of counts in the file; a part may be counted again for each step.
        stored: the number of parts.
        steps: the parts of each step.
    """

    listed: int
    stored: int
    steps: list[range]


def _parts(datasets: Datasets) -> _Parts:
    """Return the parts; without time steps all of them belong to one step."""
    path, places = f"{ROOT}/NumberOfPoints", f"{ROOT}/Steps/PartOffsets"
    listed = datasets.numbers(path).size
    if not datasets.has(places):
        return _Parts(listed, listed, [range(listed)])
    starts = _whole(datasets, places, listed)
    begins = sorted({*starts, listed})
    ends = [begins[min(bisect_right(begins, start), len(begins) - 1)] for start in starts]
    if datasets.has(f"{ROOT}/Steps/NumberOfParts"):
        sizes = _whole(datasets, f"{ROOT}/Steps/NumberOfParts", listed)
        if len(sizes) != len(starts):
            raise DamagedFileError(f"{places}: expected {len(sizes)} steps, found {len(starts)}")
        ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    stored = 0
    for start, end in zip(starts, ends, strict=True):
        # The parts of a step follow those of the steps before, or are among them.
        if start > stored or end > listed:
            raise DamagedFileError(f"{places}: expected a part up to {stored}, found {start}")
        stored = max(stored, end)
    steps = [range(start, end) for start, end in zip(starts, ends, strict=True)]
    return _Parts(listed, stored, steps)


def _whole(datasets: Datasets, path: str, most: int) -> list[int]:
    """Return counts or positions, checked to be from 0 to `most`."""
    values = datasets.numbers(path)
    with naming(path):
        found = as_int64(values, level=0, what="offsets")
        if found.size and not 0 <= int(found.min()) <= int(found.max()) <= most:
            raise DamagedFileError(f"expected 0 to {most}, found {found.min()} to {found.max()}")
    whole: list[int] = found.tolist()
    return whole


def _points(datasets: Datasets, parts: _Parts) -> Offsets:
    """Return the offsets of the points of each piece; moving points have a piece for each step."""
    path, places = f"{ROOT}/NumberOfPoints", f"{ROOT}/Steps/PointOffsets"
    counts = _counts(datasets, path, 0, parts)
    if sum(map(len, parts.steps)) == parts.stored or not datasets.has(places):
        return counts
    begins = _whole(datasets, places, MOST_POINTS)
    if len(begins) != len(parts.steps):
        raise DamagedFileError(f"{places}: expected {len(parts.steps)} steps, found {len(begins)}")
    ends, known = [0], {0}
    for begin, step in zip(begins, parts.steps, strict=True):
        if begin == ends[-1] < MOST_POINTS:
            ends += (begin + counts[step.start + 1 : step.stop + 1] - counts[step.start]).tolist()
            known.update(ends[-len(step) :])
        elif begin not in known:
            raise DamagedFileError(f"{places}: expected {ends[-1]}, found {begin}")
    return as_int64(ends, level=0, what="offsets")


def _counts(datasets: Datasets, path: str, level: int, parts: _Parts) -> Offsets:
    values = datasets.numbers(path)
    with naming(path):
        if values.size != parts.listed:
            raise DamagedFileError(f"expected {parts.listed} pieces, found {values.size}")
        lengths = as_int64(values[: parts.stored], level=level, what="lengths")
        # Immutable, so all tensors share it.
        return lengths_to_offsets(lengths, level=level)


def _cells(datasets: Datasets, group: str, parts: _Parts) -> LoD:
    """Return the index of the cells' points."""
    pieces = parts.stored
    cells = _counts(datasets, f"{group}/NumberOfCells", 0, parts)
    ids = _counts(datasets, f"{group}/NumberOfConnectivityIds", 0, parts)
    path = f"{group}/Offsets"
    stored = datasets.numbers(path)
    total = int(cells[-1])
    # Each piece has separate offsets, from 0 on: one more than it has cells.
    if stored.size != total + pieces:
        raise DamagedFileError(
            f"{path}: expected {total + pieces} offsets of {total} cells in {pieces} pieces, "
            f"found {stored.size}"
        )
    finest = np.zeros(total + 1, np.int64)
    for piece in range(pieces):
        start, stop = int(cells[piece]), int(cells[piece + 1])
        with naming(path, f"piece {piece}"):
            own = as_int64(stored[start + piece : stop + piece + 1], level=1, what="offsets")
            check_offsets(own, level=1)
            if own[-1] != ids[piece + 1] - ids[piece]:
                raise DamagedFileError(
                    f"ends at {own[-1]}, expected {ids[piece + 1] - ids[piece]} point numbers"
                )
        finest[start + 1 : stop + 1] = own[1:] + ids[piece]
    return LoD([cells, finest], LEVELS)
