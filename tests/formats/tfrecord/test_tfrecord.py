"""TFRecord: bytes of TensorFlow, files of the tfrecord package, and unsupported content."""

from __future__ import annotations

import gzip
import io as pyio
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.formats.core import io, registry
from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.losses import losses
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import schema_of
from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Marks
from tests.formats.cases.processes import lod

# tf.train.Example, as TensorFlow's guide "TFRecord and tf.train.Example" prints it.
GUIDE = (
    b"\nR\n\x14\n\x08feature3\x12\x08\x12\x06\n\x04[\xd3|?\n\x14\n\x08feature2\x12\x08\n\x06\n\x04"
    b"goat\n\x11\n\x08feature1\x12\x05\x1a\x03\n\x01\x04\n\x11\n\x08feature0\x12\x05\x1a\x03\n\x01"
    b"\x00"
)
LINES = ("convert", "-", "-q", "--to", "jsonl")

# -- an encoder by the specification, a byte at a time, which shares nothing with ours ------


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def frame(record: bytes) -> bytes:
    length = struct.pack("<Q", len(record))
    return length + masked(length) + record + masked(record)


def varint(number: int, *, least: int = 1) -> bytes:
    number &= 2**64 - 1
    parts: list[int] = []
    while number or len(parts) < least:
        parts.append(number & 127)
        number >>= 7
    return bytes(part | 128 for part in parts[:-1]) + bytes(parts[-1:])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(values: Sequence[Any] | None, *, packed: bool = True) -> bytes:
    if values is None:
        return b""
    if all(isinstance(value, bytes) for value in values) and values:
        return field(1, b"".join(field(1, value) for value in values))
    if any(isinstance(value, float) for value in values):
        floats = [struct.pack("<f", value) for value in values]
        inside = field(1, b"".join(floats)) if packed else b"".join(b"\x0d" + one for one in floats)
        return field(2, inside)
    numbers = [varint(value) for value in values]
    inside = field(1, b"".join(numbers)) if packed else b"".join(b"\x08" + one for one in numbers)
    return field(3, inside if values else b"")


def features(values: Mapping[str, bytes]) -> bytes:
    return b"".join(
        field(1, field(1, name.encode()) + field(2, one)) for name, one in values.items()
    )


def example(values: Mapping[str, Sequence[Any] | None], **how: bool) -> bytes:
    return field(1, features({name: feature(one, **how) for name, one in values.items()}))


def sequence(
    context: Mapping[str, Sequence[Any]], lists: Mapping[str, Sequence[Sequence[Any] | None]]
) -> bytes:
    each = {
        name: b"".join(field(1, feature(one)) for one in inner) for name, inner in lists.items()
    }
    return example(context) + field(2, features(each))


def put(folder: Path, *records: bytes, name: str = "t.tfrecord") -> Path:
    path = folder / name
    path.write_bytes(b"".join(map(frame, records)))
    return path


def lists_of(path: Path, **options: Any) -> dict[str, Any]:
    found = io.read_all(path, **options)
    return {
        name: item.to_list() if isinstance(item, LoDTensor) else None
        for name, item in found.items()
    }


# -- reading -----------------------------------------------------------------------------


def test_the_checksum_is_that_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720, B.4 names the polynomial


def test_bytes_of_tensorflow_are_read(tmp_path: Path) -> None:
    found = io.read_all(put(tmp_path, GUIDE, GUIDE))
    assert sorted(found) == ["feature0", "feature1", "feature2", "feature3"]
    assert lists_of(tmp_path / "t.tfrecord") == {
        "feature0": [0, 0],
        "feature1": [4, 4],
        "feature2": ["goat", "goat"],
        "feature3": [float(np.float32(0.9876))] * 2,
    }
    assert found["feature1"].dtype == np.int64


