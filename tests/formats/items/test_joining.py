"""Items of two files joined by keys, against polars, with runs, blocks and batches of any size."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.formats.core.format import joined as as_one
from lodcli.formats.core.schema import schema_of
from lodcli.formats.items import external_sort, joining
from lodcli.formats.items.external_sort import size_bytes
from lodcli.formats.items.joining import joined, joined_schema
from lodcli.formats.items.taking import part
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.runtime.memory_budget import within_budget
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import TEXT
from lodcli.kernels.tensor.nulls import Nulls

# Texts that begin others, have zeros at their end, share words of eight bytes, or are in another
# order as UTF-16.
TEXTS = [
    "",
    "a",
    "a\0",
    "a\0\0",
    "b",
    "a common prefix",
    "a common prefix 1",
    "a common prefix 2",
    "a commo",
    "a common",
    "\uffff",
    "\U0001f600",
]
KEYS = st.tuples(st.none() | st.sampled_from(TEXTS), st.none() | st.integers(-1, 2))
SIDE = st.lists(KEYS, max_size=30)


def tensors_of(items: list[Any], name: str) -> dict[str, LoDTensor]:
    """Return the keys of items, and the place of each."""
    contents = [(text or "").encode() for text, _ in items]
    lod = LoD.from_lengths([list(map(len, contents))])
    data = np.frombuffer(b"".join(contents), np.uint8)
    masks = [
        np.array([one is not None for one in column], bool) for column in zip(*items, strict=True)
    ]
    texts, numbers = masks or [np.empty(0, bool)] * 2
    values = np.array([number or 0 for _, number in items], np.int64)
    return {
        "text": LoDTensor(data, lod, TEXT, Nulls.of([texts, None])),
        "number": LoDTensor(values, nulls=Nulls.of([numbers])),
        name: LoDTensor(np.arange(len(items))),
    }


def check_join(
    how: Any, names: list[str], left: list[Any], right: list[Any], ends: list[int], **sizes: int
) -> None:
    """Compare a join with that of polars.

    Args:
        left, right: the keys.
        ends: of the batches of both.
        sizes: of runs, blocks and batches, in bytes.
    """
    pl = pytest.importorskip("polars")
    sides, frames = [], []
    for name, items in (("a", left), ("b", right)):
        tensors = tensors_of(items, name)
        kept = {one: tensor for one, tensor in tensors.items() if one in (*names, name)}
        bounds = pairwise([0, *(min(end, len(items)) for end in ends), len(items)])
        sides.append((schema_of(kept), [part(kept, *each) for each in bounds]))
        columns = {
            "text": pl.Series([t if t is None else t.encode() for t, _ in items], dtype=pl.Binary),
            "number": pl.Series([number for _, number in items], dtype=pl.Int64),
            name: pl.Series(range(len(items)), dtype=pl.Int64),
        }
        frames.append(pl.DataFrame(columns).select(list(kept)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(external_sort, "RUN_BYTES", sizes["run"])
        patch.setattr(external_sort, "BLOCK_BYTES", sizes["block"])
        patch.setattr(external_sort, "BATCH_BYTES", sizes["batch"])
        patch.setattr(joining, "BATCH_BYTES", sizes["pairs"])
        kind: Any = "outer" if how == "full" else how
        schema = joined_schema(sides[0][0], sides[1][0], [(name, name) for name in names], kind)
        found: Any = as_one(schema, joined(sides[0], sides[1], names, kind))
    both = how not in ("semi", "anti")
    sort = [*names, *("ba" if how == "right" else "ab" if both else "a")]
    coalesce = {"coalesce": True} if how == "full" else {}
    wanted = frames[0].join(frames[1], on=names, how=how, **coalesce).sort(sort, nulls_last=True)
    assert found["a"].to_list() == wanted["a"].to_list()
    if both:
        assert found["b"].to_list() == wanted["b"].to_list()
    if "text" in names:
        texts = [text if text is None else text.decode() for text in wanted["text"]]
        assert found["text"].to_list() == texts


HOW = ["inner", "left", "right", "full", "semi", "anti"]
NAMES = [["text"], ["number"], ["text", "number"]]


@pytest.mark.parametrize("how", HOW)
@given(left=SIDE, right=SIDE, data=st.data())
def test_a_join_is_that_of_polars(how: Any, left: Any, right: Any, data: st.DataObject) -> None:
    few = st.sampled_from([1, 90, 300, 1 << 20])
    sizes = {name: data.draw(few) for name in ("run", "block", "batch", "pairs")}
    ends = sorted(data.draw(st.lists(st.integers(0, 30), max_size=4)))
    check_join(how, data.draw(st.sampled_from(NAMES)), left, right, ends, **sizes)


@pytest.mark.parametrize("batch", [1, 100, 300])
@pytest.mark.parametrize("names", NAMES, ids=",".join)
def test_matches_may_be_in_several_batches(names: list[str], batch: int) -> None:
    rng = np.random.default_rng(0)
    texts, numbers = rng.integers(0, len(TEXTS), (2, 60)), rng.integers(-1, 2, (2, 60))
    left, right = (
        [(TEXTS[text], number) for text, number in zip(*columns, strict=True)]
        for columns in zip(texts.tolist(), numbers.tolist(), strict=True)
    )
    for how in ("left", "right", "full"):
        check_join(how, names, left, right, [7, 40], run=500, block=90, batch=batch, pairs=batch)


def test_items_of_which_most_match_are_not_copied() -> None:
    right = {"key": LoDTensor(np.arange(0, 90, 3)), "b": LoDTensor(np.arange(30))}
    left = {"key": LoDTensor(np.arange(80))}
    second = joining._Matches(iter([right]), schema_of(right), ["key"])
    found, starts, counts = second.of(left)
    assert np.shares_memory(found["b"].data, right["b"].data)
    assert counts.tolist() == [1, 0, 0] * 26 + [1, 0]
    assert starts[::3].tolist() == list(range(27))


@pytest.mark.parametrize("how", ["inner", "left", "semi"])
def test_matches_of_narrow_items_are_held_in_parts(
    how: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 60_000
    narrow = {"key": LoDTensor(np.arange(count))}
    wide = {"key": LoDTensor(np.arange(count)), "b": LoDTensor(np.zeros((count, 8)))}
    left, right = ((schema_of(side), [side]) for side in (narrow, wide))
    held: list[int] = []
    of = joining._Matches.of

    def recorded(self: Any, items: Any) -> Any:
        found = of(self, items)
        held.append(size_bytes(found[0]))
        return found

    monkeypatch.setattr(joining._Matches, "of", recorded)
    with within_budget(1 << 20):
        batches = list(joined(left, right, ["key"], how))
    assert sum(len(batch["key"]) for batch in batches) == count
    assert max(held) < (1 << 20) // 3
