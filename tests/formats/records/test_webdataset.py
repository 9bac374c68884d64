"""webdataset: samples in a tar archive."""

from __future__ import annotations

import gc
import gzip
import io as bytes_io
import struct
import tarfile
import warnings
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError, TooLargeError
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.schema import schema_of
from lodcli.formats.npz.npy_header import NPY_DTYPES
from lodcli.formats.records import tar_stream
from lodcli.formats.records.tar_headers import Headers
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.damage import accepted, cut
from tests.formats.cases.opening import batches_of, content, nested, pipe, source_of, tensor_in
from tests.formats.cases.writing import npy
from tests.sampling import many
from tests.strategies import DTYPES, tensors

THEIRS = Path(__file__).parents[1] / "theirs" / "webdataset.tar"
HELD = tuple(dtype for dtype in DTYPES if dtype.name in NPY_DTYPES)


# A header with more axes than an array can have; its size, then its text.
DEEP = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {(1,) * 65}}}".encode()
DEEP = struct.pack("<H", len(DEEP)) + DEEP


def archive(
    folder: Path, files: Iterable[tuple[str, bytes]], kind: int = tarfile.GNU_FORMAT
) -> Path:
    path = folder / "x.tar"
    with tarfile.open(path, "w", format=kind) as file:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, bytes_io.BytesIO(data))
    return path


