"""Numbers with a decimal comma in csv, against pandas and Polars."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io
from lodcli.formats.csv import writing
from lodcli.kernels.errors import InvalidDataError, OptionError, UnsupportedError
from lodcli.kernels.tensor.lod_tensor import LoDTensor

TEXT = """name;size;share;note
a;1;0,5;x,y
b;-2;-12,25;1.5
c;3;,125;"p;q"
d;4;1e-3;3,5
e;5;;
"""


def test_numbers_are_those_of_polars(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    path = tmp_path / "x.csv"
    path.write_text(TEXT)
    wanted = polars.read_csv(path, separator=";", decimal_comma=True)
    found = io.read_all(path, separator=";", decimal_comma=True, text_columns=["note"])
    assert found["share"].to_list() == wanted["share"].to_list()
    assert found["size"].dtype == np.int64
    assert found["note"].to_list() == ["x,y", "1.5", "p;q", "3,5", ""]


@pytest.mark.parametrize("separator", ["semicolon", "tab", "bar"])
@pytest.mark.parametrize("compiled", [True, False])
def test_written_tensors_are_read_back(
    tmp_path: Path, separator: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "is_repaid", lambda count: compiled)
    rng = np.random.default_rng(1)
    values = np.append(
        rng.standard_normal(500) * 10.0 ** rng.integers(-9, 9, 500), [0, -0.5, np.inf]
    )
    content = {
        "x": LoDTensor(values),
        "f": LoDTensor(values.astype(np.float32)),
        "n": LoDTensor(np.arange(503)),
        "t": LoDTensor.from_lists([f"{n}.5,{n}" for n in range(503)]),
    }
    path = tmp_path / "x.csv"
    how = {"separator": separator, "decimal_comma": True}
    io.write(path, content, **how)  # type: ignore[arg-type]
    first = path.read_text().splitlines()[1]
    assert repr(float(values[0])).replace(".", ",") in first
    found = io.read_all(path, **how)  # type: ignore[arg-type]
    for name, tensor in content.items():
        if name == "f":  # the shortest texts, read as float64
            assert found[name].astype(np.float32).to_list() == tensor.to_list()
        else:
            assert found[name].to_list() == tensor.to_list()


def test_a_comma_is_not_the_separator_as_well(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('a,b\n"1,5",2\n')
    said = "csv: a comma is both the separator and the decimal comma; give another"
    with pytest.raises(OptionError, match=said):
        lodcli.read(path, decimal_comma=True)
    with pytest.raises(OptionError, match=said):
        io.write(tmp_path / "y.csv", LoDTensor([1.5]), decimal_comma=True)
    assert not (tmp_path / "y.csv").exists()
    with pytest.raises(UnsupportedError, match=r"decimal_comma.*it is for csv and tsv"):
        io.write(tmp_path / "y.npz", LoDTensor([1.5]), decimal_comma=True)


def test_points_are_no_decimal_points_then(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a\tb\n1,5\t1\n2.5\t2\n")
    said = (
        r"line 3, column 'a': expected a number \(float64\), found '2.5'; write numbers as 1234,5"
    )
    with pytest.raises(InvalidDataError, match=said):
        io.read_all(path, format_name="tsv", decimal_comma=True)