@pytest.mark.parametrize("packed", [True, False])
def test_lists_labels_and_missing_features(packed: bool, tmp_path: Path) -> None:
    path = put(
        tmp_path,
        example({"ids": [1, -2, 2**40], "y": [3], "w": [0.5], "z": [1]}, packed=packed),
        example({"y": [5], "ids": [], "w": None, "z": [2]}, packed=packed),
        example({"y": [-(2**63)], "ids": [2**63 - 1], "z": [4]}, packed=packed),
    )
    found = lists_of(path)
    assert found == {
        "ids": [[1, -2, 2**40], [], [2**63 - 1]],
        "w": [0.5, None, None],
        "y": [3, 5, -(2**63)],
        "z": [1, 2, 4],
    }


def test_text_and_bytes_are_distinguished_by_all_records(tmp_path: Path) -> None:
    records = [example({"t": ["größe".encode()], "b": [b"\xff\xd8"], "l": [b"a", b"", b"b"]})]
    records += [example({"t": [b""], "b": [b"plain"], "l": [b"x"]})] * 3
    path = put(tmp_path, *records)
    found = io.read_all(path)
    marks = {name: str(getattr(item, "marks", None)) for name, item in found.items()}
    assert marks == {"t": "text", "b": "bytes", "l": "text"}
    assert lists_of(path)["l"] == [["a", "", "b"], ["x"], ["x"], ["x"]]


def test_feature_lists_are_a_level(tmp_path: Path) -> None:
    path = put(
        tmp_path,
        sequence({"id": [1]}, {"words": [[b"to"], [b"be"]], "box": [[1.5, 2.0], None, [3.0]]}),
        sequence({"id": [2]}, {"words": [], "box": []}),
        sequence({"id": [3]}, {"words": [[b"or"]]}),
    )
    assert lists_of(path) == {
        "id": [1, 2, 3],
        "words": [["to", "be"], [], ["or"]],
        "box": [[[1.5, 2.0], [], [3.0]], [], None],
    }


def test_unknown_fields_are_skipped(tmp_path: Path) -> None:
    more = b"\x98\x06\x05" + b"\xa1\x06" + bytes(8) + b"\xad\x06" + bytes(4) + field(50, b"x")
    inside = field(1, field(1, b"a") + more + field(2, more + feature([7]) + more) + more)
    path = put(tmp_path, more + field(1, inside + more) + more)
    assert lists_of(path) == {"a": [7]}


def test_varints_longer_than_needed_are_read(tmp_path: Path) -> None:
    numbers = varint(1, least=3) + varint(0, least=10) + varint(300)
    inside = field(1, field(1, b"a") + field(2, field(3, field(1, numbers))))
    assert lists_of(put(tmp_path, field(1, inside))) == {"a": [[1, 0, 300]]}


def test_a_record_of_very_many_values(tmp_path: Path) -> None:
    """Fields of one message are not a round of NumPy each."""
    words = [b"%d" % number for number in range(100_000)]
    record = example({"w": words, "n": [1]})
    path = tmp_path / "t.tfrecord"
    from lodcli.formats.tfrecord.frames import framed  # crc32c above takes its time

    path.write_bytes(b"".join(framed(record)) + b"".join(framed(example({"w": None, "n": [2]}))))
    assert lists_of(path)["w"] == [[word.decode() for word in words], None]


@pytest.mark.parametrize("name", ["t.tfrecord.gz", "t.tfrecords", "t"])
def test_gzip_as_tensorflow_writes_it(name: str, tmp_path: Path) -> None:
    plain = b"".join(map(frame, [GUIDE] * 300))
    path = tmp_path / name
    path.write_bytes(gzip.compress(plain))
    assert lists_of(path)["feature1"] == [4] * 300
    path.write_bytes(gzip.compress(plain)[:-9])
    with pytest.raises(DamagedFileError, match="is truncated"):
        io.read_all(path)