def test_the_label_of_a_gnu_archive_is_no_member(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w", format=tarfile.GNU_FORMAT) as file:
        label = tarfile.TarInfo("label")
        label.type = b"V"  # as tar --label writes it
        file.addfile(label)
        sample = tarfile.TarInfo("0.id")
        sample.size = 1
        file.addfile(sample, bytes_io.BytesIO(b"7"))
    assert content(tmp_path / "x.tar")["id"].to_list() == [7]


# -- the real tool -------------------------------------------------------------------


def check(found: dict[str, LoDTensor]) -> None:
    assert sorted(found) == ["cls", "frames", "score", "tokens", "txt", "weight"]
    assert nested(found["tokens"]) == [[], [0], [0, 1]]
    assert found["tokens"].dtype == np.int32
    assert nested(found["frames"])[1] == [[1, 1], [1, 1]]
    assert found["weight"].data.tolist() == [0, 0.5, 1]
    assert found["weight"].dtype == np.float32
    assert found["cls"].data.tolist() == [-1, 0, 1]
    assert found["score"].data.tolist() == [0.5, 0.75, 1]
    assert found["txt"][2].data.tobytes().decode() == "größe" * 2
    assert found["txt"].lod.names == ("sample",)


def test_an_archive_of_webdataset_is_read(tmp_path: Path) -> None:
    check(content(THEIRS))
    assert len(batches_of(THEIRS, 1)) == 3
    assert list(content(THEIRS, field=("cls", "tokens"))) == ["cls", "tokens"]
    with pipe(tmp_path, ".tar", THEIRS.read_bytes()) as path:
        check(content(path))


def test_webdataset_reads_what_we_write(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    items = content(THEIRS)
    io.write(tmp_path / "x.tar", items)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves its file open
        reader = webdataset.WebDataset(str(tmp_path / "x.tar"), shardshuffle=False)
        samples = list(reader.decode())
        del reader
        gc.collect()
    assert len(samples) == 3
    for number, sample in enumerate(samples):
        for name in ("tokens", "frames", "weight", "score"):
            value = sample[f"{name}.npy"]
            tensor = items[name]
            expected = tensor[number] if tensor.lod.n_levels else tensor.data[number]
            np.testing.assert_array_equal(value, np.asarray(expected))
            assert value.dtype == tensor.dtype
        assert sample["cls.cls"] == number - 1
        assert sample["txt.txt"] == items["txt"].to_list()[number]


def test_packed_files_are_those_that_webdataset_unpacks(tmp_path: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    files = [
        ("a.x.npy.gz", gzip.compress(npy([1, 2]))),
        ("a.jsn.GZ", gzip.compress(b"[3]") + gzip.compress(b"  ")),
        ("a.txt.gz", gzip.compress("größe".encode())),
        ("b.x.npy.gz", gzip.compress(npy([3]))),
        ("b.jsn.GZ", gzip.compress(b"[]")),
        ("b.txt.gz", gzip.compress(b"")),
    ]
    path = archive(tmp_path, files)
    found = content(path)
    assert {name: nested(item) for name, item in found.items() if name != "txt"} == {
        "x": [[1, 2], [3]],
        "jsn": [[3], []],
    }
    assert found["txt"].to_list() == ["größe", ""]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves its file open
        reader = webdataset.WebDataset(str(path), shardshuffle=False)
        samples = list(reader.decode())
        del reader
        gc.collect()
    assert [sample["x.npy.gz"].tolist() for sample in samples] == [[1, 2], [3]]
    assert [sample["txt.gz"] for sample in samples] == found["txt"].to_list()


def test_a_packed_archive_may_be_named_tgz(tmp_path: Path) -> None:
    path = archive(tmp_path, [("a.id", b"1"), ("b.id", b"2")])
    for name in ("x.tgz", "y.TGZ", "z.tar.gz"):
        (tmp_path / name).write_bytes(gzip.compress(path.read_bytes()))
        assert content(tmp_path / name)["id"].to_list() == [1, 2]
    path.rename(tmp_path / "plain.tgz")
    with pytest.raises(DamagedFileError, match=r"plain\.tgz: is named as if compressed \(\.tgz\)"):
        content(tmp_path / "plain.tgz")
    with pytest.raises(
        UnsupportedError, match=r"is not compressed as a whole, .*; name it out\.tar"
    ):
        io.write(tmp_path / "out.tgz", content(tmp_path / "x.tgz"))
    assert not (tmp_path / "out.tgz").exists()


def test_packed_files_unpack_to_no_more_than_allowed(tmp_path: Path) -> None:
    small = [(f"{number}.x.npy.gz", gzip.compress(npy(np.zeros(1000)))) for number in range(3)]
    path = archive(tmp_path, small)
    with (
        pytest.raises(TooLargeError, match=r"2\.x\.npy\.gz: decompresses to .* 20000 are allowed"),
        source_of(path, limits=Limits(max_bytes=20_000)) as source,
    ):
        list(source.batches(1))


# -- round trips ---------------------------------------------------------------------


@st.composite
def samples(draw: st.DrawFn) -> dict[str, LoDTensor]:
    first = draw(tensors(HELD, row_shapes=[(), (3,), (0, 2)], min_levels=1, max_levels=1))
    label = LoDTensor(np.arange(len(first)) - 2)
    weight = LoDTensor(np.arange(len(first)).astype(draw(st.sampled_from(HELD))))
    return {"data": first, "label": label, "w.x": weight}


@given(items=samples(), limit_bytes=st.sampled_from([1, 60, 1 << 20]))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bits_come_back(tmp_path: Path, items: dict[str, LoDTensor], limit_bytes: int) -> None:
    path = tmp_path / "x.tar"
    if not len(items["data"]):
        with pytest.raises(UnsupportedError, match="at least one sample"):
            io.write(path, items, overwrite=True)
        return
    io.write(path, items, overwrite=True)
    batches = batches_of(path, limit_bytes)
    for name, tensor in items.items():
        found = LoDTensor.concatenate([batch[name] for batch in batches])
        names = ["sample"] * tensor.lod.n_levels
        assert found.identical(LoDTensor(np.array(tensor.data), tensor.lod.with_names(names)))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([("a.npy", npy([1, 2]))], {"npy": [[1, 2]]}),
        ([("deep/er/a.x.npy", npy([1]))], {"x": [[1]]}),
        ([("a.x.y.npy", npy([1]))], {"x.y": [[1]]}),
        ([("a.CLS", b" 7\n")], {"CLS": [7]}),
        ([("a.json", b"[1, 2]"), ("b.json", b"[]")], {"json": [[1, 2], []]}),
        ([("a.json", b"[]"), ("b.json", b"[1, 2]")], {"json": [[], [1, 2]]}),
        ([("a.json", b"[1.5, 2]"), ("b.json", b"[3]")], {"json": [[1.5, 2], [3]]}),
        ([("a.json", b"1.5"), ("b.json", b"-3")], {"json": [1.5, -3]}),
        ([("a.json", b"[1.5]"), ("b.json", b"[9007199254740993]")], None),
        ([("a.json", b"[1]"), ("b.json", b"[1.5]")], None),
        ([("a.json", b"[1]"), ("b.json", b"[1.0]")], None),
        ([("a.json", b"[1]"), ("b.json", b"2")], None),
        ([("a.npy", npy([1])), ("b.npy", npy(2))], None),
        ([("a.json", b"[1.5, 2]"), ("b.json", b"[3.5]")], {"json": [[1.5, 2], [3.5]]}),
        ([("a.bin", b"\1\2")], {"bin": [[1, 2]]}),
        ([("README", b"not of a sample"), ("a.id", b"1")], {"id": [1]}),
        # tar on macOS adds files whose names begin with a dot.
        (
            [
                *(("d/.DS_Store", b""), ("d/._a.id", b"\0"), ("d/a.id", b"1")),
                *(("d/._a.txt", b"\0"), ("d/a.txt", b"x"), ("d/._b.id", b"\0")),
                *(("d/b.id", b"2"), ("d/b.txt", b"y")),
            ],
            {"id": [1, 2], "txt": [[120], [121]]},
        ),
        ([(f"{'long/' * 40}a.id", b"1"), ("b.id", b"2")], {"id": [1, 2]}),
    ],
)
@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_files_are_fields_by_their_endings(
    files: list[tuple[str, bytes]], expected: Any, kind: int, tmp_path: Path
) -> None:
    if kind == tarfile.USTAR_FORMAT and max(len(name) for name, _ in files) > 100:
        pytest.skip("that format holds no such name")
    path = archive(tmp_path, files, kind)
    if expected is None:
        with pytest.raises(LodError, match=r"sample 1: (json|npy): expected"):
            content(path)
        return
    found = content(path)
    assert {name: nested(item) for name, item in found.items()} == expected


@pytest.mark.parametrize(
    ("items", "error", "message"),
    [
        ({"a": LoDTensor(np.zeros((2, 3)))}, UnsupportedError, r"rows of a have shape \(3,\)"),
        (
            {"a": LoDTensor(np.arange(2), [[2]]), "b": LoDTensor(np.arange(2))},
            UnsupportedError,
            "a has 1, b has 2",
        ),
        ({"a": LoDTensor(np.zeros(1), [[1], [1]])}, UnsupportedError, "holds 1 level, a has 2"),
    ],
)
def test_unsupported_content_is_an_error(
    items: dict[str, LoDTensor], error: type[LodError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        io.write(tmp_path / "x.tar", items)
    assert not list(tmp_path.iterdir())


# -- damage --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "holds no samples"),
        ([("README", b"")], "holds no samples"),
        ([("a.jpg", b"")], r"a\.jpg: \.jpg files hold no numbers"),
        ([("a.pyd", b"")], r"\.pyd files hold no numbers, or are unsafe to decode"),
        ([("a.cls", b"x")], "expected a whole number, found b'x'"),
        ([("a.cls", b"")], "expected a whole number, found b''"),
        ([("a.cls", b"9" * 30)], "expected a whole number"),
        ([("a.json", b"{")], "is not JSON"),
        ([("a.json", b"[" * 10**5)], "is not JSON"),
        ([("a.json", b'{"a": 1}')], "a number nor a list of numbers; .*with skip_unsupported=True"),
        ([("a.json", b"[[1], [2]]")], "is neither a number nor a list of numbers"),
        ([("a.npy", b"")], r"a\.npy: ends within its header"),
        ([("a.npy", npy([1])[:-1])], "needs 8 bytes, 7 there"),
        ([("a.npy", npy([1]) + b"x")], "needs 8 bytes, 9 there"),
        ([("a.npy", npy([1])[:60])], "ends within its header"),
        (
            [("a.npy", npy([1])[:8] + DEEP + bytes(8))],
            r"a\.npy: shape .* is beyond what an array can",
        ),
        ([("a.npy", npy(np.array([1, "x"], object)))], "Python objects"),
        ([("a.npy", npy("text"))], "has dtype"),
        ([("a.npy", npy([1])), ("b.npy", npy([1.5]))], "sample 1: npy: expected int64"),
        ([("a.npy", npy([[1]])), ("b.npy", npy([[1, 2]]))], r"shape \(n, 1\) as in the first"),
        ([("a.npy", npy([1])), ("b.x.npy", npy([1]))], "sample 1: has no npy, which other"),
        (
            [("a.npy", npy([1])), ("b.npy", npy([2])), ("a.id", b"1"), ("b.id", b"2")],
            "sample 2: has no npy, .* if the files .* are not next to each other, sort them",
        ),
        ([("a.npy.gz", npy([1]))], r"a\.npy\.gz: gzip: is damaged"),
        ([("a.npy.gz", gzip.compress(npy([1]))[:-9])], r"a\.npy\.gz: gzip: is truncated"),
        ([("a.gz", gzip.compress(b"x"))], r"a\.gz: \.gz files hold no numbers"),
        ([("a..gz", gzip.compress(b"x"))], r"a\.\.gz: \.gz files hold no numbers"),
        ([("a.x..GZ", gzip.compress(b"x"))], r"a\.x\.\.GZ: \.gz files hold no numbers"),
        ([("a.id", b"1"), ("b.id", b"1"), ("b.x.id", b"1")], "has the field x, which the first"),
        ([("a.id", b"1"), ("a.id", b"1")], r"a\.id: a second field id of this sample"),
    ],
)
def test_damage_is_named(files: list[tuple[str, bytes]], message: str, tmp_path: Path) -> None:
    path = archive(tmp_path, files)
    with pytest.raises(LodError, match=message) as caught:
        content(path)
    assert str(caught.value).startswith(str(path))


def changed(data: bytes, place: int, new: bytes, *, sealed: bool = True) -> bytes:
    """Return an archive with part of its first header overwritten, its checksum mended."""
    head = bytearray(data[:512])
    head[place : place + len(new)] = new
    if sealed:
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head) + data[512:]


