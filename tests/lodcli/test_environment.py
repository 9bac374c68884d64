"""One table of environment variables: the code reads from it, and `lod env` shows it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from lodcli.kernels.platform import environment
from lodcli.kernels.platform.environment import VARIABLES
from tests.lodcli.conftest import Lod

ROOT = Path(__file__).parent.parent.parent
TABLE = ROOT / "kernels" / "platform" / "environment.py"


def sources() -> list[Path]:
    found = [
        path for top in ("lodcli", "kernels", "formats") for path in (ROOT / top).rglob("*.py")
    ]
    return [path for path in [*found, ROOT / "setup.py"] if path != TABLE]


def test_every_variable_in_the_source_is_in_the_table() -> None:
    for path in sources():
        for name in re.findall(r'"(LOD_[A-Z0-9_{}.() ]+)"', path.read_text()):
            known = environment.listed(re.sub(r"\{.*\}", "X", name))
            assert known in VARIABLES, f"{path}: {name}"


def test_variables_of_lod_are_read_through_the_table() -> None:
    for path in sources():
        if path.name != "setup.py":
            assert not re.search(r'(environ\[|environ\.get\(|getenv\()"LOD_', path.read_text()), (
                path
            )


def test_help_and_env_show_every_variable(lod: Lod, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in os.environ if one.startswith("LOD_BENCH_")]:
        monkeypatch.delenv(name)  # it would be listed by its own name
    shown = lod("--help").stdout
    found = {one["name"]: one for one in json.loads(lod("env", "--json").stdout)["variables"]}
    assert set(found) == set(VARIABLES)
    in_words = lod("env").stdout
    for name, variable in VARIABLES.items():
        assert f"  {name}" in shown
        assert name in in_words
        assert found[name]["meaning"] == variable.meaning


def test_a_wrong_level_of_kernels_is_no_fault_of_a_file(shell: Lod) -> None:
    done = shell("lod apply sum words.lod.h5 --to jsonl", LOD_NATIVE="fast")
    assert done.code == 2
    assert done.stdout == ""
    assert re.fullmatch(r"lod: LOD_NATIVE: expected off or one of .*, found 'fast'\n", done.stderr)


def test_env_shows_what_is_set(shell: Lod) -> None:
    set_to = {"LOD_THREADS": "2", "LOD_BENCH_TORCH_PYTHON": "/x", "LOD_BENCH_NUMPY_PYTHON": "/y"}
    done = shell("lod env --json", **set_to)
    found = {one["name"]: one["value"] for one in json.loads(done.stdout)["variables"]}
    assert set_to.items() <= found.items()
    assert "LOD_BENCH_*_PYTHON" not in found
    assert found["LOD_NATIVE"] is None


def test_variables_that_are_not_listed_cannot_be_read() -> None:
    with pytest.raises(KeyError):
        environment.value("LOD_NONSENSE")
