"""`lodcli.open`, `read`, `read_all` and `write`: every option as a keyword, names of levels."""

from __future__ import annotations

import gzip
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli import LoDTensor
from lodcli.formats.core.errors import DamagedFileError, TooLargeError
from lodcli.formats.core.format import LeftOut, leaving_out
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.options import (
    ReadKeywords,
    ReadOptions,
    WriteKeywords,
    WriteOptions,
    read_options,
)
from lodcli.kernels.errors import InvalidDataError, OptionError, SelectionError, UnsupportedError
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.formats.cases.every_file import FILES, NEEDS, SAMPLES, file_of

NAMES = ("first", "second", "third", "fourth")
DEEP = LoDTensor(np.arange(6.0), [[2, 1], [1, 2, 3]])
FLAT = LoDTensor(np.arange(3.0), [[2, 1]])


def test_the_keywords_are_the_options() -> None:
    for keywords, options in ((ReadKeywords, ReadOptions), (WriteKeywords, WriteOptions)):
        assert list(keywords.__annotations__) == [field.name for field in fields(options)]


@pytest.mark.parametrize("name", FILES)
def test_levels_of_every_format_are_named(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    path, options = file_of(name, tmp_path)
    names: tuple[str, ...]
    if name in ("csv", "tsv"):  # its levels are columns
        chosen, names = "data", ("level0",)
    else:
        with lodcli.open(path, format_name=name, **options) as source:
            spec = max(source.schema, key=lambda spec: len(spec.levels))
        chosen, names = spec.name, NAMES[: len(spec.levels)]
    told: dict[str, Any] = {**options, "levels": list(names), "format_name": name}
    item = lodcli.read(path, chosen, **told)
    assert item.lod.names == names
    with lodcli.open(path, chosen, **told) as source:
        spec = next(spec for spec in source.schema if spec.name == chosen)
        assert spec.level_names == names
        assert source.read_index(chosen).names == names
    for unread in ("batches", "read", "slice"):
        with lodcli.open(path, chosen, **told) as source:
            if unread == "batches":
                parts = [batch[chosen] for batch in source.batches() if chosen in batch]
                assert all(isinstance(p, LoDTensor) and p.lod.names == names for p in parts)
                assert parts
            elif unread == "read":
                found = source.read([chosen])[chosen]
                assert found.identical(item)
            elif names:
                part = source.slice(chosen, (slice(0, 1),), names[-1])
                assert part.identical(item.select(slice(0, 1), level=names[-1]))
    with pytest.raises(lodcli.LodError) as caught:
        lodcli.read(path, chosen, **{**told, "levels": (*names, "surplus")})
    assert str(path.name) in str(caught.value)


def test_names_are_of_the_tensor_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    lodcli.write(path, {"data": DEEP, "flat": FLAT})
    for item, names in (
        (lodcli.read(path, levels=("a", "b")), ("a", "b")),
        (lodcli.read(path, "flat", levels="ab"), ("ab",)),
    ):
        assert item.lod.names == names
    with lodcli.open(path, "flat", levels="ab") as source:
        found = source.read()
        assert [item.lod.names for item in found.values() if isinstance(item, LoDTensor)] == [
            (None, None),
            ("ab",),
        ]
    # As many items: these are those of level "a".
    both = lodcli.read_all(path, levels=("a", "b"))
    assert [both[name].lod.names for name in ("data", "flat")] == [("a", "b"), ("a",)]
    with pytest.raises(SelectionError, match=r"t\.npz: 2 level names are given, flat has 1 level"):
        lodcli.read(path, "flat", levels=("a", "b"))
    lodcli.write(tmp_path / "u.npz", {"data": DEEP, "flat": FLAT[:1]})
    with pytest.raises(SelectionError, match=r"u\.npz: 2 level names are given, flat has 1 level"):
        lodcli.read_all(tmp_path / "u.npz", levels=("a", "b"))


def test_levels_of_a_tensor_array_take_no_names(tmp_path: Path) -> None:
    steps, index_map = TensorArray.unpack(FLAT)
    lodcli.write(tmp_path / "t.lod.h5", lodcli.StoredArray(steps, index_map))
    with pytest.raises(SelectionError, match="data is a TensorArray, whose levels take no names"):
        lodcli.read(tmp_path / "t.lod.h5", levels="a")


def test_names_survive_a_child_process_and_a_map(tmp_path: Path) -> None:
    path = tmp_path / "t.lod.h5"
    lodcli.write(path, DEEP)
    each: tuple[dict[str, Any], ...] = ({"limits": Limits(isolate=True)}, {"mmap": True})
    for told in each:
        item = lodcli.read(path, levels=("a", "b"), **told)
        assert item.lod.names == ("a", "b")
        np.testing.assert_array_equal(item.data, DEEP.data)


def test_options_are_keywords_and_go_before_the_value(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a":[1,2],"b":[3]}\n')
    assert list(lodcli.read_all(path, field="b")) == ["b"]
    assert list(lodcli.read_all(path, options=ReadOptions(field=("a",)), field=["b"])) == ["b"]
    for dtype in ("int16", np.int16, np.dtype(">i2")):
        item = lodcli.read(path, "a", dtype=dtype)
        assert item.dtype == np.int16
    assert read_options(None, {"dtype": "bfloat16"}).dtype == bfloat16()
    # What is off is known to every format.
    off: dict[str, Any] = {
        "mmap": False,
        "skip_unsupported": False,
        "nulls": "keep",
        "dtype": None,
        "field": (),
    }
    assert list(lodcli.read_all(SAMPLES / "articles.txt", **off)) == ["data"]


def bfloat16() -> np.dtype[Any]:
    import ml_dtypes

    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


@pytest.mark.parametrize(
    ("told", "error", "message"),
    [
        ({"level": "a"}, TypeError, "no option is called 'level'; did you mean levels\\? there"),
        ({"isolate": True}, TypeError, "no option is called 'isolate'; did you mean limits\\?"),
        ({"zz": 1}, TypeError, "no option is called 'zz'; there are: levels, vocabulary"),
        ({"nulls": "mask"}, OptionError, "nulls: expected keep, empty, zero, nan, drop, error"),
        ({"dtype": "float"}, None, ""),
        ({"dtype": "S3"}, OptionError, "dtype: no dtype 'S3'; there are: bfloat16, bool"),
        ({"dtype": "nonsense"}, OptionError, "dtype: no dtype 'nonsense'"),
        ({"field": [1]}, OptionError, "field: names have type str, found 1"),
        (
            {"columns": []},
            OptionError,
            "columns: expected at least one name, found \\[\\]; omit it",
        ),
        (
            {"columns": ()},
            OptionError,
            "columns: expected at least one name, found \\(\\); omit it",
        ),
        ({"columns": None}, None, ""),
        ({"field": 3}, OptionError, "field: expected a name or a list of names, found 3"),
        ({"rename": [("a", "b")]}, OptionError, "rename: expected a dict of new names by the"),
        ({"rename": {"a": 1}}, OptionError, "rename: names have type str, found 1"),
        ({"vocabulary": 3}, OptionError, "vocabulary: expected the path of a text file, found 3"),
        ({"data": 3}, OptionError, "data: expected a text, found 3"),
        ({"end_token": 1.5}, OptionError, "end_token: expected a whole number, found 1.5"),
        ({"dtype_unsafe": "no"}, OptionError, "dtype_unsafe: expected True or False, found 'no'"),
        ({"dtype_unsafe": True}, OptionError, "dtype_unsafe=True rounds to a dtype; give"),
        ({"text_levels": "letters"}, OptionError, "text_levels: expected text, bytes, numbers, fo"),
        ({"format_name": "hdf6"}, UnsupportedError, "no format named 'hdf6'; there are: lod.h5"),
        *(
            ({"separator": text}, OptionError, "separator: expected one ASCII character that is n")
            for text in ("", ", ", "a", "1", "é", '"', "+", "-", ".", "\r", "\n", "\0")
        ),
        *(
            ({"part": part}, OptionError, r"part: expected \(k, n\), part k of n from 0 to n - 1")
            for part in ((2, 2), (-1, 2), (0,), (0, 1.0))
        ),
        ({"options": {"levels": "a"}}, OptionError, "options: expected lodcli.formats.ReadOptions"),
        ({"format_name": ["jsonl"]}, OptionError, "expected the name of a format, found list"),
        ({"levels": ["a", "a"]}, SelectionError, "two levels are called 'a'"),
        ({"names": "x"}, UnsupportedError, "jsonl has no option 'names'"),
    ],
)
def test_an_impossible_option_is_an_error(
    told: dict[str, Any], error: type[Exception] | None, message: str
) -> None:
    for call in (lodcli.read, lodcli.read_all):
        if error is None:
            call(SAMPLES / "events.jsonl", **told)
        else:
            with pytest.raises(error, match=message):
                call(SAMPLES / "events.jsonl", **told)


@pytest.mark.parametrize("kind", [DamagedFileError, TooLargeError])
def test_damaged_and_too_large_parts_are_not_left_out(kind: type[InvalidDataError]) -> None:
    with pytest.raises(kind), leaving_out({}, "x"):
        raise kind("wrong")
    left_out: LeftOut = {}
    for error in (InvalidDataError("wrong"), UnsupportedError("unknown")):
        with leaving_out(left_out, "x"):
            raise error
        assert left_out == {"x": error}


def test_columns_that_are_not_selected_need_not_fit_a_tensor(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("name,age\n?,36\n")
    with pytest.raises(lodcli.LodError):
        lodcli.open(tmp_path / "t.csv")
    with lodcli.open(tmp_path / "t.csv", "age") as source:
        assert list(source.left_out) == ["name"]
    assert list(lodcli.read_all(tmp_path / "t.csv", skip_unsupported=True)) == ["age"]
    with pytest.raises(TypeError, match=r"'name'; did you mean columns\?"):
        lodcli.read_all(tmp_path / "t.csv", name="age")  # type: ignore[call-arg]


def test_write_takes_its_options_as_keywords(tmp_path: Path) -> None:
    lodcli.write(tmp_path / "t.npz", FLAT, cu_seqlens="cu", index_dtype="int32")
    with np.load(tmp_path / "t.npz") as found:
        assert found["cu"].dtype == np.int32
        assert found["cu"].tolist() == [0, 2, 3]
    lodcli.write(
        tmp_path / "u.npz", FLAT, options=WriteOptions(index_dtype="int32"), cu_seqlens=["cu"]
    )
    assert (tmp_path / "u.npz").read_bytes() == (tmp_path / "t.npz").read_bytes()
    with pytest.raises(TypeError, match="'compress'; did you mean compression\\? there are: comp"):
        lodcli.write(tmp_path / "v.lod.h5", FLAT, compress="zstd")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'force'; did you mean overwrite\\?"):
        lodcli.write(tmp_path / "v.lod.h5", FLAT, force=True)  # type: ignore[call-arg]
    with pytest.raises(UnsupportedError, match="npz has no option 'compression'"):
        lodcli.write(tmp_path / "v.npz", FLAT, compression="deflate")


@pytest.mark.parametrize("dtype", ["int16", "float32", "x"])
def test_offsets_are_int32_or_int64(tmp_path: Path, dtype: str) -> None:
    wanted = f"index_dtype: expected int32 or int64, found '{dtype}'"
    with pytest.raises(OptionError, match=wanted):
        lodcli.write(tmp_path / "t.npz", FLAT, index_dtype=dtype)
    assert not list(tmp_path.iterdir())


def test_numbers_of_shards_may_be_those_of_numpy(tmp_path: Path) -> None:
    shards: Any = np.int64(2)
    lodcli.write(tmp_path / "d", FLAT, format_name="lod.dataset", shards=shards)
    assert len(list((tmp_path / "d").glob("data-*"))) == 2


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "json"])
def test_a_faulty_value_of_another_column_is_passed_over(ending: str, tmp_path: Path) -> None:
    # Beyond the first lines, which give the columns.
    rows = [("1.5", "2")] * 100_000 + [("2.5", '"bad"'), ("3.5", "4")]
    if "csv" in ending:
        text = "a,b\n" + "".join(f"{a},{b}\n" for a, b in rows)
    else:
        lines = [f'{{"a":{a},"b":{b}}}' for a, b in rows]
        lines[-1] = '{"a":3.5,"b":4,"further":1}'
        text = "\n".join(lines) if ending == "jsonl" else f"[{','.join(lines)}]"
    path = tmp_path / f"file.{ending}"
    data = text.encode()
    path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    wanted = [1.5] * 100_000 + [2.5, 3.5]
    assert lodcli.read(f"{path}::a").to_list() == wanted
    with lodcli.open(path) as source:
        assert source["a"].read().to_list() == wanted
        assert {name for batch in source.batches_of(["a"]) for name in batch} == {"a"}
        with pytest.raises(InvalidDataError, match="b"):
            source["b"].read()
