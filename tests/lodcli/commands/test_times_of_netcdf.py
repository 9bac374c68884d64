"""The commands that a note on units of times in netCDF gives make times of the numbers."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.lodcli.conftest import Lod

LEAST = -(2**63)  # xarray stores it for a missing time


@pytest.mark.parametrize(
    ("units", "calendar", "dtype", "values", "times"),
    [
        (
            "hours since 2024-01-01 06:00",
            "standard",
            "i8",
            [1, LEAST],
            ["2024-01-01T07:00:00", None],
        ),
        ("days since 1900-01-01", ["Gregorian"], "i2", [1, 366], ["1900-01-02", "1901-01-02"]),
        ("days since 1900-01-01", "STANDARD", "i8", [LEAST, 0], [None, "1900-01-01"]),
        ("seconds since 1970-01-01", "standard", "i8", [LEAST, 1], [None, "1970-01-01T00:00:01"]),
        ("seconds since 1970-01-01", "standard", "u4", [0], ["1970-01-01T00:00:00"]),
        ("ms since 1600-01-01", "standard", "i4", [1], ["1600-01-01T00:00:00.001"]),
    ],
)
def test_the_commands_make_times(
    units: str,
    calendar: object,
    dtype: str,
    values: list[int],
    times: object,
    folder: Path,
    lod: Lod,
) -> None:
    with h5py.File("t.nc", "w") as file:
        file["t"] = np.array(values, dtype)
        file["t"].attrs.update({"units": units, "calendar": calendar})
    path = "t.lod.h5"
    done = lod("convert", "t.nc", path, "--data", "t")
    steps = done.stderr.strip().partition("; for times, ")[2].split(", then ")
    for number, step in enumerate(steps):
        command, *args = shlex.split(step)[1:]
        args.insert({"cast": 0, "apply": 1}[command], path)
        path = f"{number}.lod.h5"
        assert lod(command, *args, "-o", path).clean
    assert lod("convert", path, "t.jsonl").code == 0
    lines = (folder / "t.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == times
