"""Objects of many fields: time and memory grow with their number, not its square."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli import InvalidDataError
from tests.growth import lines_of, peak_bytes_of


def written(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def named(count: int, value: object = 1) -> dict[str, Any]:
    return {f"x{number}": value for number in range(count)}


def read_three(make: Callable[[int], list[dict[str, Any]]], folder: Path, **options: Any) -> Any:
    paths = [
        written(folder / f"{n}.jsonl", make(n)) for n in (10, *(100 << shift for shift in range(3)))
    ]
    lodcli.read_all(paths[0], **options)
    return [partial(lodcli.read_all, path, **options) for path in paths[1:]]


LINES = {
    "fields": lambda n: [named(n)] * 2,
    "records": lambda n: [{"a": named(n)}] * 2,
    "nulls before the first value": lambda n: [{"a": {**named(n, None), "y": 1}}] * 2,
    "records of records": lambda n: [{"a": named(n, {"y": 1})}] * 2,
    "records of nulls": lambda n: [{"a": {**named(n, {"y": None}), "z": 1}}] * 2,
}


@pytest.mark.parametrize("kind", LINES)
def test_work_grows_with_the_number_of_fields(kind: str, tmp_path: Path) -> None:
    few, more, most = map(lines_of, read_three(LINES[kind], tmp_path))
    assert most - more < 2.2 * (more - few)


def test_work_grows_with_the_number_of_fields_if_later_lines_have_more(tmp_path: Path) -> None:
    calls = read_three(lambda n: [named(n), named(n + 1)], tmp_path, skip_unsupported=True)
    few, more, most = map(lines_of, calls)
    assert most - more < 2.2 * (more - few)


def test_memory_grows_with_the_number_of_fields_of_records(tmp_path: Path) -> None:
    few, more, most = map(peak_bytes_of, read_three(LINES["records"], tmp_path))
    assert most - more < 2.5 * (more - few)


def test_a_field_that_some_lines_lack_is_read_where_others_are_left_out(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [{"x": 1, "y": 2}, {"x": 3, "z": 4, "y": 5}])
    read = lodcli.read_all(path, skip_unsupported=True)
    assert {name: np.asarray(tensor.data).tolist() for name, tensor in read.items()} == {
        "x": [1, 3],
        "y": [2, 5],
    }


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ({"x": 1, "y": 2, "z": 3}, "line 2: field 'z' is not in line 1"),
        ({"x": 1, "z": 3}, "line 2: field 'y' is missing"),
        ({"x": 1}, "line 2: field 'y' is missing"),
        ([1], "line 2: expected an object, found a list"),
    ],
)
def test_the_line_and_the_field_are_named(last: Any, message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [{"x": 1, "y": 2}, last])
    with pytest.raises(InvalidDataError, match=message):
        lodcli.read_all(path)
