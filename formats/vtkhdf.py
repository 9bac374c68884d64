"""vtkhdf: the cells of VTK's unstructured grids and polygon data in HDF5."""

from __future__ import annotations

import os
from collections.abc import Iterable

import numpy as np

from lodcli.formats.base import Format, ReadOptions, Source, WriteOptions
from lodcli.formats.errors import DamagedFileError, naming
from lodcli.formats.hdf5.datasets import MODULES, Datasets, DatasetsSource
from lodcli.formats.inputs import Input
from lodcli.formats.outputs import Output
from lodcli.formats.schema import Batch, Schema
from lodcli.kernels.checks import Offsets, as_int64, check_offsets, lengths_to_offsets
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.lod import LoD

ROOT = "/VTKHDF"
POLYGONS = ("Vertices", "Lines", "Polygons", "Strips")
LEVELS = ("piece", "cell")


class VtkHdf(Format):
    """Cells as the numbers of their points; reading only.

    - "Connectivity": the points of every cell; levels "piece" (a part, or a time step) and
      "cell". Of polygon data: "Vertices", "Lines", "Polygons", "Strips", each the same.
    - "Types": one number a cell, level "piece"; of unstructured grids.
    - "Points": rows (3,), level "piece". Point numbers count within a piece.

    Fields on points and cells are not read, nor is any attribute: name such datasets with
    `--from hdf5 --data`.
    """

    name = "vtkhdf"
    suffixes = (".vtkhdf",)
    modules = MODULES

    def sniff(self, head: bytes) -> bool:
        return False  # begins like any HDF5; its name tells

    def open(self, source: Input, options: ReadOptions) -> Source:
        fd = source.make_seekable().fileno()
        datasets = Datasets(fd, os.fstat(fd).st_size)
        tensors = {}
        if datasets.has(f"{ROOT}/Connectivity"):
            pieces, lod = _cells(datasets, ROOT)
            tensors["Connectivity"] = (f"{ROOT}/Connectivity", lod)
            tensors["Types"] = (f"{ROOT}/Types", lod.above(-1))
        for kind in POLYGONS:
            if datasets.has(f"{ROOT}/{kind}/Connectivity"):
                pieces, lod = _cells(datasets, f"{ROOT}/{kind}")
                tensors[kind] = (f"{ROOT}/{kind}/Connectivity", lod)
        if not tensors:
            raise UnsupportedError(f"{ROOT}: holds neither an unstructured grid nor polygon data")
        counts = _counts(datasets, f"{ROOT}/NumberOfPoints", 0)
        if counts.size - 1 != pieces:
            raise DamagedFileError(
                f"{ROOT}/NumberOfPoints: expected {pieces} pieces, found {counts.size - 1}"
            )
        tensors["Points"] = (f"{ROOT}/Points", LoD([counts], LEVELS[:1]))
        return DatasetsSource(datasets, tensors)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        raise UnsupportedError("vtkhdf is only read: what a grid must hold, no tensor has")


def _counts(datasets: Datasets, path: str, level: int) -> Offsets:
    values = datasets.numbers(path)
    with naming(path):
        # Immutable, so all tensors share it.
        return lengths_to_offsets(as_int64(values, level=level, what="lengths"), level=level)


def _cells(datasets: Datasets, group: str) -> tuple[int, LoD]:
    """Return the number of pieces, and the index of the cells' points."""
    cells = _counts(datasets, f"{group}/NumberOfCells", 0)
    ids = _counts(datasets, f"{group}/NumberOfConnectivityIds", 0)
    path = f"{group}/Offsets"
    stored = datasets.numbers(path)
    pieces, total = cells.size - 1, int(cells[-1])
    # Each piece has offsets of its own, from 0 on: one more than it has cells.
    if ids.size != cells.size or stored.size != total + pieces:
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
    return pieces, LoD([cells, finest], LEVELS)
