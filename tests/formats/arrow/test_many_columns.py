"""Parquet and Arrow files of many columns: the work grows with their number, not its square."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import lodcli
from lodcli.kernels.tensor.marks import Field
from tests.growth import lines_of

pa = pytest.importorskip("pyarrow")

import pyarrow.parquet as pq  # noqa: E402 - after the check that there is pyarrow

from lodcli.formats.arrow import files, source  # noqa: E402
from lodcli.formats.arrow.layout import leaf_field  # noqa: E402


def written(path: Path, count: int, values: Callable[[int], list[object]]) -> Path:
    table = pa.table({f"x{number}": values(number) for number in range(count)})
    with pa.ipc.new_file(path, table.schema) as file:
        file.write(table)
    return path


def alike(number: int) -> list[object]:
    return [number, 2]


def of_own_lengths(number: int) -> list[object]:
    return [[1] * number, [2]]


@pytest.mark.parametrize("values", [alike, of_own_lengths])
def test_reading_one_tensor_after_another(
    values: Callable[[int], list[object]], tmp_path: Path
) -> None:
    def read(path: Path) -> None:
        with lodcli.open(path) as file:
            for spec in file.schema:
                list(file.batches_of([spec.name]))

    paths = [written(tmp_path / f"{n}.arrow", n, values) for n in (10, 50, 100, 200)]
    read(paths[0])
    few, more, most = (lines_of(partial(read, path)) for path in paths[1:])
    assert most - more < 2.2 * (more - few)


def test_columns_of_equal_lists_share_a_level_among_many_others(tmp_path: Path) -> None:
    path = written(tmp_path / "a.arrow", 40, lambda number: of_own_lengths(number % 20))
    with lodcli.open(path) as file:
        keys = [tuple(level.key for level in spec.levels) for spec in file.schema]
    assert keys[:20] == keys[20:]
    assert len(set(keys)) == 20


def test_a_struct_of_many_fields_is_opened_in_linear_work(tmp_path: Path) -> None:
    def read(count: int) -> int:
        path = tmp_path / f"{count}.parquet"
        fields = {f"x{number}": number for number in range(count)}
        pq.write_table(pa.table({"s": [fields, fields]}), path)
        return lines_of(partial(lodcli.read_all, path))

    read(10)  # imports what it needs
    few, more, most = map(read, (50, 100, 200))
    assert most - more < 2.05 * (more - few)


def test_many_structs_of_which_some_are_null_are_opened_in_linear_work(tmp_path: Path) -> None:
    def read(count: int) -> int:
        structs: list[object] = [None, {"a": 1}, {"a": None}]
        path = written(tmp_path / f"{count}.arrow", count, lambda number: structs)
        return lines_of(partial(lodcli.read_all, path, nulls="keep"))

    read(10)  # imports what it needs
    few, more, most = map(read, (50, 100, 200))
    assert most - more < 2.05 * (more - few)


def test_the_names_of_columns_are_looked_up_once_for_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    class Counted:
        """A batch, which makes all names at every look at its schema."""

        def __init__(self, batch: Any) -> None:
            self._batch = batch

        @property
        def schema(self) -> Any:
            nonlocal asked
            asked += 1
            return self._batch.schema

        def __getattr__(self, name: str) -> Any:
            return getattr(self._batch, name)

    def counted(records: Any) -> Iterator[tuple[int, Counted]]:
        yield from ((first, Counted(batch)) for first, batch in joined(records))

    joined = files.joined
    monkeypatch.setattr(source, "joined", counted)
    path = written(tmp_path / "a.arrow", 40, alike)
    assert len(lodcli.read_all(path)) == 40
    assert 0 < asked < 10


def test_the_fields_of_a_struct_are_found_in_linear_work() -> None:
    def find(count: int) -> int:
        column = pa.field("s", pa.struct([(f"x{number}", pa.int64()) for number in range(count)]))
        paths = [(Field("s", 0), Field(f"x{number}", 0)) for number in range(count)]
        return lines_of(lambda: [leaf_field(column, path) for path in paths])

    few, more, most = map(find, (50, 100, 200))
    assert most - more < 2.05 * (more - few)


def test_the_field_of_a_struct_is_found_by_the_name_of_its_tensor() -> None:
    column = pa.field("s", pa.list_(pa.struct([("a/b", pa.int8()), ("a", pa.int16())])))
    found = [leaf_field(column, (Field("s", 0), Field(name, 1))) for name in ("a%2Fb", "a")]
    assert [field.type for field in found] == [pa.int8(), pa.int16()]
