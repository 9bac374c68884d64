"""Comparisons of times with times that do not fit 64 bits in their unit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Marks, Times
from tests.lodcli.conftest import Lod


@pytest.mark.parametrize("times", [Times("timestamp", "ns"), Times("duration", "ns")])
def test_times_beyond_64_bits_compare_as_all_times(lod: Lod, folder: Path, times: Times) -> None:
    far = ("0001-01-01", "9999-12-31") if times.kind == "timestamp" else ("-P200000D", "P200000D")
    numbers = [-(2**63), -1, 0, 2**63 - 1]
    io.write("t.lod.h5", LoDTensor(np.array(numbers), marks=Marks(unit=times)))
    for text, kept in {
        f"data < '{far[1]}'": numbers,
        f"data >= '{far[1]}'": [],
        f"'{far[0]}' < data <= '{far[1]}'": numbers,
        f"data == '{far[1]}' or data != '{far[0]}'": numbers,
        f"data in ('{far[1]}', '{far[0]}')": [],
        f"data not in ('{far[1]}',)": numbers,
    }.items():
        assert lod("filter", "t.lod.h5", text, "-fqo", "kept.lod.h5").stderr == ""
        assert io.read("kept.lod.h5").data.tolist() == kept, text
        assert lod("apply", text, "t.lod.h5", "-fqo", "out.lod.h5").stderr == ""
        assert io.read("out.lod.h5").data.tolist() == [bool(kept)] * 4, text