def test_gzip_is_written_if_the_name_says_so(tmp_path: Path) -> None:
    content = {"a": LoDTensor.from_lists([[1, 2], [3]])}
    io.write(tmp_path / "t.tfrecord", content)
    io.write(tmp_path / "t.tfrecord.gz", content)
    plain = (tmp_path / "t.tfrecord").read_bytes()
    assert gzip.decompress((tmp_path / "t.tfrecord.gz").read_bytes()) == plain
    assert lists_of(tmp_path / "t.tfrecord.gz") == {"a": [[1, 2], [3]]}


@pytest.mark.slow
def test_pipes_are_detected_and_decided_by_the_first_records(tmp_path: Path) -> None:
    from lodcli.formats.tfrecord.frames import framed

    early = b"".join(framed(example({"a": [1], "t": [b"x" * 1000]}))) * 9000
    done = lod(*LINES, "--field", "a", input=early, text=False)
    assert (done.returncode, done.stdout) == (0, b"1\n" * 9000)
    cases: tuple[tuple[dict[str, Any], bytes], ...] = (
        ({"a": [1, 2], "t": [b""]}, b"record 9000: 'a' has 2 values, expected 1"),
        ({"a": [1], "t": [b""], "new": [3]}, b"have the feature 'new', which the first records"),
        ({"a": [1], "t": [b"\xff"]}, b"is not UTF-8"),
    )
    for late, said in cases:
        data = early + b"".join(framed(example(late)))
        done = lod(*LINES, input=data, text=False)
        assert done.returncode == 1
        assert said in done.stderr
        assert done.stderr.count(b"\n") == 1
        (tmp_path / "t.tfrecord").write_bytes(data)
        assert len(lists_of(tmp_path / "t.tfrecord")["a"]) == 9001


# -- others ------------------------------------------------------------------------------

ROWS: dict[str, Any] = {
    "ids": [[1, -2, 300], [], [5]],
    "text": ["größe", "", "c"],
    "words": [["to", "be"], [], ["x"]],
    "w": [[0.5], [1.5, 2.0], []],
    "y": [7, 8, 9],
}


def _content() -> dict[str, LoDTensor]:
    found = {name: LoDTensor.from_lists(rows) for name, rows in ROWS.items()}
    found["w"] = found["w"].astype(np.float32)
    return found


def test_the_tfrecord_package_reads_what_we_write(tmp_path: Path) -> None:
    reader = pytest.importorskip("tfrecord.reader")
    path = tmp_path / "t.tfrecord"
    io.write(path, {name: item for name, item in _content().items() if name not in ("ids", "w")})
    for number, record in enumerate(reader.tfrecord_loader(str(path), None)):
        assert record["text"].decode() == ROWS["text"][number]
        assert record["y"].tolist() == [ROWS["y"][number]]


def test_protobuf_reads_what_we_write(tmp_path: Path) -> None:
    pb = pytest.importorskip("tfrecord.example_pb2")
    reader = pytest.importorskip("tfrecord.reader")
    path = tmp_path / "t.tfrecord"
    content = _content()
    content["deep"] = LoDTensor.from_lists([[[1], [2, 3]], [], [[]]])
    content["say"] = LoDTensor.from_lists([[["a", "b"], []], [], [["c"]]])
    io.write(path, content)
    for number, record in enumerate(reader.tfrecord_iterator(str(path))):
        found = pb.SequenceExample.FromString(bytes(record))
        told = found.context.feature
        assert list(told["ids"].int64_list.value) == ROWS["ids"][number]
        assert [one.decode() for one in told["words"].bytes_list.value] == ROWS["words"][number]
        assert list(told["w"].float_list.value) == ROWS["w"][number]
        inner = found.feature_lists.feature_list
        deep = [list(one.int64_list.value) for one in inner["deep"].feature]
        assert deep == content["deep"].to_list()[number]
        say = [[w.decode() for w in one.bytes_list.value] for one in inner["say"].feature]
        assert say == content["say"].to_list()[number]


