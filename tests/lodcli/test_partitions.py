"""Commands with files whose folders name values of columns."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.lodcli.conftest import Lod


@pytest.fixture
def events(folder: None) -> Path:
    table = {"n": [1, 2, 3], "year": [2023, 2024, 2024], "country": ["de", "São Tomé", None]}
    pq.write_to_dataset(pa.table(table), "events", partition_cols=["year", "country"])
    return Path("events")


def test_commands_read_keys(lod: Lod, events: Path) -> None:
    pattern = str(events / "**" / "*.parquet")
    assert lod("filter", pattern, "year == 2024 and country is not None", "-qo", "o.jsonl").clean
    wanted = {"n": 2, "year": 2024, "country": "São Tomé"}
    assert json.loads(Path("o.jsonl").read_text()) == wanted
    done = lod("convert", str(events), "-q", "--skip-partitions", "-o", "n.jsonl")
    assert (done.code, sorted(Path("n.jsonl").read_text().split())) == (0, ["1", "2", "3"])
    assert lod("group", str(events), "--by", "year", "-qo", "g.jsonl").code == 0
    assert re.findall(r'"year":(\d+)', Path("g.jsonl").read_text()) == ["2023", "2024"]


def test_an_error_names_the_file_and_not_the_pattern(lod: Lod, folder: None) -> None:
    Path("x1.csv").write_text("n\n1\n")
    Path("x2.csv").write_text("n\n1\n2x\n")
    for words in (["convert", "x?.csv"], ["filter", "x?.csv", "n > 0"]):
        done = lod(*words, "-o", "o.jsonl")
        assert (done.code, done.stdout) == (1, "")
        assert done.stderr.splitlines()[-1].startswith(f"lod {words[0]}: x2.csv: line 3, column")
