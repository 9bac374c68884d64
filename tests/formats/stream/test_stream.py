"""The lod stream: round trips, or an error."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.formats.core.batching import regrouped
from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Item, LevelSpec, StoredArray, TensorSpec, schema_of
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.stream.format import LodStream
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, Marks
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.formats.cases import stream_spec as spec
from tests.formats.cases.processes import python
from tests.formats.cases.streams import batches_of, read, same, schema_in, stream_of, written
from tests.strategies import tensors


def articles(names: tuple[str | None, ...] = ("article", "sentence")) -> LoD:
    return LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], names)


def unpacked() -> StoredArray:
    words = LoDTensor(np.arange(15, dtype=np.int16), articles())
    return StoredArray(*TensorArray.unpack(words))


def joined(batches: list[Batch], name: str) -> LoDTensor:
    parts = [batch[name] for batch in batches if name in batch]
    return LoDTensor.concatenate([part for part in parts if isinstance(part, LoDTensor)])


# -- what comes back ---------------------------------------------------------------


@given(tensors(any_bits=True), st.integers(1, 200))
def test_every_tensor_comes_back_bit_for_bit(tensor: LoDTensor, limit_bytes: int) -> None:
    raw = stream_of({"data": tensor})
    assert same(tensor, read(raw)["data"])
    assert same(tensor, joined(batches_of(raw, limit_bytes), "data"))


@given(tensors(min_levels=1), st.booleans())
def test_every_tensor_array_comes_back(tensor: LoDTensor, sort_by_length: bool) -> None:
    for level in range(tensor.lod.n_levels):
        stored = StoredArray(*TensorArray.unpack(tensor, level, sort_by_length))
        assert same(stored, read(stream_of({"steps": stored}))["steps"])


def test_big_endian_data_comes_back_native() -> None:
    swapped = LoDTensor(np.array([1.5, 2.5], ">f4"))
    found = read(stream_of({"data": swapped}))["data"]
    assert found.dtype == np.dtype("f4")
    assert found.data.tolist() == [1.5, 2.5]


def test_a_boolean_of_any_byte_is_stored_as_one() -> None:
    odd = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)
    found = read(stream_of({"data": LoDTensor(odd)}))["data"]
    assert found.data.view(np.uint8).tolist() == [0, 1, 1, 1]


def test_a_shared_level_is_sent_once_and_shared_again() -> None:
    lod = articles()
    words, tags = LoDTensor(np.arange(15.0), lod), LoDTensor(np.arange(15), lod)
    one, two = (len(stream_of(x)) for x in ({"a": words}, {"a": words, "b": tags}))
    assert two < one + words.nbytes + 200  # no second copy of 9 offsets and frame headers
    found = read(stream_of({"a": words, "b": tags}))
    a, b = found["a"], found["b"]
    assert a.lod is b.lod
    levels = [s.levels for s in schema_in(stream_of({"a": words, "b": tags}))]
    assert levels[0] == levels[1]


def test_tensors_that_share_only_their_outer_level_stay_together() -> None:
    deep = articles()
    flat = deep.above(1)
    items: dict[str, Item] = {
        "words": LoDTensor(np.arange(15.0), deep),
        "titles": LoDTensor(np.arange(6), flat),
    }
    for batch in batches_of(stream_of(items), 1):
        assert set(batch) == {"words", "titles"}
    assert all(same(items[name], item) for name, item in read(stream_of(items)).items())


def test_tensors_of_one_level_that_come_apart_are_written_together() -> None:
    lod = articles()
    items: dict[str, Item] = {
        "a": LoDTensor(np.arange(15.0), lod),
        "b": LoDTensor(np.arange(15), lod),
    }
    apart = written(schema_of(items), ({name: item} for name, item in items.items()))
    assert apart == stream_of(items)


def test_the_same_offsets_twice_in_one_tensor_are_two_levels() -> None:
    offsets = np.array([0, 0, 2])
    offsets.flags.writeable = False
    lod = LoD([offsets, offsets])
    tensor = LoDTensor(np.arange(2), lod)
    raw = stream_of({"data": tensor})
    assert same(tensor, joined(batches_of(raw, 1), "data"))


def test_brackets_in_words_are_no_lists() -> None:
    words = tuple(f'["{number}' for number in range(2**18 + 1))
    rows = np.array([0, 2**18], dtype=np.int32)
    codes = LoDTensor(rows, marks=Marks(unit=Categories(words)))
    again = read(stream_of({"data": codes}))["data"]
    assert codes.identical(again)


def test_small_batches_come_joined() -> None:
    lod = LoD.from_lengths([[2, 0, 1]])
    spec_ = TensorSpec("data", np.dtype("f8"), (), (LevelSpec("0"),))
    parts = [LoDTensor(np.arange(3.0) + n, lod) for n in range(100)]
    raw = written((spec_,), ({"data": part} for part in parts))
    found = batches_of(raw)
    assert len(found) == 1
    assert same(LoDTensor.concatenate(parts), joined(found, "data"))
    sizes = [item.nbytes for batch in batches_of(raw, 480) for item in batch.values()]  # type: ignore[union-attr]
    assert max(sizes) <= 480
    assert len(sizes) < 40


def test_nulls_of_small_batches_come_joined() -> None:
    whole = LoDTensor.from_lists(
        [[[1, None], None], [], None, [[3, 4]], [[None, 6]], [[7], None, [8, None]], [None]]
    )
    assert [mask is None for mask in whole.nulls.masks] == [False, False, False]
    schema = (
        replace(schema_of({"data": whole})[0], rows=None, levels=(LevelSpec("0"), LevelSpec("1"))),
    )
    raw = written(schema, ({"data": whole[n : n + 1]} for n in range(7)))
    found = batches_of(raw)
    assert len(found) == 1
    assert whole.identical(joined(found, "data"))
    assert whole.identical(joined(batches_of(raw, 40), "data"))


def test_large_batches_come_cut_between_items() -> None:
    tensor = LoDTensor(np.arange(15.0), articles())
    found = batches_of(stream_of({"data": tensor}), 1)
    lengths = [batch["data"].recursive_sequence_lengths() for batch in found]  # type: ignore[union-attr]
    assert lengths == [[[3], [3, 2, 4]], [[1], [1]], [[2], [2, 3]]]


def test_a_cut_batch_is_made_of_views() -> None:
    data = np.arange(8.0)
    items = {"data": LoDTensor(data)}
    parts = list(regrouped(schema_of(items), items, 24))
    assert [part["data"].data.tolist() for part in parts] == [[0, 1, 2], [3, 4, 5], [6, 7]]  # type: ignore[union-attr]
    assert all(np.shares_memory(part["data"].data, data) for part in parts)  # type: ignore[union-attr]


def test_rows_larger_than_a_frame_come_back() -> None:
    wide = LoDTensor(np.arange(2 * 3_000_000, dtype=np.int64).reshape(2, -1), [[1, 0, 1]])
    assert same(wide, read(stream_of({"data": wide}))["data"])
    strided = LoDTensor(wide.data[:, ::2], wide.lod)
    assert same(strided, read(stream_of({"data": strided}))["data"])


def test_a_tensor_that_never_comes_is_written_as_empty() -> None:
    schema = schema_of({"a": LoDTensor(np.zeros((0, 2))), "b": LoDTensor(np.zeros(0), [[]])})
    found = read(written(schema, []))
    assert [found["a"].data.shape, found["b"].data.shape] == [(0, 2), (0,)]


def test_the_index_alone_can_be_read_and_a_file_twice(tmp_path: Any) -> None:
    tensor = LoDTensor(np.arange(15.0), articles())
    path = tmp_path / "a.lods"
    path.write_bytes(stream_of({"data": tensor}))
    with Input(path) as source:
        opened = LodStream().open(source, ReadOptions())
        assert opened.read_index("data") == tensor.lod
        assert same(tensor, opened.read()["data"])


def test_a_pipe_can_be_read_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.write(writing, spec.example().encode())
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        with Input("-") as source:
            opened = LodStream().open(source, ReadOptions())
            assert opened.schema[0].rows == 3
            assert opened.read()["data"].data.tobytes() == b"abc"
            with pytest.raises(UnsupportedError, match=r"standard input: .*only once"):
                list(opened.batches())


# -- what does not come back -------------------------------------------------------


SMALL = {
    "example": spec.example,
    "two tensors": spec.two_tensors,
    "array": spec.array,
}


@pytest.mark.parametrize("name", SMALL)
def test_a_stream_cut_anywhere_is_an_error(name: str) -> None:
    raw = SMALL[name]().encode()
    read(raw)
    for size in range(len(raw)):
        with pytest.raises(LodError, match=r"cut off in .*: expected \d+ more bytes"):
            read(raw[:size])


@pytest.mark.parametrize("name", SMALL)
def test_every_changed_byte_is_an_error(name: str) -> None:
    raw = SMALL[name]().encode()
    for position in range(len(raw)):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(raw)
            damaged[position] ^= change
            with pytest.raises(LodError):
                read(bytes(damaged))


def test_a_cut_names_the_frame_and_what_is_missing() -> None:
    raw = spec.example().encode()
    end = raw.index(b"abc")
    with pytest.raises(DamagedFileError) as error:
        read(raw[: end + 1])
    assert str(error.value).endswith(
        ": cut off in frame 3 (rows of data): expected 2 more bytes; the producer may have died"
    )


def test_a_changed_byte_names_the_frame_and_the_remedy() -> None:
    raw = spec.example().encode()
    rows, header = raw.index(b"abc"), raw.index(b"{") - 1
    for place, found in ((rows, "frame 3 (rows of data): the checksum"), (header, "of its header")):
        with pytest.raises(DamagedFileError) as error:
            read(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        assert found in str(error.value)
        assert str(error.value).endswith("; the stream was altered; fetch or copy it again")


def test_the_last_batch_is_withheld_until_the_trailer_is_there(tmp_path: Any) -> None:
    raw = spec.example().encode()
    path = tmp_path / "a.lods"
    path.write_bytes(raw[:-1])
    with Input(path) as source:
        batches = LodStream().open(source, ReadOptions()).batches()
        with pytest.raises(DamagedFileError):
            next(batches)


def test_two_streams_in_a_row_are_an_error_that_says_so() -> None:
    raw = spec.example().encode()
    with pytest.raises(DamagedFileError, match=r"second stream.*lod concat"):
        read(raw + raw)
    with pytest.raises(DamagedFileError, match="data follows the trailer"):
        read(raw + b"\0")


@pytest.mark.parametrize(
    ("prefix", "kind", "message"),
    [
        (b"\x89LODS\r\n\x03", UnsupportedError, "version 3; this program reads versions 1 and 2"),
        (b"\x89LODS\n\x01{", DamagedFileError, "line ends were changed"),
        (b"\x89LODS\r\r\n\x01", DamagedFileError, "line ends were changed"),
        (b"\tLODS\r\n\x01", DamagedFileError, "highest bit"),
        (b"\xc2\x89LODS\r\n", DamagedFileError, "Latin-1"),
        (b"\xef\xbf\xbdLODS\r", DamagedFileError, "decoded as text"),
        (b"\x89HDF\r\n\x1a\n", NotThisFormatError, "is not a lod stream: begins with 89 48"),
        (b"", DamagedFileError, "cut off in its first bytes: expected 8 more bytes"),
    ],
)
def test_a_wrong_beginning_is_named(prefix: bytes, kind: type[LodError], message: str) -> None:
    raw = prefix + spec.example().encode()[8:] if prefix else b""
    with pytest.raises(kind, match=message):
        read(raw)
    assert LodStream().sniff(raw) == (b"LODS" in prefix)


# -- memory and pipes --------------------------------------------------------------

_READ_ONE = """
import resource, sys
from lodcli.formats.core.io import read_all
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_all(sys.argv[1])
except Exception as error:
    print(type(error).__name__, error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""

_HUGE = 2**50


def hostile() -> Iterator[tuple[str, bytes]]:
    head = spec.frame_header
    counted = spec.example()
    counted.frames = [
        (spec.HEADER, 0, spec.header([spec.level()], [spec.tensor()])),
        (spec.BATCH, 0, spec.int64s([0, _HUGE, _HUGE])),
    ]
    yield "cut off", counted.encode()[: -len(counted.trailer_payload()) - 24]
    plain = spec.Stream(
        [
            (spec.HEADER, 0, spec.header([], [spec.tensor(levels=[])])),
            (spec.BATCH, 0, spec.int64s([0, _HUGE])),
        ]
    )
    start = plain.encode()[: -len(plain.trailer_payload()) - 24]
    yield "cut off", start + head(spec.ROWS, 0, b"", 256 << 20)
    yield "at most 268435456", start + head(spec.ROWS, 0, b"", _HUGE)
    yield "cut off", spec.PREFIX + head(spec.HEADER, 0, b"", 16 << 20)
    yield "at most 16777216", spec.PREFIX + head(spec.HEADER, 0, b"", 17 << 20)
    for payload in (b"[" * (1 << 18), b"[" * (16 << 20), b"[[]" + b",[]" * (5 << 20) + b"]"):
        yield "header", spec.PREFIX + head(spec.HEADER, 0, payload) + payload


@pytest.mark.slow
def test_huge_claims_take_little_memory(tmp_path: Any) -> None:
    for number, (message, raw) in enumerate(hostile()):
        path = tmp_path / f"{number}.lods"
        path.write_bytes(raw)
        told, grown = python(_READ_ONE, path, check=True).stdout.splitlines()
        assert told.startswith("DamagedFileError"), told
        assert message in told
        assert int(grown) < 60, (told, grown)  # MiB; a 16 MiB header is read and decoded


def test_batches_stream_through_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    lod = LoD.from_lengths([[100] * 100])
    batch = LoDTensor(np.arange(10_000 * 64, dtype=np.float32).reshape(-1, 64), lod)
    schema = (TensorSpec("data", batch.dtype, (64,), (LevelSpec("0"),)),)

    def produce() -> None:
        with os.fdopen(writing, "w") as pipe:
            monkeypatch.setattr(sys, "stdout", pipe)
            with Output("-") as output:
                LodStream().write(
                    output, schema, ({"data": batch} for _ in range(20)), WriteOptions()
                )

    producer = threading.Thread(target=produce)
    producer.start()
    with os.fdopen(reading, "rb") as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        with Input("-") as source:
            count = 0
            for part in LodStream().open(source, ReadOptions()).batches():
                tensor = part["data"]
                whole = tensor.data.reshape(-1, *batch.data.shape)
                assert (whole == batch.data).all()
                count += len(whole)
    producer.join()
    assert count == 20
