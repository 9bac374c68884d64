"""Content that a target cannot hold is an error before a row is read."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import Batch, schema_of
from lodcli.formats.core.table import TABLE
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.kinds import KINDS, Content, contents, require
from tests.lodcli.conftest import Lod, lod  # noqa: F401 - a fixture
from tests.sampling import many

# Errors about single values or lengths, which only reading can find.
OF_VALUES = (
    *("is empty", "holds no empty", "no item without rows", "has none", "JSON has no "),
    *("whole numbers up to 2**53", "holds no nulls but", "has no nulls"),
    *("does not end with it", "does not begin with it", "has it before its end"),
    *("the longest sequences first", "vocabulary="),
)
FORMS = (None, "nested", "packed", "padded", "list", "flat")
# Formats that store no levels, or can only be read.
READ = ("nwb", "awkward-hdf5", "hdf5", "csv", "tsv", "orc")
SEQLENS = (None, ("a",), ("a", "b"), ("data",))


class RowsReadError(Exception):
    """Somebody asked for rows."""


def unread() -> Iterator[Batch]:
    raise RowsReadError
    yield {}


@st.composite
def options(draw: st.DrawFn, name: str, content: Content) -> dict[str, Any]:
    """Draw options for a writer."""
    known = table.get(name).write_options
    found = KINDS[name].write(content)
    if "form" in known:
        found = {"form": draw(st.sampled_from(FORMS))}
    if "cu_seqlens" in known:
        found["cu_seqlens"] = draw(st.sampled_from(SEQLENS))
    return found


def check(name: str, data: st.DataObject) -> None:
    content = data.draw(contents(name, held=False))
    chosen = WriteOptions(**data.draw(options(name, content)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, KINDS[name].path)
        told = dict(format_name=name, options=chosen)
        try:
            io.write_batches(path, schema_of(content), [content], **told)  # type: ignore[arg-type]
            return
        except LodError as error:
            expected = str(error)
        if any(part in expected for part in OF_VALUES):
            return
        with pytest.raises(LodError) as caught:
            io.write_batches(path, schema_of(content), unread(), **told)  # type: ignore[arg-type]
        assert str(caught.value) == expected


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=many(20, share=2), deadline=None)
@given(data=st.data())
def test_content_that_a_format_cannot_hold_is_refused_before_rows_are_read(
    name: str, data: st.DataObject
) -> None:
    require(name)
    check(name, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=many(300), deadline=None)
@given(data=st.data())
def test_much_that_a_format_cannot_hold(name: str, data: st.DataObject) -> None:
    require(name)
    check(name, data)


# -- commands ------------------------------------------------------------------------


def _damaged(path: Path) -> None:
    """Change a byte in the middle: of the rows, which are most of it."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _late_fault(path: Path) -> None:
    """Append a line that is no record."""
    with path.open("ab") as file:
        file.write(b'{"\n')


ROWS = 100_000
# Not Parquet: its first records are decoded to tell which columns share their levels.
SOURCES = {
    **dict.fromkeys(("s.lod.h5", "s.lods", "s.npz", "s.safetensors"), _damaged),
    **dict.fromkeys(("s.jsonl",), _late_fault),
}
# Of int64 under two levels: no format below holds it so.
TARGETS = [
    ["o.pt", "--form", "nested"],
    ["o.pt", "--form", "packed"],
    ["o.pt", "--form", "padded"],
    ["o.npz", "--cu-seqlens", "one"],
    ["o.safetensors", "--cu-seqlens", "a,a"],
    ["o.pt", "--cu-seqlens", "one"],
    ["o.ts"],
    ["o.bin", "--end-token", "0"],
    ["o.bin", "--to", "llmc"],
    ["o.txt"],
    ["o.tar"],
    ["o", "--to", "mds"],
    ["o.h5ad"],
    ["o.h5", "--to", "nwb"],
    ["o.lod.h5", "--form", "flat"],
    ["o.parquet.gz"],
    ["-", "--to", "datasets"],
    ["-", "--to", "megatron"],
    ["missing/o.npz"],
    ["o.unknown"],
    ["there.npz"],
]


@pytest.mark.parametrize("name", SOURCES)
def test_a_command_refuses_the_target_and_not_the_damage(
    lod: Lod,  # noqa: F811
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).integers(-(2**62), 2**62, ROWS)
    item = LoDTensor(rows, LoD.from_lengths([[10] * 10, [ROWS // 100] * 100], ("a", "b")))
    io.write(name, item)
    SOURCES[name](Path(name))
    Path("there.npz").touch()
    if "safetensors" not in name:  # which has no checksums
        assert lod("convert", name, "o.lod.h5").code == 1
    for target in TARGETS:
        done = lod("convert", name, *target)
        assert done.code in (2, 3, 4), (target, done.stderr)
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "there.npz"])


@pytest.mark.parametrize(
    "name",
    [name for name in TABLE if table.get(name).max_levels is None and name not in READ],
)
def test_the_deepest_tensor_is_read_back_and_a_deeper_one_is_refused(
    name: str, tmp_path: Path
) -> None:
    require(name)
    most = table.get(name).deepest

    def tensor(depth: int) -> LoDTensor:
        return LoDTensor(np.arange(6.0, dtype="f4"), [[1]] * (depth - 1) + [[6]])

    path = tmp_path / "deep"
    io.write(path, {"data": tensor(most)}, format_name=name)
    found = io.read_all(path, format_name=name)["data"]
    assert found.lod.n_levels == most
    with pytest.raises(UnsupportedError, match=f"holds at most {most} levels, data has {most + 1}"):
        io.write(tmp_path / "deeper", {"data": tensor(most + 1)}, format_name=name)
    assert not (tmp_path / "deeper").exists()
