"""Every MUST of docs/stream.md, with a stream that breaks it and the error expected."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core.errors import DamagedFileError
from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases import stream_spec as spec
from tests.formats.cases.stream_spec import (
    BATCH,
    FAILED,
    HEADER,
    OFFSETS,
    PREFIX,
    ROWS,
    TRAILER,
    VALID,
    Stream,
    array,
    example,
    frame_header,
    header,
    int64s,
    level,
    tensor,
    two_tensors,
)
from tests.formats.cases.streams import read, same, stream_of

PAGE = Path(__file__).parents[3] / "docs" / "stream.md"
RULES: list[tuple[str, str, Callable[[], bytes]]] = []


def breaks(rule: str, message: str) -> Callable[[Callable[[], bytes]], Callable[[], bytes]]:
    """Note a function that makes a stream which breaks this rule."""

    def note(make: Callable[[], bytes]) -> Callable[[], bytes]:
        RULES.append((rule, message, make))
        return make

    return note


def changed(
    stream: Stream, number: int, payload: bytes | None = None, part: int | None = None
) -> bytes:
    """Return the stream with another payload or part in one frame."""
    kind, old_part, old = stream.frames[number]
    frame = (kind, old_part if part is None else part, old if payload is None else payload)
    stream.frames[number] = frame
    return stream.encode()


def with_header(payload: bytes) -> bytes:
    return changed(example(), 0, payload)


def with_tensor(**changes: object) -> bytes:
    return with_header(header([level()], [tensor(**changes)]))


def raw_frame(at: int, replace: dict[int, int], *, fix: bool) -> bytes:
    """Return the example with bytes of one frame header changed, its checksum mended or not."""
    raw = bytearray(example().encode())
    start = 8 + sum(24 + len(payload) for _, _, payload in example().frames[:at])
    for offset, value in replace.items():
        raw[start + offset] = value
    if fix:
        crc = spec.crc32c(bytes(raw[start : start + 20]))
        raw[start + 20 : start + 24] = crc.to_bytes(4, "little")
    return bytes(raw)


# -- 1. frames

breaks("S1", "is not a lod stream")(lambda: b"\0" + example().encode()[1:])
breaks("S2", "frame 2: expected kind 1 to 6")(lambda: raw_frame(2, {0: 7}, fix=True))
breaks("S2", "frame 2: expected kind 1 to 6")(lambda: raw_frame(2, {2: 1}, fix=True))
breaks("S3", "frame 2: the checksum of its header")(lambda: raw_frame(2, {4: 1}, fix=False))
breaks("S3", r"frame 3 \(rows of data\): the checksum")(
    lambda: example().encode().replace(b"abc", b"abd")
)
breaks("S4", "at most 268435456 are allowed")(lambda: raw_frame(3, {12: 1}, fix=True))
breaks("S4", "at most 16777216 are allowed")(lambda: raw_frame(0, {11: 2}, fix=True))


@breaks("S5", "expected the header")
def _no_header() -> bytes:
    stream = example()
    del stream.frames[0]
    return stream.encode()


@breaks("S5", r"frame 1 \(header\): expected batch 0 or the trailer")
def _two_headers() -> bytes:
    stream = example()
    stream.frames.insert(1, stream.frames[0])
    return stream.encode()


@breaks("S5", "cut off in the header of frame 4: expected 24 more bytes")
def _no_trailer() -> bytes:
    return example().encode()[: -24 - len(example().trailer_payload())]


breaks("S5", "data follows the trailer")(lambda: example().encode() + b"\n")
breaks("S5", "a second stream follows")(lambda: example().encode() + two_tensors().encode())


# -- 2. header

for _message, _change in {
    "expected the members format, version, levels, tensors": (b'"format"', b'"farmat"'),
    "format: expected 'lod-stream'": (b"lod-stream", b"lad-stream"),
    "version: expected 1": (b'"version":1', b'"version":2'),
    "a key appears twice": (b'"levels":[{', b'"version":1,"levels":[{'),
    "canonical": (b'"version":1', b'"version": 1'),
    "is not JSON": (b'{"format"', b'["format"'),
    "level 0: expected the members name, items": (b'"items":2', b'"items":2,"more":2'),
    "data: rows: expected a count or null": (b'"rows":3', b'"rows":3.0'),
}.items():
    breaks("S6", _message)(
        lambda change=_change: with_header(example().frames[0][2].replace(*change))  # type: ignore[misc]
    )
breaks("S6", "canonical")(
    lambda: with_header(example().frames[0][2].replace(b'"data"', b'"d\\u0061ta"'))
)
breaks("S6", "canonical")(
    lambda: with_header(
        example().frames[0][2].replace(b'"version":1,', b"")[:-1] + b',"version":1}'
    )
)
breaks("S6", "is not JSON")(
    lambda: with_header(example().frames[0][2].replace(b"data", b"dat\xff"))
)
breaks("S6", "is not JSON")(lambda: with_header(b"[" * 100_000))

breaks("S7", "more than 262144 lists")(lambda: with_header(b"[" * (2**18 + 1)))
breaks("S7", "tensors: expected at least one")(lambda: with_header(header([], [])))
breaks("S7", "at most 255 levels")(
    lambda: with_header(header([level()] * 256, [tensor(levels=list(range(256)))]))
)
breaks("S7", "at most 63 axes")(lambda: with_tensor(row_shape=[1] * 64))

for _name in ("", "a/b", "a::b", "x" * 256, "a\nb", "\x80"):
    breaks("S8", "cannot name a tensor")(lambda name=_name: with_tensor(name=name))  # type: ignore[misc]
breaks("S8", "name: expected text")(lambda: with_tensor(name=None))
breaks("S8", "tensors: expected names that differ")(
    lambda: with_header(header([], [tensor(levels=[]), tensor(levels=[])]))
)
for _level_name in ("1", "", "a/b", 7):
    breaks("S8", "level 0: name: expected a level name or null")(
        lambda name=_level_name: with_header(header([level(name)], [tensor()]))  # type: ignore[misc]
    )

for _dtype in ("float128", "object", "<f4", "str", None, ["uint8"]):
    breaks("S9", "data: dtype")(lambda dtype=_dtype: with_tensor(dtype=dtype))  # type: ignore[misc]
for _shape in ([-1], [True], [1.0], ["1"], 3, [2**63], [2**31, 2**32], [0, 2**62, 2]):
    breaks("S9", "data: row_shape")(lambda shape=_shape: with_tensor(row_shape=shape))  # type: ignore[misc]

breaks("S10", "levels: expected levels of the table")(lambda: with_tensor(levels=[1]))
breaks("S10", "levels: expected levels of the table")(lambda: with_tensor(levels=[-1]))
breaks("S10", "expected the 1 in use, found 2")(
    lambda: with_header(header([level(), level()], [tensor()]))
)
breaks("S10", "numbered by first use")(
    lambda: with_header(header([level(), level()], [tensor(levels=[1, 0])]))
)
breaks("S10", "each level under one level")(
    lambda: with_header(
        header([level(), level()], [tensor(levels=[0, 1]), tensor(name="b", levels=[1])])
    )
)
breaks("S10", "each level under one level")(
    lambda: with_header(
        header([level(), level()], [tensor(), tensor(name="b", array={"outer": [1]})])
    )
)
breaks("S10", "each level under one level")(lambda: with_tensor(levels=[0, 0]))

breaks("S11", "levels of the steps and outer levels")(lambda: with_tensor(array={"outer": []}))
breaks("S11", "array: expected the members outer")(lambda: with_tensor(array={}))

breaks("S12", "rows of data: the header announces 4, found 3")(
    lambda: with_header(header([level()], [tensor(rows=4)]))
)
breaks("S12", "items of level 0: the header announces 1, found 2")(
    lambda: with_header(header([level(items=1)], [tensor()]))
)


def with_marks(marks: object, version: int = 2, **changes: object) -> bytes:
    """Return a stream of version 2 whose tensor has these marks."""
    levels = [level()] if changes.get("levels") != [] else []
    payload = header(levels, [tensor(**changes, marks=marks)], version=version)
    return spec.PREFIX[:-1] + b"\x02" + changed(example(), 0, payload)[8:]


breaks("S21", "version: expected 2, found 1")(lambda: with_marks({}, version=1))
breaks("S21", "version: expected 1, found 2")(
    lambda: spec.PREFIX + with_marks({"values": "text"})[8:]
)
breaks("S21", "tensor 0: expected the members name, .*, marks")(
    lambda: spec.PREFIX[:-1] + b"\x02" + with_header(header([level()], [tensor()], version=2))[8:]
)
breaks("S21", "expected the members name, dtype, row_shape, levels, rows, array, found")(
    lambda: with_tensor(marks={})
)
breaks("S21", "no mark 'colour' is known")(lambda: with_marks({"colour": "blue"}))
breaks("S21", "no mark of values 'html' is known")(lambda: with_marks({"values": "html"}))
breaks("S21", "canonical")(
    lambda: with_marks({"nulls": True, "attributes": {"unit": "m"}}, dtype="int8")
)
breaks("S21", "marks: expected an object")(lambda: with_marks(None))
breaks("S22", "marks: text is uint8")(lambda: with_marks({"values": "text"}, dtype="int8"))
breaks("S22", "marks: bytes is uint8")(lambda: with_marks({"values": "bytes"}, row_shape=[2]))
breaks("S22", "0 levels")(lambda: with_marks({"values": "text"}, levels=[]))
breaks("S22", "data: item <1>: is not UTF-8")(lambda: _text_of(b"ab\xff"))


def _text_of(rows: bytes) -> bytes:
    stream = example()
    stream.frames[0] = (
        *(HEADER, 0),
        header([level(items=2)], [tensor(rows=3, marks={"values": "text"})], version=2),
    )
    return spec.PREFIX[:-1] + b"\x02" + changed(stream, 3, rows)[8:]


breaks("S23", "data: nulls: expected true, found 1")(lambda: with_marks({"nulls": 1}))
breaks("S23", "marks: a TensorArray has no marks")(lambda: _nulls_of_an_array())


def _nulls_of_an_array() -> bytes:
    stream = array()
    entry = tensor(name="steps", levels=[0], array={"outer": [1]}, marks={"nulls": True})
    stream.frames[0] = (HEADER, 0, header([level("step"), level()], [entry], version=2))
    return spec.PREFIX[:-1] + b"\x02" + stream.encode()[8:]


def with_masks(*masks: tuple[int, bytes], rows: bytes = b"a\0c", nulls: bool = True) -> bytes:
    """Return a stream whose tensor, of lengths 2, 1 and 0, has these masks by part."""
    marks = {"nulls": True} if nulls else {}
    stream = spec.Stream(
        frames=[
            (HEADER, 0, header([level(items=3)], [tensor(rows=3, marks=marks)], version=2)),
            (BATCH, 0, int64s([0, 3, 3])),
            (OFFSETS, 0, int64s([2, 3, 3])),
            (ROWS, 0, rows),
            *((VALID, part, payload) for part, payload in masks),
        ],
        levels=[3],
        tensors=[3],
    )
    return spec.PREFIX[:-1] + b"\x02" + stream.encode()[8:]


breaks("S23", "part 1: no such mask was announced")(lambda: with_masks((1, b"\5"), nulls=False))
breaks("S24", "part 2: no such mask was announced")(lambda: with_masks((2, b"\5")))
breaks("S24", "part 257: no such mask was announced")(lambda: with_masks((257, b"\5")))
breaks("S24", "part 0: expected after 1")(lambda: with_masks((1, b"\5"), (0, b"\3")))
breaks("S24", "part 1: expected after 1")(lambda: with_masks((1, b"\5"), (1, b"\5")))
breaks("S24", "has 2 bytes; expected 1 to 1")(lambda: with_masks((1, b"\5\0")))
breaks("S24", "has 0 bytes; expected 1 to 1")(lambda: with_masks((1, b"")))
breaks("S24", "masks nothing, or more than 3 items")(lambda: with_masks((1, b"\7")))
breaks("S24", "masks nothing, or more than 3 items")(lambda: with_masks((1, b"\x0d")))
breaks("S25", "data: nulls: item 1 of level 0 is null and is not empty")(
    lambda: with_masks((0, b"\5"))
)
breaks("S25", "data: a row is null and not zero")(lambda: with_masks((1, b"\5"), rows=b"abc"))


breaks("S26", r"marks: timestamp\[us\] is int64, found uint8")(
    lambda: with_marks({"values": "timestamp", "unit": "us"})
)
breaks("S26", r"marks: expected \['unit', 'zone'\], found")(
    lambda: with_marks({"values": "timestamp"}, dtype="int64")
)
breaks("S26", "expected 32, 64, 128, 256 bits, found 7")(
    lambda: with_marks({"values": "decimal", "precision": 3, "scale": 1, "bits": 7}, dtype="int64")
)


def in_records(*paths: list[dict[str, object]]) -> bytes:
    """Return a stream whose tensors, each with a separate level, have these fields."""
    tensors = [
        tensor(name=f"t{number}", levels=[number], marks={"fields": path})
        for number, path in enumerate(paths)
    ]
    payload = header([level() for _ in paths], tensors, version=2)
    return spec.PREFIX[:-1] + b"\x02" + changed(example(), 0, payload)[8:]


_S, _X, _Y = {"name": "s", "level": 0}, {"name": "x", "level": 0}, {"name": "y", "level": 1}

breaks("S27", "fields: expected a list of 1 to 64, found 7")(lambda: with_marks({"fields": 7}))
breaks("S27", "the column begins at level 0")(lambda: with_marks({"fields": [_Y]}))
breaks("S27", r"field s\[\]\[\].y begins below")(
    lambda: with_marks({"fields": [_S, {"name": "y", "level": 2}]})
)
breaks("S27", "fields: t0 and t1 are the same column or field, x")(
    lambda: in_records([_S, _X], [_S, _X])
)
breaks("S27", "fields: t0 and t1 do not agree on the levels of s")(
    lambda: in_records([_S, _X], [_S, _Y])
)
breaks("S27", "t0 and t1 are fields of s and do not share the 1 levels above it")(
    lambda: in_records([_S, {"name": "x", "level": 1}], [_S, _Y])
)

breaks("S27", r"s\[\].x marks which records are null: expected one boolean each, found uint8")(
    lambda: with_marks({"fields": [_S, {"name": "x", "level": 1, "present": True}]})
)


breaks("S28", "attributes: expected an object whose keys are text")(
    lambda: with_marks({"attributes": 7})
)
breaks("S28", "attributes: expected at least one")(lambda: with_marks({"attributes": {}}))


def of_file(attributes: object, version: int = 2) -> bytes:
    """Return a stream with attributes of the file."""
    marks: dict[str, object] = {"marks": {}} if version == 2 else {}
    payload = header([level()], [tensor(**marks)], version=version, attributes=attributes)
    return spec.PREFIX[:-1] + bytes([version]) + changed(example(), 0, payload)[8:]


breaks("S31", "header: attributes: expected an object whose keys are text")(lambda: of_file([1]))
breaks("S31", "header: attributes: expected at least one")(lambda: of_file({}))
breaks("S31", "header: attributes: 262154 bytes of JSON, at most 262144")(
    lambda: of_file({"text": "x" * (262154 - len('{"text":""}'))})
)
breaks("S31", "header: attributes: nest deeper than 256")(
    lambda: of_file(json.loads('{"a":' * 257 + "1" + "}" * 257))
)
breaks("S31", "version: expected 2, for attributes, found 1")(lambda: of_file({"a": 1}, 1))


def with_codes(**mark: object) -> bytes:
    """Return a stream whose tensor, of the codes 97, 98 and 99, has this mark of categories."""
    return with_marks({"values": "category", **mark})


breaks("S30", "marks: categories are codes, whole numbers; found float32")(
    lambda: with_marks({"values": "category", "words": ["a"]}, dtype="float32")
)
breaks("S30", "categories: expected a list of words, found None")(lambda: with_codes())
breaks("S30", "categories: expected a list of words, found 7")(lambda: with_codes(words=7))
breaks("S30", "categories: word 1: expected text, found int")(lambda: with_codes(words=["a", 7]))
breaks("S30", "categories: word 1 is the same as word 0: 'a'")(lambda: with_codes(words=["a", "a"]))
breaks("S30", "ordered is true, found False")(lambda: with_codes(words=["a"], ordered=False))
breaks("S30", "not written in canonical form")(
    lambda: with_marks({"values": "category", "ordered": True, "words": ["a"]})
)
breaks("S30", r"data: item <0,0>: expected the code of one of 1 words, found 97")(
    lambda: with_codes(words=["a"])
)


def test_masks_by_hand_are_read() -> None:
    found = read(with_masks((0, b"\3"), (1, b"\5")))["data"]
    assert found.to_list() == [[97, None], [99], None]


# -- 3. batches

breaks("S13", r"frame 1 \(counts of a batch\): expected batch 0")(
    lambda: changed(example(), 1, part=1)
)
for _counts, _message in (
    ([1, 3, 2], "expected a tensor after -1, found 1"),
    ([-1, 3, 2], "expected a tensor after -1, found -1"),
    ([0, -3, 2], "the counts of data are negative or missing"),
    ([0, 3, -2], "the counts of data are negative or missing"),
    ([0, 3], "the counts of data are negative or missing"),
):
    breaks("S13", _message)(lambda counts=_counts: changed(example(), 1, int64s(counts)))  # type: ignore[misc]
breaks("S13", "announces 48 bytes; at most 24")(
    lambda: changed(example(), 1, int64s([0, 3, 2, 0, 3, 2]))
)
breaks("S13", "found 0")(lambda: changed(two_tensors(), 1, int64s([0, 2, 1, 0, 2, 1])))
breaks("S13", "whole numbers of 8 bytes")(lambda: changed(example(), 1, int64s([0, 3]) + b"abc"))
# With the two rows of the batch before.
breaks("S13", f"{2**61 - 2} rows of y exceed any memory")(
    lambda: changed(two_tensors(), 5, int64s([0, 1, 2, 1, 2**61 - 2, 2]))
)

breaks("S14", "x, y must come together")(lambda: changed(two_tensors(), 1, int64s([0, 2, 1])))
breaks("S14", "level 0 has two different counts")(
    lambda: changed(two_tensors(), 1, int64s([0, 2, 1, 1, 2, 2]))
)


@breaks("S15", "data is in the header, but not in the stream")
def _no_batch() -> bytes:
    stream = example()
    stream.frames, stream.levels, stream.tensors = stream.frames[:1], [0], [0]
    return stream.encode()


@breaks("S15", "is a TensorArray and appears twice")
def _array_twice() -> bytes:
    stream = array()
    stream.frames += [(BATCH, 1, int64s([0, 0, 0, 0]))]
    return stream.encode()


def reordered(stream: Stream, *order: int) -> bytes:
    stream.frames = [stream.frames[number] for number in order]
    return stream.encode()


breaks("S16", "batch 0 is not complete: expected 16 more bytes of OFFSETS 0")(
    lambda: reordered(example(), 0, 1, 3, 2)
)
breaks("S16", "expected 3 more bytes of ROWS 0")(lambda: reordered(example(), 0, 1, 2))
breaks("S16", "expected 2 more bytes of ROWS 0")(
    lambda: reordered(two_tensors(), 0, 1, 2, 4, 3, 5, 6, 7, 8)
)
breaks("S16", "expected 16 more bytes of ORDER 0")(lambda: reordered(array(), 0, 1, 2, 3, 4))
breaks("S16", "expected batch 1")(lambda: reordered(example(), 0, 1, 2, 3, 2))
breaks("S16", "expected 16 more bytes of OFFSETS 0")(lambda: changed(example(), 2, part=1))
breaks("S16", "has 4 bytes; expected 1 to 3")(lambda: changed(example(), 3, b"abcd"))
breaks("S16", "has 0 bytes; expected 1 to 3")(lambda: changed(example(), 3, b""))

for _offsets, _message in (
    ([-1, 3], r"batch 0: data: level 0, position 1: .*expected at least 0, found -1"),
    ([4, 3], r"batch 0: data: level 0, position 2: .*expected at least 4, found 3"),
    ([2, 4], r"batch 0: data: level 0, position 2: .*expected 3, found 4"),
    ([2**63 - 1, 3], "offsets decrease"),
):
    breaks("S17", _message)(lambda values=_offsets: changed(example(), 2, int64s(values)))  # type: ignore[misc]
breaks("S17", r"batch 1: x: level 0, position 2: .*expected 1, found 3")(
    lambda: changed(two_tensors(), 6, int64s([2, 3]))
)


@breaks("S17", r"batch 0: data: level 0, position 1: .*items of level 1 \(expected 2, found 1\)")
def _broken_chain() -> bytes:
    entry = tensor(levels=[0, 1])
    batch = int64s([0, 3, 1, 2])
    frames = [(HEADER, 0, header([level(), level()], [entry])), (BATCH, 0, batch)]
    frames += [(OFFSETS, 0, int64s([1])), (OFFSETS, 1, int64s([2, 3])), (ROWS, 0, b"abc")]
    return Stream(frames, [1, 2], [3]).encode()


breaks("S18", "data: a boolean must be 0 or 1")(lambda: with_tensor(dtype="bool"))

breaks("S19", "order: sequence 1 comes 2 times")(lambda: changed(array(), 5, int64s([1, 1])))
breaks("S19", "no sequence 2, there are 2")(lambda: changed(array(), 5, int64s([1, 2])))
breaks("S19", "step 1 does not have the items")(lambda: changed(array(), 2, int64s([2, 3, 5, 6])))
breaks("S19", "describes 3 steps, the array has 4")(lambda: changed(array(), 3, int64s([3, 6])))
breaks("S19", "describes 1125899906842624 steps")(lambda: changed(array(), 3, int64s([0, 2**50])))

# -- 4. trailer

for _key, _value in {
    "batches": 2,
    "frames": 5,
    "headers_crc32c": 1,
    "levels": [3],
    "tensors": [4],
    "more": 0,
}.items():

    @breaks("S20", "canonical form" if _key == "more" else f"trailer: {_key}: it says")
    def _other_trailer(key: str = _key, value: object = _value) -> bytes:
        stream = example()
        stream.trailer = {key: value}
        return stream.encode()


@breaks("S20", "trailer: batches: it says")
def _no_json_object() -> bytes:
    stream = example()
    whole = stream.encode()[: -24 - len(stream.trailer_payload())]
    return whole + frame_header(TRAILER, 0, b"[]") + b"[]"


# -- 10. failure

breaks("S29", "ends early: the command that wrote it failed")(
    lambda: PREFIX + frame_header(FAILED, 0, b"")
)
breaks("S29", "ends early: the command that wrote it failed")(
    lambda: (
        (cut := example().encode())[: cut.index(frame_header(BATCH, 0, int64s([0, 3, 2])))]
        + frame_header(FAILED, 0, b"")
    )
)
breaks("S29", "expected kind 1 to 6, found ff")(lambda: PREFIX + frame_header(FAILED, 1, b""))
breaks("S29", "expected kind 1 to 6, found ff")(lambda: PREFIX + frame_header(FAILED, 0, b"x"))


# -- 13. shared memory; of streams in a pipe see test_shared_rows.py


@breaks("S32", "frame 3: expected kind 1 to 6, found 08 00 00 00")
def _shared_in_a_file() -> bytes:
    stream = example()
    stream.frames[3] = (8, 0, bytes(16))
    return stream.encode()


# -- the rules and the page --------------------------------------------------------


@pytest.mark.parametrize(("rule", "message", "make"), RULES, ids=[rule for rule, _, _ in RULES])
def test_a_stream_that_breaks_a_rule_is_refused(
    rule: str, message: str, make: Callable[[], bytes]
) -> None:
    with pytest.raises(LodError, match=message) as error:
        read(make())
    # A mark of a later version is no damage.
    assert isinstance(error.value, InvalidDataError | UnsupportedError)
    if rule not in ("S1", "S17", "S19", "S21", "S22", "S25", "S30"):
        assert isinstance(error.value, DamagedFileError)


def test_every_rule_of_the_page_is_broken_by_a_stream() -> None:
    numbers = re.findall(r"^\* \*\*(S\d+)\*\*", PAGE.read_text(), re.MULTILINE)
    assert numbers == [f"S{number}" for number in range(1, len(numbers) + 1)]
    assert {rule for rule, _, _ in RULES} == set(numbers)


def test_streams_made_from_the_page_are_read() -> None:
    found = read(example().encode())["data"]
    assert found.recursive_sequence_lengths() == [[2, 1]]
    assert found.data.tobytes() == b"abc"
    both = read(two_tensors().encode())
    y = both["y"]
    assert y.lod == LoD.from_lengths([[2, 0, 1]], ["word"])
    assert y.data.tolist() == [[256, 770], [1284, 1798], [2312, 2826]]
    steps = read(array().encode())["steps"]
    assert not isinstance(steps, LoDTensor)
    packed = steps.array.pack(0, steps.index_map)
    assert packed.recursive_sequence_lengths() == [[2, 4]]
    assert packed.data.tobytes() == b"xyabcd"


def test_frames_may_be_split_anywhere() -> None:
    stream = example()
    offsets = stream.frames[2][2]
    stream.frames[2:] = [
        (OFFSETS, 0, offsets[:3]),
        (OFFSETS, 0, offsets[3:]),
        *((ROWS, 0, bytes([byte])) for byte in b"abc"),
    ]
    assert same(read(stream.encode())["data"], read(example().encode())["data"])


def test_another_version_is_no_damage() -> None:
    raw = bytearray(example().encode())
    raw[7] = 3
    with pytest.raises(UnsupportedError, match="version 3"):
        read(bytes(raw))


def test_the_writer_writes_what_the_page_says() -> None:
    letters = LoDTensor(np.frombuffer(b"abc", np.uint8), [[2, 1]])
    assert stream_of({"data": letters}) == example().encode()


def dump(raw: bytes) -> str:
    """Return the bytes as `hexdump -C` shows them."""
    lines = []
    for start in range(0, len(raw), 16):
        part = raw[start : start + 16]
        left, right = part[:8].hex(" "), part[8:].hex(" ")
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {left:<23}  {right:<23}  |{shown}|")
    return "\n".join([*lines, f"{len(raw):08x}"]) + "\n"


def test_the_example_of_the_page_is_true() -> None:
    block = re.search(r"^```hexdump\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    assert block.group(1) == dump(example().encode())