def test_files_of_the_tfrecord_package_are_read(tmp_path: Path) -> None:
    writer = pytest.importorskip("tfrecord.writer")
    path = tmp_path / "t.tfrecord"
    theirs = writer.TFRecordWriter(str(path))
    for number in range(50):
        theirs.write(
            {"n": (number - 25, "int"), "t": (f"größe {number}".encode(), "byte")},
            {"s": ([[k, k * 1000] for k in range(number % 4)], "int"), "f": ([[0.5]], "float")},
        )
    theirs.close()
    assert lists_of(path) == {
        "n": [number - 25 for number in range(50)],
        "t": [f"größe {number}" for number in range(50)],
        "s": [[[k, k * 1000] for k in range(number % 4)] for number in range(50)],
        "f": [[0.5]] * 50,
    }


def test_records_are_written_as_tensorflow_writes_them(tmp_path: Path) -> None:
    """Behind the first record, a map of one entry has but one form."""
    io.write(tmp_path / "t.tfrecord", LoDTensor.from_lists([[1], [2, -3, 300]]))
    written = (tmp_path / "t.tfrecord").read_bytes()
    assert written.endswith(frame(example({"data": [2, -3, 300]})))
    assert written[12:].startswith(example({"data": [1]}))


# -- ours ----------------------------------------------------------------------------------


def test_everything_of_ours_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "t.tfrecord"
    content = _content()
    names = ["day", "hour"]
    content["deep"] = LoDTensor(np.arange(6, dtype=np.int8), [[2, 0, 1], [1, 3, 2]])
    content["deep"] = LoDTensor(content["deep"].data, content["deep"].lod.with_names(names))
    content["rows"] = LoDTensor(np.arange(12, dtype=np.float16).reshape(3, 2, 2))
    content["ones"] = LoDTensor.from_lists([[1], [2], [3]])
    content["raw"] = LoDTensor.from_lists([b"\xff", b"", b"a"])
    content["flag"] = LoDTensor(np.array([True, False, True]))
    io.write(path, content)
    found = io.read_all(path)
    for name, tensor in content.items():
        assert found[name].identical(tensor), name
    with lodcli.open(path) as source:
        parts = [batch["deep"] for batch in source.batches(limit_bytes=10)]
        assert LoDTensor.concatenate(parts).identical(content["deep"])
        assert source.slice("deep", (2, 0)).data.tolist() == [4, 5]
    assert sorted(lodcli.read_all(path, limits=Limits(isolate=True))) == sorted(content)


def test_null_items_are_missing_features_and_other_nulls_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.tfrecord"
    content = {
        "n": LoDTensor.from_lists([1, None, 3]),
        "l": LoDTensor.from_lists([None, [], [4]]),
        "t": LoDTensor.from_lists(["a", None, ""]),
        "d": LoDTensor.from_lists([[[1]], None, []]),
        "tt": LoDTensor.from_lists([None, ["a"], []]),
    }
    io.write(path, content)
    assert lists_of(path) == {name: item.to_list() for name, item in content.items()}
    for wrong in ([[1, None], []], [["a", None], []], [[[1], None]]):
        with pytest.raises(UnsupportedError, match="tfrecord holds no nulls but missing features"):
            io.write(tmp_path / "no.tfrecord", LoDTensor.from_lists(wrong))
    assert not (tmp_path / "no.tfrecord").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.zeros(2), "tfrecord holds no float64"),
        (np.zeros(2, np.uint64), "tfrecord holds no uint64"),
        (np.zeros(0, np.int64), "at least one record"),
        (LoDTensor(np.zeros(2, np.int8), [[1], [1], [2]]), "2 levels of numbers, data has 3"),
    ],
)
def test_unsupported_content_is_an_error(content: Any, message: str, tmp_path: Path) -> None:
    tensor = content if isinstance(content, LoDTensor) else LoDTensor(content)
    with pytest.raises(UnsupportedError, match=message):
        io.write(tmp_path / "t.tfrecord", tensor)
    assert not list(tmp_path.iterdir())


