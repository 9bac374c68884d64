"""`lod join`: errors about nulls say how to replace those of items without a match."""

from __future__ import annotations

import pytest

from tests.lodcli.conftest import Lod, write_jsonl

pytestmark = pytest.mark.usefixtures("folder")


@pytest.mark.parametrize("how", ["left", "right", "outer"])
def test_nulls_of_the_files_have_no_advice_for_items_without_a_match(lod: Lod, how: str) -> None:
    write_jsonl("l.jsonl", [{"id": 1, "x": 1, "w": 1}, {"id": 2, "x": None, "w": 2}])
    write_jsonl("r.jsonl", [{"id": 1, "y": 1}, {"id": 2, "y": 2}])
    join = ["join", "l.jsonl", "r.jsonl", "--on", "id", "--how", how]
    done = lod(*join, "-o", "o.pdiparams")
    said = "o.pdiparams: x: row <1> is null; paddle has no nulls: --nulls zero, fill=X or drop\n"
    assert (done.code, done.stderr) == (4, f"lod join: {said}")
    assert lod(*join, "-qo", "o.pdiparams", "--nulls", "zero").code == 0


def test_an_error_of_a_file_that_is_replaced_has_no_advice(lod: Lod) -> None:
    write_jsonl("l.jsonl", [{"id": 1, "x": 1}, {"id": 2, "x": None}])
    write_jsonl("r.jsonl", [{"id": 3, "y": 1}])
    join = ["join", "l.jsonl", "r.jsonl", "--on", "id", "--how", "left", "--nulls", "error"]
    refused = lod(*join, "-fo", "l.jsonl")
    assert refused.stderr.startswith("lod join: l.jsonl: x: row <1> is null; --nulls error")
    assert "without a match" not in refused.stderr


def test_records_without_a_match_have_advice(lod: Lod) -> None:
    write_jsonl("l.jsonl", [{"id": 1}, {"id": 2}])
    write_jsonl("r.jsonl", [{"id": 1, "y": {"a": 1, "b": [2]}}])
    done = lod("join", "l.jsonl", "r.jsonl", "--on", "id", "--how", "left", "-o", "o.pdiparams")
    assert done.code == 4
    assert done.stderr.endswith(
        "; for items without a match, write lod.h5 and give --nulls to lod convert\n"
    )
