"""A large index stays in its file: offsets are read, and checked, when something asks for them.

What is large is a matter of one number; here everything is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lodcli
from lodcli.formats.arrays.lazy_lod import LazyLoD
from lodcli.formats.container import reader
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.schema import LevelSpec, TensorSpec
from lodcli.kernels.errors import InvalidLoDError, LodError, SelectionError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key, select
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.broken.containers import CASES
from tests.formats.broken.crafted import Case, edit, good
from tests.formats.cases.processes import python
from tests.strategies import lods

COUNT = 70_000  # offsets: three blocks of 256 KiB
LENGTHS = np.arange(COUNT) % 3


@pytest.fixture(autouse=True)
def all_lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "WHOLE_INDEX_BYTES", -1)


def written(folder: Path, compression: str | None = None) -> Path:
    """Write 70,000 short sequences."""
    path = folder / "long.lod.h5"
    rows = np.arange(LENGTHS.sum(), dtype=np.int32)
    tensor = LoDTensor(rows, LoD.from_lengths([LENGTHS]))
    io.write(path, {"data": tensor}, compression=compression)
    return path


@pytest.fixture(params=[None, "deflate"], ids=["plain", "compressed"])
def long(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Give a file of 70,000 short sequences."""
    return written(tmp_path, request.param)


def of(lod: LoD, window: int = 3) -> LazyLoD:
    """Return an index that is read from one in memory."""
    assert lod.rows is not None
    counts = [*map(lod.count, range(lod.n_levels)), lod.rows]
    return LazyLoD(
        counts, lod.names, lambda level, start, stop: lod.levels[level][start:stop], window
    )


def keys() -> st.SearchStrategy[tuple[Key, ...]]:
    number = st.integers(-4, 5)
    part = st.builds(slice, number | st.none(), number | st.none())
    return st.tuples(st.lists(number, max_size=3), st.lists(part, max_size=1)).map(
        lambda both: (*both[0], *both[1])
    )


@given(lods(min_levels=1), keys(), st.integers(0, 2), st.integers(1, 4))
def test_it_selects_what_an_index_in_memory_does(
    lod: LoD, branch: tuple[Key, ...], level: int, window: int
) -> None:
    def chosen(index: LoD | LazyLoD) -> object:
        try:
            found = select(index, lod.rows or 0, branch, level)
            return found.lod, found.rows, found.level, found.start, found.stop, found.item
        except SelectionError as error:
            return str(error)

    assert chosen(of(lod, window)) == chosen(lod)
    assert list(of(lod, window).ends()) == lod.absolute(0).tolist()


def test_items_beyond_the_end_are_refused() -> None:
    lod = LoD.from_lengths([[1, 2]])
    for start, stop in ((0, 3), (-1, 1), (2, 1)):
        with pytest.raises(SelectionError, match="level 0 has 2 items"):
            of(lod).items(0, start, stop)


def test_a_file_holds_indexes_up_to_a_limit_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "WHOLE_INDEX_BYTES", 48)
    long, short = LoD.from_lengths([[1, 0, 0, 0]]), LoD.from_lengths([[0, 1]])
    again = LoD.from_lengths([[1, 0]])
    found = {"a": long, "shared": long, "longer": LoD.from_lengths([[0, 0, 1]]), "b": short}
    path = tmp_path / "many.lod.h5"
    lodcli.write(
        path, {name: LoDTensor(np.ones(1), lod) for name, lod in {**found, "c": again}.items()}
    )
    with open(path, "rb") as file:
        source = reader.ContainerSource(file.fileno(), "many")
        kinds = {spec.name: type(source.index_of(spec.name)) for spec in source.schema}
    assert kinds == {"a": LoD, "shared": LoD, "longer": LazyLoD, "b": LoD, "c": LazyLoD}


def test_a_slice_reads_the_blocks_of_offsets_that_it_needs(long: Path) -> None:
    bounds = np.concatenate([[0], LENGTHS.cumsum()])
    with lodcli.open(long) as source:
        for item in (0, 32_767, 32_768, 40_000, COUNT - 1, -1):
            start, stop = bounds[item % COUNT : item % COUNT + 2]
            assert source.slice("data", (item,)).data.tolist() == list(range(start, stop))
        part = source.slice("data", (slice(32_000, 66_000),))
        assert part.lod.lengths(0).tolist() == LENGTHS[32_000:66_000].tolist()
        assert part.data[0] == bounds[32_000]
        assert source.read_index("data") == LoD.from_lengths([LENGTHS])


def test_batches_and_parts_of_the_index_come_to_the_whole(long: Path) -> None:
    with lodcli.open(long) as source:
        found = [batch["data"] for batch in source.batches(1 << 16)]
        parts = list(source.index_parts("data"))
    assert len(found) > 5
    tensors = [item for item in found if isinstance(item, LoDTensor)]
    whole = LoDTensor.concatenate(tensors)
    assert whole.lod.lengths(0).tolist() == LENGTHS.tolist()
    assert np.array_equal(whole.data, np.arange(LENGTHS.sum()))
    assert LoD.concatenate(parts) == whole.lod


