"""--skip-unsupported, --field and FILE::NAME: unsupported columns do not prevent reading others."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core import io
from tests.formats.cases.writing import npy
from tests.lodcli.conftest import Lod, tensor


def _jsonl(path: Path) -> None:
    path.write_text('{"good":1,"bad":{}}\n{"good":2,"bad":{}}\n')


def _csv(path: Path) -> None:
    path.write_text("good,bad\n1,NA\n2,5\n")


def _tsv(path: Path) -> None:
    path.write_text("good\tbad\n1\tNA\n2\t5\n")


def _npz(path: Path) -> None:
    np.savez(path, good=np.array([1, 2]), bad=np.array([1, 2], "M8[h]"))


def _safetensors(path: Path) -> None:
    entries = {
        "good": {"dtype": "I64", "shape": [2], "data_offsets": [0, 16]},
        "bad": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [16, 18]},
    }
    head = json.dumps(entries).encode()
    head += b" " * (-len(head) % 8)
    rows = np.array([1, 2], "<i8").tobytes()
    path.write_bytes(len(head).to_bytes(8, "little") + head + rows + b"ab")


def _table() -> Any:
    pa = pytest.importorskip("pyarrow")
    many = pa.array([Decimal(10) ** 30, 1], pa.decimal128(38, 0))
    return pa.table({"good": [1, 2], "bad": many})


def _arrow(path: Path) -> None:
    table = _table()
    with pytest.importorskip("pyarrow").ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def _arrows(path: Path) -> None:
    table = _table()
    with pytest.importorskip("pyarrow").ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table)


def _parquet(path: Path) -> None:
    pytest.importorskip("pyarrow.parquet").write_table(_table(), path)


def _nulls(path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    rows = pa.array([[1, 2], [3, None]], pa.list_(pa.int64(), 2))
    table = pa.table({"good": [1, 2], "bad": rows})
    pytest.importorskip("pyarrow.parquet").write_table(table, path)


def _doubled(path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.table([[1, 2], [3, 4], [5, 6]], names=["good", "bad", "bad"])
    pytest.importorskip("pyarrow.parquet").write_table(table, path)


def _tar(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for number in (1, 2):
            for name, data in (("good.npy", npy(np.int64(number))), ("bad.jpg", b"\xff\xd8")):
                info = tarfile.TarInfo(f"{number}.{name}")
                info.size = len(data)
                archive.addfile(info, BytesIO(data))


def _awkward(path: Path) -> None:
    ak = pytest.importorskip("awkward")
    array = ak.zip({"good": [1, 2], "bad": [None, 2]}, depth_limit=1)
    form, length, buffers = ak.to_buffers(array)
    np.savez(path, form=form.to_json(), length=length, **buffers)


def _mds(path: Path) -> None:
    head = np.array([2, 16, 16 + 8 + 2 + 4, 16 + 2 * (8 + 2 + 4)], "<u4").tobytes()
    values = [np.uint32(2).tobytes() + np.int64(n).tobytes() + b"ab" for n in (1, 2)]
    data = head + b"".join(values)
    path.mkdir()
    (path / "shard.00000.mds").write_bytes(data)
    shard = {
        "column_encodings": ["int64", "jpeg"],
        "column_names": ["good", "bad"],
        "column_sizes": [8, None],
        "compression": None,
        "format": "mds",
        "hashes": [],
        "raw_data": {"basename": "shard.00000.mds", "bytes": len(data), "hashes": {}},
        "samples": 2,
        "version": 2,
        "zip_data": None,
    }
    (path / "index.json").write_text(json.dumps({"shards": [shard], "version": 2}))


FILES: dict[str, Callable[[Path], None]] = {
    "t.jsonl": _jsonl,
    "t.csv": _csv,
    "t.tsv": _tsv,
    "t.npz": _npz,
    "t.safetensors": _safetensors,
    "t.arrow": _arrow,
    "t.arrows": _arrows,
    "t.parquet": _parquet,
    "nulls.parquet": _nulls,
    "doubled.parquet": _doubled,
    "t.tar": _tar,
    "awkward.npz": _awkward,
    "mds": _mds,
}


@pytest.mark.parametrize("name", FILES)
def test_one_bad_column_does_not_stop_the_others(
    name: str, lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    FILES[name](tmp_path / name)
    refused = lod("convert", name, "out.lod.h5")
    assert refused.code in (1, 4)
    assert "bad" in refused.stderr or ".jpg" in refused.stderr
    assert not Path("out.lod.h5").exists()
    skipped = lod("convert", name, "skipped.lod.h5", "--skip-unsupported")
    assert (skipped.code, skipped.stdout) == (0, "")
    assert skipped.stderr.startswith(f"lod convert: {name}: bad is left out: ")
    assert skipped.stderr.count("\n") == 1
    assert list(io.read_all("skipped.lod.h5")) == ["good"]
    assert tensor("skipped.lod.h5").data.tolist() == [1, 2]
    quiet = lod("inspect", name, "--skip-unsupported", "--json", "-q")
    assert (quiet.code, quiet.stderr) == (0, "")
    assert [one["name"] for one in json.loads(quiet.stdout)["tensors"]] == ["good"]


@pytest.mark.parametrize("name", [name for name in FILES if name != "nulls.parquet"])
def test_a_named_column_is_read_alone(
    name: str, lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    FILES[name](tmp_path / name)
    assert lod("convert", f"{name}::good", "chosen.lod.h5").clean
    assert tensor("chosen.lod.h5").data.tolist() == [1, 2]
    bad = lod("inspect", f"{name}::bad")
    assert bad.code in (1, 4)
    assert "no tensor named" not in bad.stderr
    option = {"t.npz": "--data", "t.safetensors": "--data", "awkward.npz": None}.get(
        name, "--field"
    )
    if option is not None:
        assert lod("convert", name, "picked.lod.h5", option, "good").clean
        assert tensor("picked.lod.h5").data.tolist() == [1, 2]


def test_nothing_but_bad_columns_is_an_error(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a,b\n?,NA\n")
    done = lod("inspect", "t.csv", "--skip-unsupported")
    assert (done.code, done.stdout) == (1, "")
    assert "expected a number" in done.stderr


def test_a_later_field_is_not_left_out_without_a_word(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.jsonl").write_text('{"good":1,"bad":{}}\n{"good":2,"bad":{},"more":1}\n')
    done = lod("convert", "t.jsonl", "out.lod.h5", "--skip-unsupported")
    assert done.code == 0
    assert "more is left out: line 2: field 'more' is not in line 1" in done.stderr