@pytest.mark.parametrize(
    ("place", "new", "sealed", "message"),
    [
        (0, b"b", False, "checksum does not match"),
        (148, b"999999", False, "in a field for a number"),
        (124, b"99999999999", True, "in a field for a number"),
        (124, b"77777777777", True, "ends .* bytes early, within a file"),
        (124, b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", True, "bytes early, within a file"),
        (124, b"\xff" * 12, True, "bytes early, within a file"),
        (156, b"1", True, "is a link; pack the file itself"),
        (156, b"2", True, "is a link; pack the file itself"),
        (156, b"3", True, "is a device"),
        (156, b"6", True, "is a device"),
        (156, b"S", True, "is a sparse file; pack it without --sparse"),
        (156, b"x", True, "no samples"),
        (0, b"\xff\xfe.id", True, "a name that is not UTF-8"),
    ],
)
def test_a_broken_header_is_named(
    place: int, new: bytes, sealed: bool, message: str, tmp_path: Path
) -> None:
    path = archive(tmp_path, [("a.id", b"1")])
    path.write_bytes(changed(path.read_bytes(), place, new, sealed=sealed))
    with pytest.raises(LodError, match=message):
        io.read_all(path, format_name="webdataset")


def test_a_size_may_be_stored_in_binary(tmp_path: Path) -> None:
    path = archive(tmp_path, [("a.id", b"1")])
    path.write_bytes(changed(path.read_bytes(), 124, b"\x80" + bytes(10) + b"\1"))
    assert nested(content(path)["id"]) == [1]


def test_a_long_name_may_be_divided_in_a_header(tmp_path: Path) -> None:
    # If the first part was ignored, these would be two fields of one sample.
    files = [(f"{first * 120}/{'d' * 80}/a.id", b"1") for first in "xy"]
    path = archive(tmp_path, files, tarfile.USTAR_FORMAT)
    assert path.read_bytes()[345:346] == b"x"
    assert nested(content(path)["id"]) == [1, 1]


@pytest.mark.parametrize(
    "record",
    [b"99 path=a\n", b"0 path=a\n", b"-9 path=a\n", b"path=a\n", b"9" * 5000 + b" path=a\n"],
)
def test_a_record_of_a_pax_header_has_its_length(record: bytes, tmp_path: Path) -> None:
    path = archive(tmp_path, [("x", record), ("a.id", b"1")])
    path.write_bytes(changed(path.read_bytes(), 156, b"x"))
    with pytest.raises(DamagedFileError, match="a pax header contradicts itself"):
        content(path)


def test_a_sparse_file_is_not_read_as_its_map(tmp_path: Path) -> None:
    # As `tar --sparse --format=pax` writes 1,048,576 zeros and three bytes.
    path, data = tmp_path / "x.tar", b"1\n1048576\n3\n".ljust(512, b"\0") + b"abc"
    info = tarfile.TarInfo("GNUSparseFile.0/a.bin")
    info.size = len(data)
    info.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "a.bin",
        "GNU.sparse.realsize": "1048579",
    }
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as file:
        file.addfile(info, bytes_io.BytesIO(data))
    with pytest.raises(UnsupportedError, match="is a sparse file; pack it without --sparse"):
        content(path)


