"""Parts of a container: slices, batches, maps of the file, and writing in batches."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.container import checksums, rows, structure
from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.limits import Limited
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import Batch, Schema, StoredArray, TensorSpec, schema_of
from lodcli.kernels.errors import LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.formats.cases.opening import source_of
from tests.formats.cases.writing import uncounted
from tests.sampling import many
from tests.strategies import tensors

EXAMPLES = settings(
    max_examples=many(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
COMPRESSIONS = pytest.mark.parametrize("compression", [None, "deflate"])
BLOCK = (256 << 10) // 8  # rows of 8 bytes in a block


def _write(path: Path, content: Any, compression: str | None = None) -> Path:
    io.write(path, content, overwrite=True, compression=compression)
    return path


def _wide() -> LoDTensor:
    """Return a tensor of four blocks, the last one short, and three levels."""
    generator = np.random.default_rng(5)
    rows = 3 * BLOCK + 1000
    words = generator.multinomial(rows, np.full(2000, 1 / 2000))
    sentences = generator.multinomial(2000, np.full(100, 1 / 100))
    lod = LoD.from_lengths([generator.multinomial(100, np.full(7, 1 / 7)), sentences, words])
    return LoDTensor(generator.integers(0, 99, (rows, 2)).astype(np.int32), lod)


keys = st.integers(-4, 4) | st.builds(
    slice, st.none() | st.integers(-4, 4), st.none() | st.integers(-4, 4)
)


@COMPRESSIONS
@EXAMPLES
@given(tensor=tensors(), branch=st.lists(keys, min_size=1, max_size=4), level=st.integers(0, 2))
def test_a_slice_of_the_file_is_the_slice_of_the_tensor(
    tensor: LoDTensor, branch: list[Key], level: int, compression: str | None, tmp_path: Path
) -> None:
    path = _write(tmp_path / "t.lod.h5", tensor, compression)
    with lodcli.open(path) as source:
        try:
            expected = tensor.select(*branch, level=level)
        except SelectionError:
            with pytest.raises(SelectionError):
                source.slice("data", tuple(branch), level)
        else:
            assert source.slice("data", tuple(branch), level).identical(expected)


@COMPRESSIONS
def test_slices_across_blocks(compression: str | None, tmp_path: Path) -> None:
    tensor, generator = _wide(), np.random.default_rng(1)
    path = _write(tmp_path / "t.lod.h5", tensor, compression)
    with lodcli.open(path) as source:
        for _ in range(200):
            level = int(generator.integers(0, 3))
            count = tensor.lod.count(level)
            start, stop = sorted(generator.integers(0, count + 1, 2).tolist())
            found = source.slice("data", (slice(start, stop),), level)
            assert found.identical(tensor.select(slice(start, stop), level=level))


def _damage(path: Path, row: int) -> None:
    """Change a byte that stores this row."""
    with h5py.File(path, "r") as file:
        rows = file["data"].id
        if rows.get_offset() is not None:
            place = rows.get_offset() + 8 * row
        else:
            chunk = rows.get_chunk_info(row // BLOCK)
            place = chunk.byte_offset + chunk.size // 2
    content = bytearray(path.read_bytes())
    content[place] ^= 0x10
    path.write_bytes(content)


@COMPRESSIONS
def test_only_the_blocks_of_a_slice_are_checked(compression: str | None, tmp_path: Path) -> None:
    tensor = _wide()
    path = _write(tmp_path / "t.lod.h5", tensor, compression)
    _damage(path, 2 * BLOCK + 5)
    flat = LoD.from_lengths([np.diff(tensor.lod.levels[2])])
    with lodcli.open(path) as source:
        starts = flat.levels[0]
        before = int(np.searchsorted(starts, 2 * BLOCK, side="right")) - 1
        behind = int(np.searchsorted(starts, 3 * BLOCK))
        for chosen in (slice(0, before), slice(behind, None)):
            assert source.slice("data", (chosen,), 2).identical(tensor.select(chosen, level=2))
        what = "cannot be decompressed|altered" if compression else "rows 65536 to 98303 were alt"
        for damaged in (slice(before, before + 2), slice(0, None)):
            with pytest.raises(DamagedFileError, match=f"/data: .*({what})"):
                source.slice("data", (damaged,), 2)
        with pytest.raises(DamagedFileError, match=f"/data: .*({what})"):
            source.read()
        with pytest.raises(DamagedFileError, match=f"/data: .*({what})"):
            list(source.batches(1 << 18))


def test_a_block_is_checked_once_while_the_file_stays_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensor = _wide()
    path = _write(tmp_path / "t.lod.h5", tensor, None)
    checked: list[int] = []
    check = checksums.first_bad_block

    def noted(data: Array, sums: str, first: int, height: int) -> int | None:
        checked.extend(range(first, first - (-len(data) // height)))
        return check(data, sums, first, height)

    monkeypatch.setattr(rows, "first_bad_block", noted)
    with lodcli.open(path) as source:
        checked.clear()  # those of the index
        ends = tensor.lod.absolute(2)
        inside = int(np.searchsorted(ends, 2 * BLOCK + 5))

        def sliced(item: int) -> None:
            assert source.slice("data", (item,), 2).identical(tensor.select(item, level=2))

        sliced(inside)
        assert checked == [2]
        sliced(inside + 1)
        assert checked == [2]
        sliced(0)
        assert checked == [2, 0]
        # Its times change, and nothing else: all is checked again.
        os.utime(path, ns=(1, 1))
        sliced(inside)
        assert checked == [2, 0, 2]
        _damage(path, 2 * BLOCK + 5)
        for _ in range(2):
            with pytest.raises(DamagedFileError, match="rows 65536 to 98303 were altered"):
                source.slice("data", (inside,), 2)


def test_a_block_read_before_a_change_is_not_taken_for_whole(tmp_path: Path) -> None:
    """Two threads read; one finds the change while the other still checks what was there before."""
    path = tmp_path / "x"
    path.write_bytes(b"1")
    with path.open("rb") as file:
        blocks = checksums.CheckedBlocks(checksums.FileState(file.fileno()), 3)
        held, before = blocks.hold(0, 1)
        assert not held
        os.utime(path, ns=(1, 1))
        _, after = blocks.hold(2, 3)
        blocks.add(0, 1, before)
        assert blocks.hold(0, 1) == (False, after)
        blocks.add(0, 2, after)
        assert blocks.hold(0, 2) == (True, after)
        assert blocks.hold(0, 3) == (False, after)


@COMPRESSIONS
@EXAMPLES
@given(parts=st.lists(tensors(), min_size=1, max_size=3), limit=st.integers(0, 300))
def test_batches_of_any_size_cover_everything(
    parts: list[LoDTensor], limit: int, compression: str | None, tmp_path: Path
) -> None:
    content = {f"t{number}": tensor for number, tensor in enumerate(parts)}
    # And one that shares the levels of the first.
    content["twin"] = LoDTensor(np.arange(parts[0].rows), parts[0].lod)
    with lodcli.open(_write(tmp_path / "t.lod.h5", content, compression)) as source:
        found: dict[str, list[LoDTensor]] = {name: [] for name in content}
        for batch in source.batches(limit):
            for name, item in batch.items():
                found[name].append(item)
            if "twin" in batch and parts[0].lod.n_levels:
                assert batch["twin"].lod is batch["t0"].lod
    for name, tensor in content.items():
        assert LoDTensor.concatenate(found[name]).identical(tensor)


@COMPRESSIONS
def test_batches_keep_to_their_limit(compression: str | None, tmp_path: Path) -> None:
    tensor = _wide()
    with lodcli.open(_write(tmp_path / "t.lod.h5", tensor, compression)) as source:
        largest = int(np.diff(tensor.lod.absolute(0)).max()) * 8
        for limit in (1, 100_000, 300_000, 600_000, 1 << 30):
            parts = [batch["data"] for batch in source.batches(limit)]
            assert LoDTensor.concatenate(parts).identical(tensor)
            assert all(part.nbytes <= max(limit, largest) for part in parts)
        assert len(parts) == 1


# -- copies and maps --------------------------------------------------------------------------


def _root(array: Any) -> Any:
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


@COMPRESSIONS
def test_tensors_do_not_change_with_the_file(compression: str | None, tmp_path: Path) -> None:
    tensor = _wide()
    path = _write(tmp_path / "t.lod.h5", tensor, compression)
    content = path.read_bytes()
    with lodcli.open(path) as source:
        parts = [next(iter(source.batches())), source.read(), io.read_all(path)]
        parts.append({"data": source.slice("data", (slice(0, None),))})
        path.write_bytes(bytes(len(content)))
        with path.open("r+b") as raw:
            raw.truncate(1)
    # A map of the file would end the process here.
    assert all(part["data"].identical(tensor) for part in parts)


@EXAMPLES
@given(parts=st.lists(tensors(any_bits=True), min_size=1, max_size=4))
def test_contiguous_rows_are_mapped_aligned_and_read_only(
    parts: list[LoDTensor], tmp_path: Path
) -> None:
    # Odd sizes between the tensors, so that an unaligned place would show.
    odd = {f"odd{number}": LoDTensor(np.zeros(number * 7 + 1, np.uint8)) for number in range(4)}
    content = {f"t{number}": tensor for number, tensor in enumerate(parts)} | odd
    found = io.read_all(_write(tmp_path / "t.lod.h5", content), mmap=True)
    for name, tensor in content.items():
        item = found[name]
        assert item.data.flags.aligned
        if tensor.nbytes:
            assert isinstance(_root(item.data), mmap.mmap)
            assert not item.data.flags.writeable
            assert item.data.ctypes.data % 64 == 0


def test_a_map_shows_the_file_itself(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.lod.h5", LoDTensor(np.arange(100.0)))
    found = io.read(path, mmap=True)
    with h5py.File(path, "r") as file:
        offset = file["data"].id.get_offset()
    with path.open("r+b") as raw:
        raw.seek(offset + 8 * 42)
        raw.write(np.float64(-1).tobytes())
    assert found.data[42] == -1
    with pytest.raises(ValueError, match="read-only"):
        found.data[0] = 1


def test_a_map_is_checked(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.lod.h5", _wide())
    _damage(path, 7)
    with pytest.raises(DamagedFileError, match="/data: rows 0 to 32767 were altered"):
        io.read(path, mmap=True)


def test_only_containers_are_mapped(tmp_path: Path) -> None:
    tensor = LoDTensor(np.arange(3))
    io.write(tmp_path / "t.npz", tensor)
    with pytest.raises(UnsupportedError, match="npz has no option 'mmap'"):
        io.read(tmp_path / "t.npz", mmap=True)
    compressed = _write(tmp_path / "t.lod.h5", tensor, "deflate")
    assert io.read(compressed, mmap=True).identical(tensor)


def test_rows_that_are_not_aligned_are_copied(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.lod.h5", {"a": LoDTensor(np.arange(3.0))})
    content = path.read_bytes()
    rows = np.arange(3.0).tobytes()
    place = content.index(rows)
    moved = content.replace(rows, b"\0" * 4 + rows[:20], 1).replace(
        place.to_bytes(8, "little") + (24).to_bytes(8, "little"),
        (place + 4).to_bytes(8, "little") + (24).to_bytes(8, "little"),
    )
    moved = moved[: place + 4] + rows + moved[place + 28 :]
    path.write_bytes(moved)
    found = io.read(path, mmap=True)
    assert found.data.tolist() == [0, 1, 2]
    assert found.data.flags.aligned


# -- writing in batches ------------------------------------------------------------


def _unknown(schema: Schema) -> Schema:
    """Return the description as it is before the end of a stream is known."""
    return tuple(
        replace(spec, outer=tuple(replace(level, items=None) for level in spec.outer))
        for spec in uncounted(schema)
    )


@pytest.mark.slow
@COMPRESSIONS
@EXAMPLES
@given(tensor=tensors(any_bits=True), limit=st.integers(0, 60))
def test_unknown_sizes_give_the_same_content(
    tensor: LoDTensor, limit: int, compression: str | None, tmp_path: Path
) -> None:
    content = {"data": tensor, "twin": LoDTensor(np.arange(tensor.rows), tensor.lod)}
    path = _write(tmp_path / "known.lod.h5", content, compression)
    other = tmp_path / "unknown.lod.h5"
    options = WriteOptions(compression=compression)
    for schema in (lambda found: found, _unknown):
        with lodcli.open(path) as source:
            batches = source.batches(limit)
            io.write_batches(other, schema(source.schema), batches, overwrite=True, options=options)
        found = io.read_all(other)
        assert found["data"].identical(tensor)
        assert found["twin"].identical(content["twin"])
        assert found["twin"].lod is found["data"].lod or not tensor.lod.n_levels


def test_a_large_tensor_of_unknown_size_is_the_same(tmp_path: Path) -> None:
    tensor = _wide()
    array = StoredArray(*TensorArray.unpack(tensor, 1))
    content = {"data": tensor, "steps": array}
    path = _write(tmp_path / "known.lod.h5", content)
    with lodcli.open(path) as source:
        other = tmp_path / "unknown.lod.h5"
        io.write_batches(other, _unknown(source.schema), source.batches(1 << 17))
    found: dict[str, Any] = io.read_all(other)
    assert found["data"].identical(tensor)
    assert found["steps"].array.identical(array.array)
    assert found["steps"].index_map == array.index_map


PAIR = LoDTensor(np.arange(4.0), LoD.from_lengths([[1, 3]]))


def test_an_error_of_the_source_of_batches_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> Iterator[Batch]:
        yield {"data": PAIR}
        raise LodError("the source failed")

    schema = _unknown(schema_of({"data": PAIR}))
    with pytest.raises(LodError, match=r"^the source failed$"):
        io.write_batches(tmp_path / "t.lod.h5", schema, failing())
    assert not list(tmp_path.iterdir())


def in_place(path: Path, name: str) -> list[int]:
    """Return the numbers of rows that were checked, part by part."""
    with source_of(path) as source:
        inner = source.unlimited([name]) if isinstance(source, Limited) else source
        assert isinstance(inner, ContainerSource)
        parts = inner.check_in_place(name)
        assert parts is not None
        return list(parts)


@COMPRESSIONS
def test_rows_are_checked_in_place_to_the_first_wrong_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str | None
) -> None:
    monkeypatch.setattr(rows, "PIECE_BYTES", 512 << 10)
    monkeypatch.setattr(rows, "CHECKED_BYTES", 1 << 20)
    path = tmp_path / "a.lod.h5"
    data = np.arange(9 * BLOCK + 5, dtype=np.int64)
    io.write(path, LoDTensor(data, [[BLOCK, 8 * BLOCK + 5]]), compression=compression)
    assert in_place(path, "data") == [0, 4 * BLOCK, 4 * BLOCK, BLOCK + 5]
    if compression is None:
        _damage(path, 8 * BLOCK)
        _damage(path, 5 * BLOCK + 7)
        said = f"/data: rows {5 * BLOCK} to {6 * BLOCK - 1} were altered"
        with pytest.raises(DamagedFileError, match=said):
            in_place(path, "data")


def test_batches_of_one_tensor_leave_the_others_unread(tmp_path: Path) -> None:
    path = tmp_path / "a.lod.h5"
    io.write(path, {"good": LoDTensor([1.0, 2.0]), "bad": LoDTensor([77.5, 3.0])})
    path.write_bytes(path.read_bytes().replace(np.float64(77.5).tobytes(), bytes(8)))
    with lodcli.open(path) as source:
        assert [list(batch) for batch in source.batches_of(["good"])] == [["good"]]
        with pytest.raises(DamagedFileError, match="/bad/data: rows 0 to 1 were altered"):
            list(source.batches_of(["bad"]))


def test_the_structure_of_a_small_file_is_parsed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _write(tmp_path / "t.lod.h5", {"once": PAIR})

    def spec() -> TensorSpec:
        with lodcli.open(path) as source:
            assert source.slice("once", (1,)).identical(PAIR[1])
            return source.schema[0]

    assert spec() is spec()
    monkeypatch.setattr("lodcli.formats.container.structure.MOST_PART_BYTES", 10)
    structure._kept.cache_clear()
    assert spec() is not spec()


def test_a_file_changed_in_place_is_parsed_again(tmp_path: Path) -> None:
    path = _write(tmp_path / "t.lod.h5", {"once": PAIR})
    lodcli.read(path)
    before, state = path.read_bytes(), path.stat()
    _write(tmp_path / "u.lod.h5", {"ONCE": PAIR})
    for content, message in (
        (before.replace(b'"once"', b'"ONCE"'), "the header was altered"),
        (before.replace(b"TREE", b"tree"), "its index is damaged"),
        ((tmp_path / "u.lod.h5").read_bytes(), ""),
        (before, ""),
    ):
        assert len(content) == len(before)
        with path.open("r+b") as file:
            file.write(content)
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        if message:
            with pytest.raises(DamagedFileError, match=message):
                lodcli.read(path)
        else:
            assert list(lodcli.read_all(path)) == ["once" if content == before else "ONCE"]


def test_small_tensors_come_in_one_batch(tmp_path: Path) -> None:
    path = tmp_path / "t.lod.h5"
    items = {f"t{n}": LoDTensor(np.arange(n, dtype=np.int64), [[n]]) for n in range(20)}
    io.write(path, items)
    with io.open_file(path) as file:
        (batch,) = file.source.batches()
        assert all(batch[name].identical(item) for name, item in items.items())
        parts = list(file.source.batches(8 * 100))
    assert len(parts) > 10
    assert sorted(name for part in parts for name in part) == sorted(items)


def test_changes_in_a_file_of_many_tensors_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodcli.formats.container.stored.MANY", 50)
    content: dict[str, Any] = {f"t{n}": LoDTensor(np.arange(n + 1)) for n in range(60)}
    path = _write(tmp_path / "t.lod.h5", content)
    with h5py.File(path) as file:
        place = file["t39/data"].id.get_offset()
    assert len(io.read_all(path)) == 60
    before = struct.pack("<QQ", place, 320)
    found = path.read_bytes()
    assert found.count(before) == 1
    with open(path, "r+b") as file:
        file.seek(found.index(before))
        file.write(struct.pack("<QQ", place, 312))
    with pytest.raises(DamagedFileError, match="/t39/data: has 312 bytes, its rows need 320"):
        lodcli.open(path)