def test_attributes_are_reported_as_lost() -> None:
    tensor = LoDTensor(np.arange(3), None, Marks(attributes='{"unit":"mm"}'))
    (loss,) = losses(registry.get("tfrecord"), schema_of({"x": tensor}), WriteOptions())
    assert str(loss) == "tfrecord does not keep these attributes: those of x"


# -- damage --------------------------------------------------------------------------------


def test_every_changed_byte_is_seen(tmp_path: Path) -> None:
    data = b"".join(map(frame, [GUIDE, example({"feature0": [1]})]))
    path = tmp_path / "t.tfrecord"
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        error = DamagedFileError if place >= 12 else LodError  # else the format is not detected
        with pytest.raises(error) as caught:
            io.read_all(path)
        assert place < 12 or str(caught.value).startswith(f"{path}: record {place >= 100:d} at ")


def test_every_cut_is_seen(tmp_path: Path) -> None:
    data = b"".join(map(frame, [GUIDE, example({"feature0": [1]})]))
    whole = len(frame(GUIDE))
    path = tmp_path / "t.tfrecord"
    for size in range(12, len(data)):
        path.write_bytes(data[:size])
        if size == whole:
            continue  # a file of one record
        with pytest.raises(DamagedFileError, match=f"ends within record {size > whole:d}"):
            io.read_all(path)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([b"hello, world"], "is not a protocol buffer of this kind"),
        ([b"\x0a\x05ab"], "is not a protocol buffer of this kind"),
        ([b"\x0a" + b"\xff" * 11], "is not a protocol buffer of this kind"),
        ([b"\x08\x01"], "field 1 has another wire type than bytes"),
        ([b""], "holds no features with values"),
        ([example({"a": [1]}), example({"a": [1.5]})], "'a' holds .* in others; choose other feat"),
        ([sequence({"a": [1]}, {"a": [[1]]})], "is both a feature of the context and"),
        ([field(1, features({"a": feature([1])}) * 2)], "record 0 has 'a' twice"),
        (
            [field(1, field(1, field(1, b"\xff") + field(2, feature([1]))))],
            r"UTF-8: b'\\xff'",
        ),
        ([field(1, features({"a": field(2, field(1, b"abc"))}))], "'a': is not a protocol buffer"),
        ([field(1, features({"a": field(3, field(1, b"\x81"))}))], "'a': is not a protocol buffer"),
        (
            [field(1, features({"a": field(3, b"\x0d" + bytes(4))}))],
            "'a': is not a protocol buffer",
        ),
        ([example({"a": [1]}) + field(10_000, b"{}")], "header: expected the members"),
    ],
)
def test_an_invalid_example_is_an_error(records: list[bytes], message: str, tmp_path: Path) -> None:
    path = put(tmp_path, *records)
    with pytest.raises(LodError, match=message) as caught:
        io.read_all(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_features_of_two_kinds_can_be_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [example({"a": [one], "b": [one], "c": [1, 2]}) for one in (1, 2.5, 3)]
    path = put(tmp_path, *records, sequence({"d": [1]}, {"c": [[1]]}))
    for limit in (BATCH_BYTES, 1):  # in one batch, and in several
        monkeypatch.setattr("lodcli.formats.tfrecord.arrow_records.BATCH_BYTES", limit)
        with pytest.raises(InvalidDataError, match=r"feature 'a' holds .* skip_unsupported=True"):
            io.read_all(path)
        assert lists_of(path, field=("d",)) == {"d": [None, None, None, 1]}
        assert lists_of(path, skip_unsupported=True) == {"d": [None, None, None, 1]}


def test_feature_lists_without_any_values_are_left_out(tmp_path: Path) -> None:
    path = put(tmp_path, *[sequence({"a": [one], "b": []}, {"c": []}) for one in (1, 2)])
    assert lists_of(path)["a"] == [1, 2]
    assert "c" not in lists_of(path)
    done = lod(*LINES, "--field", "a", input=path.read_bytes(), text=False)
    assert (done.returncode, done.stdout) == (0, b"1\n2\n")


def test_records_that_are_not_what_the_first_one_says_are_refused(tmp_path: Path) -> None:
    content = {"a": LoDTensor(np.array([1, 2], np.int8)), "b": LoDTensor(np.zeros((2, 3), "f4"))}
    io.write(tmp_path / "t.tfrecord", content)
    first = (tmp_path / "t.tfrecord").read_bytes()
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"a": [300], "b": [0.5] * 3}, "'a': 300 is not int8"),
        ({"a": [0.5], "b": [0.5] * 3}, "'a' holds float in some records and int64 in"),
        ({"a": [1], "b": [0.5] * 4}, "'b' has 4 values, expected 3"),
        ({"a": [1, 2], "b": [0.5] * 3}, "'a' has 2 values, expected 1"),
        ({"b": [0.5] * 3}, "has no 'a'"),
        ({"a": [1], "b": [0.5] * 3, "c": [1]}, "have the feature 'c'"),
    )
    for late, message in cases:
        (tmp_path / "t.tfrecord").write_bytes(first + frame(example(late)))
        with pytest.raises(InvalidDataError, match=message):
            io.read_all(tmp_path / "t.tfrecord")


