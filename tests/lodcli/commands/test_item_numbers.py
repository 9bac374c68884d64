"""index() in expressions: the numbers of items, which go on through batches and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli.commands.apply import results
from lodcli.formats.core import format as base
from lodcli.formats.core import io
from lodcli.formats.items.items import Items
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell import opened
from tests.lodcli.conftest import Lod, tensor

COUNT = 40
X = (np.arange(COUNT) * 7 % 11).tolist()
# By expression, the items that are kept; x is read for some, and others need only the index.
KEPT = {
    "index() % 10 == 0": [0, 10, 20, 30],
    "index() % 10 == 0 and x >= 0": [0, 10, 20, 30],
    "not index() < 37": [37, 38, 39],
    "index() == x": [n for n in range(COUNT) if X[n] == n],
    "any(l == index())": [n for n in range(COUNT) if n in range(X[n])],
}


@pytest.fixture
def table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write x, l and n, which is the number of the item; they are read in batches of few items."""
    content = {
        "x": LoDTensor.from_lists(X),
        "l": LoDTensor.from_lists([[*range(size)] for size in X]),
        "n": LoDTensor(np.arange(COUNT)),
    }
    for name in ("t.lod.h5", "t.lods", "t.jsonl", "t.parquet"):
        io.write(name, content)
    for number in range(2):
        part = slice(number * 25, (number + 1) * 25)
        io.write(f"part{number}.jsonl", {name: one[part] for name, one in content.items()})
    monkeypatch.setattr(Items.range, "__defaults__", (100,))
    for module in (base, opened):
        monkeypatch.setattr(module, "BATCH_BYTES", 100)
    monkeypatch.setattr(results, "COMPUTED_BYTES", 100)


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("source", ["t.lod.h5", "t.lods", "t.jsonl", "t.parquet", "part*.jsonl"])
def test_numbers_go_on_through_batches_and_files(source: str, lod: Lod) -> None:
    for text, kept in KEPT.items():
        assert lod("filter", "-q", source, text, "-fo", "out.lod.h5").clean
        assert tensor("out.lod.h5", "n").to_list() == kept, text
    assert lod("apply", "-q", "l * 0 + index()", source, "--into", "i", "-fo", "out.lod.h5").clean
    assert tensor("out.lod.h5", "i").to_list() == [[n] * X[n] for n in range(COUNT)]
    assert lod("apply", "-q", "index()", f"{source}::n", "-fo", "out.lod.h5").code == 0
    assert lodcli.read("out.lod.h5").to_list() == [*range(COUNT)]
    assert lod("sort", "-q", source, "--by=-index()", "-fo", "out.lod.h5").code == 0
    assert tensor("out.lod.h5", "n").to_list() == [*range(COUNT)][::-1]
    assert (
        lod("sort", "-q", source, "--by", "index() % 2 + x * 0, n", "-fo", "out.lod.h5").code == 0
    )
    assert tensor("out.lod.h5", "n").to_list() == [*range(0, COUNT, 2), *range(1, COUNT, 2)]


def test_the_items_of_a_level_are_counted(lod: Lod, folder: Path) -> None:
    io.write("a.lod.h5", LoDTensor(np.arange(5), LoD.from_lengths([[2, 1], [1, 2, 2]], ["a", "s"])))
    assert lod("filter", "-q", "a.lod.h5", "--level", "s", "index() >= 1", "-o", "out.lod.h5").clean
    assert tensor("out.lod.h5").to_list() == [[1, 2], [3, 4]]


@pytest.mark.usefixtures("table")
def test_wrong_uses_are_explained(lod: Lod) -> None:
    for line, said in {
        "filter t.jsonl index(n)>1": "column 1: write index() % 10 == 0; it is the number of the",
        "filter t.jsonl row_number()>1": "no function 'row_number'; write index()",
        "apply None t.lod.h5 --into k": "column 1: compare with None as in x is None, x is not",
        "apply index()+n t.lod.h5 --jobs 2": "index() counts the items of all; leave it out",
    }.items():
        done = lod(*line.split(), "-o", "out.lod.h5")
        assert done.code != 0
        assert said in done.stderr


CONSTANTS: dict[str, object] = {
    **{
        "5": 5,
        "-5": -5,
        "2.5": 2.5,
        "-.5": -0.5,
        "True": True,
        "2 * 3 + 1": 7,
        "1 if 2 > 1 else 0": 1,
    },
    **{
        "2**64 - 1": 2**64 - 1,
        '"a"': "a",
        "lower('AB') + 'c'": "abc",
        "'a' if 1 > 2 else 'b'": "b",
    },
}


@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("source", ["t.lod.h5", "t.lods", "t.jsonl", "t.parquet", "part*.jsonl"])
def test_a_constant_has_a_value_for_each_item(source: str, lod: Lod) -> None:
    for text, value in CONSTANTS.items():
        assert lod("apply", text, "-q", source, "--into", "k", "-fo", "out.lod.h5").clean
        assert [*io.read_all("out.lod.h5")] == ["x", "l", "n", "k"]
        found = tensor("out.lod.h5", "k").to_list()
        assert found == [value] * COUNT
        assert type(found[0]) is type(value)
    assert lod(
        *("apply", "-q", "index()", source, "--into", "i", "--then", "7", "--into", "k", "--then"),
        *("k * i", "--into", "m", "-fo", "out.lod.h5"),
    ).clean
    assert tensor("out.lod.h5", "m").to_list() == [7 * n for n in range(COUNT)]


@pytest.mark.usefixtures("table")
def test_a_constant_replaces_no_tensor_that_was_not_named(lod: Lod) -> None:
    for line in (
        *(["5"], ["index()"], ["5", "--into", "k", "--then", "6"]),
        *(["x * 2", "--into", "k", "--then", one] for one in ("6", "index()")),
    ):
        text, *more = line
        done = lod("apply", text, "t.lod.h5", *more, "--into", "x", "-o", "out.lod.h5")
        assert (done.code, "a tensor is called x already" in done.stderr) == (2, True)
    done = lod("apply", "-.5", "t.lod.h5", "--into", "x", "-o", "out.lod.h5")
    assert "a tensor is called x already; give another name to '-.5'," in done.stderr
    assert lod("apply", "5", "t.lod.h5::x", "--into", "x", "-o", "out.lod.h5").code == 0
    assert tensor("out.lod.h5", "x").to_list() == [5] * COUNT


def test_without_common_items_a_tensor_is_chosen(lod: Lod, folder: Path) -> None:
    io.write("a.lod.h5", {"x": LoDTensor([1, 2, 3]), "l": LoDTensor([1, 2, 3, 4], [[2, 2]])})
    done = lod("apply", "5", "a.lod.h5", "--into", "k", "-o", "out.lod.h5")
    assert done.code == 2
    assert (
        done.stderr == "lod apply: a.lod.h5: holds 2 tensors; choose one: a.lod.h5::x a.lod.h5::l\n"
    )
    assert lod("apply", "5", "a.lod.h5::l", "--into", "k", "-o", "out.lod.h5").code == 0
    assert {name: one.to_list() for name, one in io.read_all("out.lod.h5").items()} == {
        "x": [1, 2, 3],
        "l": [[1, 2], [3, 4]],
        "k": [5, 5],
    }