@pytest.mark.parametrize("size", ["-5", "1e3", "\u0661", "9" * 5000])
def test_a_size_of_a_pax_header_is_a_plain_number(size: str, tmp_path: Path) -> None:
    info = tarfile.TarInfo("a.id")
    info.size, info.pax_headers = 1, {"size": size}
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as file:
        file.addfile(info, bytes_io.BytesIO(b"1"))
    with pytest.raises(LodError, match=r"a pax header has '.*' as the size of a file"):
        content(path)


def test_a_name_without_end_is_refused(tmp_path: Path) -> None:
    head = tarfile.TarInfo("x")
    head.type, head.size = b"L", 1 << 30
    (tmp_path / "x.tar").write_bytes(head.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(LodError, match="a name of 1073741824 bytes"):
        content(tmp_path / "x.tar")


@pytest.mark.slow
def test_a_file_truncated_at_any_length_is_an_error(tmp_path: Path) -> None:
    items = {"data": LoDTensor(np.arange(3, dtype=np.int8), [[1, 2]])}
    io.write(tmp_path / "x.tar", items)
    whole = (tmp_path / "x.tar").read_bytes()
    read = partial(io.read_all, format_name="webdataset")
    assert not accepted(cut(whole), tmp_path / "x.tar", read)
    (tmp_path / "x.tar").write_bytes(whole + whole)
    with pytest.raises(UnsupportedError, match="continues after its end"):
        content(tmp_path / "x.tar")


def test_a_field_that_is_not_there_is_named() -> None:
    with pytest.raises(SelectionError, match="the first sample has no field 'x'"):
        content(THEIRS, field=("cls", "x"))
    assert LoD.from_lengths([[0, 1, 2]]).same_levels(content(THEIRS)["tokens"].lod)


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1, -6696874842932477345])
def test_a_whole_number_of_64_bits_comes_back(tmp_path: Path, value: int) -> None:
    io.write(tmp_path / "t.tar", LoDTensor(np.array([value])))
    found = tensor_in(tmp_path / "t.tar")
    assert found.data.tolist() == [value]