def test_a_damaged_block_of_offsets_is_found_where_it_is_used(tmp_path: Path) -> None:
    path = written(tmp_path)
    content = bytearray(path.read_bytes())
    bounds = np.concatenate([[0], LENGTHS.cumsum()]).astype("<i8")
    content[content.index(bounds[40_000:40_010].tobytes())] ^= 1
    path.write_bytes(content)
    said = f"{path}: /index/0: rows 32768 to 65535 were altered"
    with lodcli.open(path) as source:
        assert source.slice("data", (5,)).data.tolist() == [4, 5]
        assert source.slice("data", (-1,)).data.tolist() == []
        for use in (
            lambda: source.slice("data", (40_000,)),
            lambda: list(source.batches()),
            lambda: list(source.index_parts("data")),
        ):
            with pytest.raises(DamagedFileError, match=said):
                use()
        with pytest.raises(LodError, match=f"{path}: /index/0: level 0, position 40000"):
            source.read_index("data")


# Invalid offsets: position, value, and the message when a slice uses it.
WRONG = {
    "begins late": (0, 1, "position 0: first offset: expected 0, found 1"),
    "falls between blocks": (32_768, 3, "position 32768: offsets decrease"),
    "rises too high": (
        32_767,
        10**6,
        "position 3276(7: offset: expected at most 69999|8: offsets decrease)",
    ),
    "negative": (40_000, -5, "position 40000: offsets decrease"),
    "ends late": (COUNT, 70_005, "position 70000: last offset: expected 69999, found 70005"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_offsets_that_break_a_rule_are_refused_though_their_checksums_match(
    wrong: str, tmp_path: Path
) -> None:
    path = written(tmp_path)
    position, value, said = WRONG[wrong]

    def change(file: h5py.File, header: dict[str, Any]) -> None:
        file["/index/0"][position] = value

    edit(path, change, ["/index/0"])
    with lodcli.open(path) as source:
        for read in (
            lambda: source.slice("data", (max(position - 1, 0),)),
            lambda: list(source.batches()),
            lambda: list(source.index_parts("data")),
        ):
            with pytest.raises(InvalidLoDError, match=f"{path}: /index/0: level 0, {said}"):
                read()
        # In another block nothing is wrong.
        sound = 2 if position == COUNT else 66_002
        assert source.slice("data", (sound,)).data.tolist() == [sound - 1, sound]


@pytest.mark.parametrize("each", CASES, ids=str)
def test_no_broken_file_is_read_to_its_end(each: Case, broken: dict[str, Path]) -> None:
    with (
        pytest.raises(LodError),
        lodcli.open(broken[str(each)], format_name="lod.h5") as source,
    ):
        list(source.batches(1 << 16))


@pytest.mark.parametrize("base", ["articles", "compressed", "shared", "array", "text", "nulls"])
def test_files_of_every_kind_give_what_they_give_with_the_index_in_memory(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "good.lod.h5"
    path.write_bytes(good(base))

    def seen() -> Iterator[object]:
        with lodcli.open(path) as source:
            for batch in source.batches(16):
                yield {name: repr(item) for name, item in batch.items()}
            for spec in source.schema:
                yield LoD.concatenate(list(source.index_parts(spec.name)))
                if not spec.array:
                    yield source.slice(spec.name, (slice(1, 3),)).to_list()
                    yield source.slice(spec.name, (-1,)).to_list()

    lazy = list(seen())
    monkeypatch.setattr(reader, "WHOLE_INDEX_BYTES", 4 << 20)
    assert lazy == list(seen())


COMMANDS = """
import resource, subprocess, sys
for command in (["slice", "0"], ["inspect", "--json"], ["verify"], ["convert"]):
    name, *options = command
    target = ["-o", "out.lods"] if name == "slice" else ["out.lod.h5"] if name == "convert" else []
    done = subprocess.run(
        [sys.executable, "-m", "lodcli", name, "large.lod.h5", *options, *target],
        capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    print(name, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
"""


@pytest.mark.slow
def test_commands_do_not_hold_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """160 MB of offsets; in memory they were, with the checks, twice as many."""
    ones = LoD.from_lengths([np.ones(250_000, np.int64)])
    part = LoDTensor(np.zeros(250_000, np.uint8), ones)
    schema = (TensorSpec("data", np.dtype(np.uint8), (), (LevelSpec("0"),)),)
    io.write_batches(tmp_path / "large.lod.h5", schema, ({"data": part} for _ in range(80)))
    done = python(COMMANDS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    peaks = {name: int(size) for name, size in map(str.split, done.stdout.splitlines())}
    assert list(peaks) == ["slice", "inspect", "verify", "convert"]
    assert max(peaks.values()) < 130, peaks
