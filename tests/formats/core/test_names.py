"""Names of tensors: any text but `/`, `::` and control characters, in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.names import MOST_CHARS, check_name, component, name_of, named
from lodcli.formats.core.options import ReadOptions
from lodcli.kernels.errors import InvalidDataError, SelectionError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.references import Reference, parse_reference
from tests.formats.cases.kinds import KINDS, require
from tests.formats.cases.tables import written_by_pyarrow
from tests.slow import slow_except

NAMES = [
    *("c_customer_sk:", "a b", " a", "a ", "a,b", 'say "a"', "it's", "a;b", "a\\b", "[0]", "a=b"),
    *("%", "100%", "a%2Fb", ":", ":a", "a:b", "\u00e9", "\u6587", "\U0001f600", "\u202e", "#"),
    *(".", "..", ".a", "a.", "a.b.c", "-", "--data", "*", "data.npy", "x" * MOST_CHARS),
    *("header", "index", "order", "outer", "lod.0", "lod.1.x", "unnamed", "__metadata__", "0"),
]
TENSOR = LoDTensor(np.arange(1, 7, dtype=np.int64), LoD.from_lengths([[2, 1, 3]]))
# The other formats choose names for the tensors.
NAMING = sorted({name for name in KINDS if table.get(name).many} - {"h5ad", "ts", "megatron"})


@pytest.mark.parametrize("name", slow_except(set(NAMING) - {"zarr-zip"}, NAMING))
def test_every_format_keeps_every_name(name: str, tmp_path: Path) -> None:
    require(name)
    if name == "paddle":
        pytest.skip("paddle names nothing")
    for number, wanted in enumerate(NAMES):
        folder = tmp_path / str(number)
        folder.mkdir()
        content = {wanted: TENSOR, "b": TENSOR}
        io.write(folder / KINDS[name].path, content, format_name=name)
        options = ReadOptions(levels=("level0",)) if name in ("csv", "tsv") else None
        path = folder / KINDS[name].path
        found = lodcli.read_all(path, format_name=name, options=options)
        assert sorted(found) == sorted(content), wanted
        item = found[wanted]
        np.testing.assert_array_equal(item.data, TENSOR.data)
        assert item.recursive_sequence_lengths() == TENSOR.recursive_sequence_lengths()


@pytest.mark.parametrize("name", ["", "/", "a/b", "::", "a::b", "a\nb", "\0", "\x1b[2J", "\x85"])
def test_no_other_name_is_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidDataError, match="cannot name a tensor: it "):
        io.write(tmp_path / "t.lod.h5", {name: TENSOR})
    assert not list(tmp_path.iterdir())


@given(st.text(max_size=300) | st.text("ab/:%\n\ud800", max_size=300))
@example("a:::::b")
@example("\ud800")
@example("a" * (MOST_CHARS + 1))
def test_any_text_has_a_name_which_is_kept(text: str) -> None:
    name = name_of(text)
    check_name(name)
    assert name_of(name) == name
    try:
        check_name(text)
    except InvalidDataError:
        return
    assert name == text
    assert named(component(text)) == text
    assert "/" not in component(text)
    assert component(text) not in (".", "..")


OTHERS = {"a/b": "a%2Fb", "a::b": "a:%3Ab", "a\nb": "a%0Ab", "": "unnamed", "\x7f": "%7F"}


@pytest.mark.parametrize("text", OTHERS)
@pytest.mark.parametrize("suffix", [".jsonl", ".arrow", ".parquet", ".csv"])
def test_columns_of_any_name_are_read_and_chosen(suffix: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / f"t{suffix}"
    _write_columns(path, text)
    wanted = OTHERS[text]
    with lodcli.open(path) as source:
        assert [spec.name for spec in source.schema] == ["x", wanted]
    for chosen in (text, wanted):
        with lodcli.open(path, field=(chosen,)) as source:
            assert [spec.name for spec in source.schema] == [wanted]
            item = source.read()[wanted]
            assert item.data.tolist() == [3, 4]


def _write_columns(path: Path, text: str) -> None:
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"x": n, text: n + 2}) + "\n" for n in (1, 2)))
    elif path.suffix == ".csv":
        path.write_text(f'x,"{text}"\n1,3\n2,4\n')
    else:
        written_by_pyarrow(path, pa.table([[1, 2], [3, 4]], names=["x", text]))


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("-")])
def test_a_name_behind_two_colons_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    io.write("t.lod.h5", {name: TENSOR, "b": TENSOR})
    assert parse_reference(f"t.lod.h5::{name}") == Reference("t.lod.h5", name)


@pytest.mark.parametrize("name", ["jsonl", "json", "csv", "npz", "parquet", "mds", "lod.h5"])
def test_an_unknown_name_among_many_gets_the_similar_ones(name: str, tmp_path: Path) -> None:
    require(name)
    path = tmp_path / "wide"
    tensors = {f"feature_{number:03}": LoDTensor([1, 2]) for number in range(150)}
    tensors["temperature"] = LoDTensor([1, 2])
    lodcli.write(path, tensors, format_name=name)
    keywords: dict[str, Any] = {"columns": ["temprature"]}
    with pytest.raises(SelectionError) as raised, lodcli.open(path, format_name=name, **keywords):
        pass
    assert "did you mean temperature?" in str(raised.value)
    assert "feature_000, feature_001" in str(raised.value)
    assert "131 more" in str(raised.value)
    assert len(str(raised.value)) < 500
