"""arrow, arrow-stream, parquet: files that are cut, altered or of another kind."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lodcli
from lodcli.formats.arrow.sizes.parquet_pages import _pages
from lodcli.formats.arrow.sizes.thrift import ThriftError
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError, TooLargeError
from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import content, pipe
from tests.formats.cases.processes import python
from tests.hanging import HANG_SECONDS
from tests.reliability.mutators import thrift

ROOT = Path(__file__).parents[3]
NAMES = {".arrow": "arrow", ".arrows": "arrow-stream", ".parquet": "parquet"}
SUFFIXES = pytest.mark.parametrize("suffix", NAMES)


def good(folder: Path, suffix: str) -> bytes:
    lod = LoD.from_lengths([[2, 0, 1], [3, 1, 2]], ["a", "b"])
    path = folder / f"good{suffix}"
    io.write(path, {"x": LoDTensor(np.arange(6.0), lod), "y": LoDTensor(np.arange(3) == 1)})
    return path.read_bytes()


@SUFFIXES
def test_a_file_cut_anywhere_is_refused(suffix: str, tmp_path: Path) -> None:
    whole, path = good(tmp_path, suffix), tmp_path / f"cut{suffix}"
    for size in range(1, len(whole)):
        path.write_bytes(whole[:size])
        if _ends_between_messages(path, suffix):
            continue
        with pytest.raises(InvalidDataError) as caught:
            io.read_all(path, format_name=NAMES[suffix])
        assert str(caught.value).startswith(f"{path}: ")
        assert "\n" not in str(caught.value)
        assert str(caught.value).endswith("; fetch or copy it again")


def _ends_between_messages(path: Path, suffix: str) -> bool:
    """Return whether a stream is read with a note, because it only lacks the end mark."""
    if suffix != ".arrows":
        return False
    try:
        with lodcli.open(path, format_name="arrow-stream") as source:
            source.read()
    except InvalidDataError:
        return False
    assert "without an end mark" in source.notes[0]
    return True


@pytest.mark.parametrize("seekable", [True, False])
def test_data_after_the_end_mark_of_a_stream_is_refused(seekable: bool, tmp_path: Path) -> None:
    whole = good(tmp_path, ".arrows")
    old = whole[:-8] + bytes(4)  # the end mark before Arrow 0.15
    for joined, said in (
        (whole + whole, "a second stream follows the first; `cat` cannot join streams"),
        (whole + b"x", r"data follows its end mark \(78 \.\.\)"),
        (old + whole, "a second stream follows the first"),
    ):
        if seekable:
            (tmp_path / "t.arrows").write_bytes(joined)
            with pytest.raises(DamagedFileError, match=f"t.arrows: {said}"):
                content(tmp_path / "t.arrows")
        else:
            with (
                pipe(tmp_path, ".arrows", joined) as path,
                pytest.raises(DamagedFileError, match=f"pipe.arrows: {said}"),
            ):
                content(path)


def test_a_stream_without_its_end_mark_is_read_with_a_note(tmp_path: Path) -> None:
    whole = good(tmp_path, ".arrows")
    (tmp_path / "t.arrows").write_bytes(whole[:-8])
    with lodcli.open(tmp_path / "t.arrows") as source:
        found = source.read()
    assert found.keys() == {"x", "y"}
    assert ["without an end mark" in note for note in source.notes] == [True]
    with pipe(tmp_path, ".arrows", whole[:-8]) as path, lodcli.open(path) as source:
        assert source.read().keys() == {"x", "y"}
        assert ["without an end mark" in note for note in source.notes] == [True]
    with pipe(tmp_path, ".arrows", whole) as path, lodcli.open(path) as source:
        source.read()
        assert list(source.notes) == []
    with (
        pipe(tmp_path, ".arrows", whole[:-4]) as path,
        pytest.raises(DamagedFileError, match="truncated where a message begins"),
    ):
        content(path)


# Each changed file in turn: read, or refused with an error of ours. A crash ends it all.
ALTERED = r"""
import random, sys
from lodcli.formats.core import io
from lodcli.kernels.errors import LodError
path, name, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
whole = open(path, "rb").read()
random.seed(5)
refused = 0
for _ in range(rounds):
    data = bytearray(whole)
    for _ in range(random.choice((1, 1, 3))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    open(path, "wb").write(data)
    try:
        io.read_all(path, format_name=name)
    except LodError as error:
        assert str(error).startswith(path), error
        refused += 1
print(refused)
"""


@SUFFIXES
def test_altered_files_are_read_or_refused(suffix: str, tmp_path: Path) -> None:
    good(tmp_path, suffix)
    path = tmp_path / f"good{suffix}"
    done = python(ALTERED, path, NAMES[suffix], 400, cwd=ROOT, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100


def array_of(kind: Any, length: int, *buffers: Any, children: Any = ()) -> Any:
    held = [None if one is None else pa.py_buffer(one) for one in buffers]
    return pa.Array.from_buffers(kind, length, held, children=list(children))


def i32(*values: int) -> bytes:
    return np.array(values, np.int32).tobytes()


ITEMS = pa.array([1, 2, 3])
LISTS = pa.list_(pa.int64())
BAD_ARRAYS: list[tuple[str, Callable[[], Any]]] = [
    ("offsets decrease", lambda: array_of(LISTS, 2, None, i32(0, 2, 1), children=[ITEMS])),
    ("offsets go far and back", lambda: array_of(LISTS, 2, None, i32(0, 9, 3), children=[ITEMS])),
    ("text offsets decrease", lambda: array_of(pa.string(), 2, None, i32(0, 2, 1), b"abc")),
    ("text is not UTF-8", lambda: array_of(pa.string(), 1, None, i32(0, 3), b"a\xff\xfe")),
    (
        "text in a dictionary is not UTF-8",
        lambda: pa.DictionaryArray.from_arrays(
            pa.array([0], pa.int8()), array_of(pa.string(), 1, None, i32(0, 1), b"\xff")
        ),
    ),
    (
        "a dictionary index goes too far",
        lambda: pa.DictionaryArray.from_arrays(pa.array([5], pa.int8()), ["a"], safe=False),
    ),
    (
        "a dictionary index is negative",
        lambda: pa.DictionaryArray.from_arrays(pa.array([-1], pa.int8()), ["a"], safe=False),
    ),
    (
        "a view goes too far",
        lambda: array_of(pa.list_view(pa.int64()), 1, None, i32(2), i32(5), children=[ITEMS]),
    ),
    (
        "a view is negative",
        lambda: array_of(pa.list_view(pa.int64()), 1, None, i32(-2), i32(1), children=[ITEMS]),
    ),
    (
        "a view has a negative size",
        lambda: array_of(pa.list_view(pa.int64()), 1, None, i32(1), i32(-1), children=[ITEMS]),
    ),
    (
        "an inner list decreases",
        lambda: pa.LargeListArray.from_arrays(
            [0, 2], array_of(LISTS, 2, None, i32(0, 3, 1), children=[ITEMS])
        ),
    ),
]


@pytest.mark.parametrize(("what", "make"), BAD_ARRAYS, ids=[what for what, _ in BAD_ARRAYS])
@pytest.mark.parametrize("suffix", [".arrow", ".arrows"])
def test_an_array_that_contradicts_itself_is_refused(
    suffix: str, what: str, make: Callable[[], Any], tmp_path: Path
) -> None:
    path, array = tmp_path / f"t{suffix}", make()
    batch = pa.RecordBatch.from_arrays([array], ["x"])
    making = pa.ipc.new_file if suffix == ".arrow" else pa.ipc.new_stream
    with making(str(path), batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(InvalidDataError):
        content(path)


@pytest.mark.parametrize(
    ("name", "data", "error", "message"),
    [
        ("t.arrow", b"FEA1" + bytes(60), UnsupportedError, "is Feather version 1"),
        (
            "t.parquet",
            b"PARX" + bytes(60),
            NotThisFormatError,
            "has the extension of parquet but does",
        ),
        ("t.arrow", b"hello", NotThisFormatError, "has the extension of arrow but does not begin"),
        ("t.parquet", b"PAR1" + bytes(60), DamagedFileError, "is damaged"),
        ("t.parquet", b"PAR1", DamagedFileError, "is damaged"),
        ("t.arrow", b"ARROW1\0\0" + bytes(20) + b"ARROW1", DamagedFileError, "is damaged"),
        ("t.arrows", b"\xff\xff\xff\xff\x08\0\0\0" + bytes(8), DamagedFileError, "is damaged"),
        ("t.arrows", b"\xff\xff\xff\xff\xf8\xff\xff\x01" + bytes(8), DamagedFileError, "damaged"),
    ],
)
def test_damaged_files_and_those_of_other_formats_are_errors(
    name: str, data: bytes, error: type[LodError], message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(error, match=message):
        content(tmp_path / name)


def test_a_body_that_claims_too_much_is_refused(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1, 2, 3])], ["x"])
    with pa.ipc.new_stream(str(tmp_path / "t.arrows"), batch.schema) as writer:
        writer.write_batch(batch)
    data = bytearray((tmp_path / "t.arrows").read_bytes())
    length = (3).to_bytes(8, "little")
    places = [n for n in range(len(data)) if data[n : n + 8] == length]
    assert places
    random.seed(1)
    for place in places:
        for claim in (2**40, 2**62, 2**63 - 1, 2**64 - 1):
            data[place : place + 8] = claim.to_bytes(8, "little")
            (tmp_path / "t.arrows").write_bytes(data)
            try:
                found = content(tmp_path / "t.arrows")
                assert found["x"].rows <= 3
            except LodError:
                pass
        data[place : place + 8] = length


def _parquet(folder: Path, change: Callable[[Any], None]) -> Path:
    """Return a Parquet file of which the parsed footer was changed."""
    path = folder / "t.parquet"
    pq.write_table(pa.table({"s": ["a", "b"], "x": [1, None]}), path)
    raw = path.read_bytes()
    start, root = thrift._footer(raw)
    change(root)
    footer = thrift._put(root)
    path.write_bytes(raw[:start] + footer + len(footer).to_bytes(4, "little") + raw[-4:])
    return path


def _chunk(root: Any, column: int) -> Any:
    """Return the metadata of a column of the first row group."""
    group = thrift._field(root, 4)[1][0]
    chunk = thrift._field(group, 1)[1][column]
    return next(node for number, node in chunk.value if number == 3)


def test_a_column_of_another_type_than_the_schema_is_refused(tmp_path: Path) -> None:
    def change(root: Any) -> None:
        for number, node in _chunk(root, 1).value:
            if number == 1:
                node.value = 99

    # pyarrow ends the process when it is asked for the statistics of such a column.
    with pytest.raises(DamagedFileError, match="type does not match"):
        content(_parquet(tmp_path, change))


def test_a_page_that_ends_behind_the_file_is_refused(tmp_path: Path) -> None:
    path = _parquet(tmp_path, lambda root: None)
    raw = path.read_bytes()
    reader = thrift._Reader(raw, 4)
    header = reader.struct()
    for number, node in header.value:
        if number == 3:
            node.value = 1 << 30  # which pyarrow allocates before it reads
    path.write_bytes(raw[:4] + thrift._put(header) + raw[reader.at :])
    with pytest.raises(DamagedFileError, match="page of 1073741824 bytes"):
        content(path)


def test_offsets_of_more_values_than_the_limit_are_refused(tmp_path: Path) -> None:
    path = _parquet(tmp_path, lambda root: None)
    raw = path.read_bytes()
    reader = thrift._Reader(raw, 4)
    header = reader.struct()
    dictionary = next(node for number, node in header.value if number == 7)
    dictionary.value = [(1, thrift.Node(thrift.I32, 1 << 30)), *dictionary.value[1:]]
    path.write_bytes(raw[:4] + thrift._put(header) + raw[reader.at :])
    with pytest.raises(TooLargeError, match="column s has offsets of 17179869200 bytes"):
        io.read_all(path)


def test_a_footer_that_repeats_a_message_is_refused(tmp_path: Path) -> None:
    # Each time a dictionary that adds words comes, memory grows.
    path = tmp_path / "t.arrow"
    words = [pa.array(["a"]), pa.array(["a", *map(str, range(1000))])]
    batches = [
        pa.RecordBatch.from_arrays([pa.DictionaryArray.from_arrays(pa.array([0]), one)], ["d"])
        for one in words
    ]
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_file(str(path), batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    raw = path.read_bytes()
    size = int.from_bytes(raw[-10:-6], "little")
    footer = bytearray(raw[-10 - size : -10])
    at = int.from_bytes(footer[:4], "little")
    table = at - int.from_bytes(footer[at : at + 4], "little", signed=True)
    field = at + int.from_bytes(footer[table + 8 : table + 10], "little")
    vector = field + int.from_bytes(footer[field : field + 4], "little")
    assert footer[vector] == 2
    blocks = footer[vector + 4 : vector + 52]
    footer += bytes(-len(footer) % 8 + 4)
    footer[field : field + 4] = (len(footer) - field).to_bytes(4, "little")
    footer += (9).to_bytes(4, "little") + blocks + 7 * blocks[24:]
    path.write_bytes(raw[: -10 - size] + footer + len(footer).to_bytes(4, "little") + raw[-6:])
    with pytest.raises(DamagedFileError, match="refers to the same bytes repeatedly"):
        content(path)


@pytest.mark.slow
def test_a_file_much_larger_than_the_limit_takes_little_memory(tmp_path: Path) -> None:
    # One batch of 200 MB; what is asked for is bounded, and pages of the file are let go.
    lengths = np.full(200_000, 125)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    array = pa.LargeListArray.from_arrays(offsets, np.zeros(int(offsets[-1])))
    for suffix in (".arrow", ".parquet"):
        path = tmp_path / f"t{suffix}"
        table = pa.table({"x": array})
        if suffix == ".parquet":
            pq.write_table(table, path, use_dictionary=False)
        else:
            with pa.ipc.new_file(str(path), table.schema) as writer:
                writer.write_table(table)
        code = (
            "import sys, re\n"
            "from lodcli.formats.core import io\n"
            "import lodcli.formats.arrow.writer, lodcli.formats.container.writing.writer\n"
            "def most():\n"
            "    return int(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])\n"
            "before = most()\n"
            "with lodcli.open(sys.argv[1]) as s:\n"
            "    io.write_batches(sys.argv[2], s.schema, s.batches(4 << 20))\n"
            "print(most() - before >> 10)\n"
        )
        done = python(code, path, tmp_path / f"o{suffix}.lod.h5", cwd=ROOT, check=True)
        assert int(done.stdout) < 120, suffix


def test_pages_of_fewer_values_than_the_footer_states_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1, 2, 3]}), path, use_dictionary=False)
    start = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    with pytest.raises(ThriftError, match="expected pages of 50 values, found 3 and no page"):
        list(_pages(path.read_bytes(), {5: 50, 9: start}))