# -- many samples at once --------------------------------------------------------------


@given(
    rest=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=120),
    number=st.integers(0, 10**11),
    size=st.integers(0, 8**11 - 1) | st.sampled_from([8**11, 8**12]),
)
def test_headers_are_those_of_tarfile(rest: str, number: int, size: int) -> None:
    key = b"%09d" % number
    info = tarfile.TarInfo(key.decode() + rest)
    info.size = size
    assert Headers(rest).of(key, size) == info.tobuf(tarfile.GNU_FORMAT)


@given(st.binary(min_size=512, max_size=512))
@example(b"\xff" * 512)
@example(b"\0" * 512)
def test_the_sum_of_a_header_is_that_of_its_bytes(head: bytes) -> None:
    assert tar_stream._sum(head) == sum(head)


@given(items=samples(), block_bytes=st.integers(1, 300), values=st.integers(1, 20))
@settings(
    max_examples=many(40, share=4),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_however_samples_are_joined_the_file_is_that_of_tarfile(
    tmp_path: Path, items: dict[str, LoDTensor], block_bytes: int, values: int
) -> None:
    count = len(items["data"])
    if not count:
        return
    path = tmp_path / "x.tar"
    # The tensors one after another, and of each a few items at a time.
    batches = [
        {name: tensor[start : start + 2]}
        for name, tensor in items.items()
        for start in range(0, count, 2)
    ]
    joining = "lodcli.formats.records.samples"
    with mock.patch.multiple(joining, BLOCK_BYTES=block_bytes, BLOCK_VALUES=values):
        io.write_batches(path, schema_of(items), batches, overwrite=True)
    expected = []
    for number in range(count):
        for name, tensor in items.items():
            value = tensor[number] if tensor.lod.n_levels else tensor.data[number]
            value = value.data if isinstance(value, LoDTensor) else value
            plain = value.ndim == 0 and value.dtype == np.int64
            ending, data = (
                ("cls", b"%d" % value) if plain else ("npy", npy(np.array(value, order="C")))
            )
            expected.append((f"{number:09}.{name}.{ending}", data))
    with tarfile.open(path) as file:
        found = [(one.name, file.extractfile(one).read()) for one in file]  # type: ignore[union-attr]
    assert found == expected


def test_samples_of_tensors_that_come_together_need_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lod = LoD.from_lengths([[2, 0, 1]])
    tensors = {f"t{number}": LoDTensor(np.arange(3) + number, lod) for number in range(30)}
    with mock.patch.object(Output, "spool", side_effect=AssertionError):
        io.write(tmp_path / "x.tar", tensors)
    found = io.read_all(tmp_path / "x.tar")
    assert {name: item.to_list() for name, item in found.items()} == {
        name: item.to_list() for name, item in tensors.items()
    }