def test_a_length_that_is_not_there_takes_no_memory(tmp_path: Path) -> None:
    length = struct.pack("<Q", 2**55)
    head = length + masked(length)
    path = tmp_path / "t.tfrecord"
    path.write_bytes(head + bytes(100))
    with pytest.raises(LodError, match="has a record of"):
        io.read_all(path)
    done = lod("inspect", "-", "--max-bytes", "1g", input=head + bytes(100), text=False)
    assert done.returncode == 1
    assert b"has a record of" in done.stderr


def test_an_empty_file_and_another_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.tfrecord"
    path.write_bytes(b"no records at all, but text")
    with pytest.raises(NotThisFormatError, match="has the extension of tfrecord"):
        io.read_all(path)
    path.write_bytes(b"")
    with pytest.raises(LodError):
        io.read_all(path)


def test_wire_formats_agree_with_a_plain_loop() -> None:
    from lodcli.formats.tfrecord.messages import PADDING, Spans, packed, packed_varints

    generator = np.random.default_rng(0)
    bits = generator.integers(0, 64, 5000)
    numbers = generator.integers(-(2**63), 2**63, 5000, dtype=np.int64) >> bits
    data, offsets = packed(numbers)
    assert data.tobytes() == b"".join(varint(number) for number in numbers.tolist())
    cuts = np.sort(generator.integers(0, 5001, 40))
    begin, end = offsets[cuts[:-1]], offsets[cuts[1:]]
    buffer = np.concatenate([data, np.zeros(PADDING, np.uint8)])
    found, counts = packed_varints(Spans(buffer, np.arange(39), begin, end), "a list")
    np.testing.assert_array_equal(found, numbers[cuts[0] : cuts[-1]])
    np.testing.assert_array_equal(counts, np.diff(cuts))


def test_large_records_and_small_reads(tmp_path: Path) -> None:
    from lodcli.formats.core.bounds import Bounds
    from lodcli.formats.tfrecord.frames import records_of

    records = [bytes([number % 251]) * (number * 37 % 400) for number in range(60)]
    data = b"".join(map(frame, records))
    for limit in (1, 13, 100, 1000, 1 << 20):
        found: list[bytes] = []
        for batch in records_of(pyio.BytesIO(data), limit, Bounds()):
            assert batch.first == len(found)
            spans = batch.spans
            found += [
                spans.buffer[low:high].tobytes()
                for low, high in zip(spans.begin, spans.end, strict=True)
            ]
        assert found == records
