"""Errors name the file once, the place, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod


@pytest.fixture
def files(folder: Path) -> None:
    tensors: dict[str, Callable[[], LoDTensor]] = {
        "nan": lambda: LoDTensor([1.0, np.nan], [[1, 1]]),
        "empty": lambda: LoDTensor([1, 2], [[2, 0]]),
        "plain": lambda: LoDTensor([1, 2, 3]),
        "floats": lambda: LoDTensor([1.5, 2.0], [[2]]),
    }
    Path("text.csv").write_text("a,b\n1,2\n")
    for name, made in tensors.items():
        io.write(f"{name}.lod.h5", made())
    io.write("mixed.lod.h5", {"ids": LoDTensor([1, 2], [[2, 0]]), "n": LoDTensor([3, 4])})
    a, n = LoDTensor([1, 2], [[2, 0]]), LoDTensor([3, 4])
    io.write("lists.lod.h5", {"a": a, "b": a, "n": n})
    io.write("unequal.lod.h5", {"a": a, "b": LoDTensor([1], [[1, 0]]), "n": n})
    io.write("two.lod.h5", {"ids": LoDTensor([1, 2], [[2, 0]]), "n": LoDTensor([3], [[0, 1]])})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("convert nan.lod.h5 x.json", "x.json: data: row 1: JSON has no nan; replace it, or write"),
        ("convert empty.lod.h5 x.csv", "csv holds no item without rows, as item 1 of level 0 is;"),
        ("convert mixed.lod.h5 x.csv", "FILE::NAME; lod explode FILE ids writes a row for each va"),
        ("convert two.lod.h5 x.csv", "n has 1 row; choose one with FILE::NAME\n"),
        ("convert lists.lod.h5 x.csv", "FILE writes a row for each value of lists of equal length"),
        ("convert unequal.lod.h5 x.csv", "with FILE::NAME, or a, b with lod convert --columns\n"),
        (
            "convert empty.lod.h5 x.bin",
            "has that dtype; lod cast makes it uint16 or uint32, if all",
        ),
        ("convert plain.lod.h5 x.lod.h5 --offsets a", "it is for formats of named arrays, such as"),
        ("convert plain.lod.h5 x.lod.h5 --wide -f", "no option --wide; it is for csv and tsv"),
        (
            "merge nan.lod.h5 empty.lod.h5",
            "merge: empty.lod.h5: a tensor called data is in nan.lod",
        ),
        ("convert text.csv x.npz --from h5ad", "convert: text.csv: is not an HDF5 file\n"),
        ("convert text.csv x.npz --from hdf5-vlen --data a", "text.csv: is not an HDF5 file\n"),
        ("convert text.csv x.npz --from awkward-hdf5", "text.csv: is not an HDF5 file\n"),
        ("plan plain.lod.h5 --tokens 2", "expected a tensor of at least one level, found none"),
        (
            "verify --quick plain.lod.h5",
            "plain.lod.h5: --quick is for folders of datasets, without --isolate",
        ),
        ("apply add nan.lod.h5 plain.lod.h5", "one row of the second tensor for each sequence of"),
    ],
)
def test_an_error_names_the_place_and_what_to_do(
    lod: Lod, files: None, line: str, said: str
) -> None:
    done = lod(*line.split())
    assert done.code in (1, 2, 4)
    assert said in done.stderr
    assert not list(Path().glob("x.*"))
