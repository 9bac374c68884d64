"""torch: files that are damaged, crafted, or of another kind."""

from __future__ import annotations

import io as bytes_io
import pickle
import resource
import struct
import zipfile
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError, TooLargeError
from lodcli.kernels.errors import InvalidDataError, InvalidLoDError, LodError, UnsupportedError
from tests.formats.cases.damage import accepted, cut

torch = pytest.importorskip("torch")
rnn = torch.nn.utils.rnn

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


class Storage:
    """Stands for a reference to a storage while a pickle is crafted."""

    def __init__(self, kind: Any, key: str, numel: int) -> None:
        self.reference = ("storage", kind, key, "cpu", numel)


class Call:
    """Stands for a call of anything while a pickle is crafted."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.parts = (function, arguments)

    def __reduce__(self) -> Any:
        return self.parts


class _Pickler(pickle._Pickler):
    def persistent_id(self, obj: Any) -> Any:
        return obj.reference if isinstance(obj, Storage) else None


def pickled(value: Any, protocol: int = 2) -> bytes:
    stream = bytes_io.BytesIO()
    _Pickler(stream, protocol).dump(value)
    return stream.getvalue()


def archive(
    raw: bytes, *storages: bytes, method: int = zipfile.ZIP_STORED, more: tuple[str, ...] = ()
) -> bytes:
    stream = bytes_io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as file:
        file.writestr("a/data.pkl", raw)
        file.writestr("a/version", "3\n")
        file.writestr("a/byteorder", "little")
        for name in more:
            file.writestr(name, b"x")
        for number, storage in enumerate(storages):
            file.writestr(f"a/data/{number}", storage)
    return stream.getvalue()


def tensor(
    size: tuple[Any, ...] = (4,),
    stride: tuple[Any, ...] = (1,),
    *,
    numel: int = 4,
    offset: int = 0,
    kind: Any = None,
    key: str = "0",
) -> Call:
    storage = Storage(kind or torch.FloatStorage, key, numel)
    return Call(torch._utils._rebuild_tensor_v2, storage, offset, size, stride, False, {})


def of(value: Any, storage: bytes = bytes(16)) -> bytes:
    return archive(pickled(value), storage)


def ints(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int64)


def saved(value: Any) -> bytes:
    stream = bytes_io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def packed(rows: int = 3, sizes: Any = (2, 1), there: Any = None, back: Any = None) -> bytes:
    """Return a PackedSequence that its own constructor might not make."""
    parts = (torch.zeros(rows), torch.as_tensor(sizes), there, back)
    stream = bytes_io.BytesIO()
    torch.save(tuple.__new__(rnn.PackedSequence, parts), stream)
    return stream.getvalue()


def jagged(**attributes: Any) -> bytes:
    made = torch.nested.nested_tensor_from_jagged(torch.zeros(3, 2), ints(0, 1, 3))
    for name, value in attributes.items():
        setattr(made, name, value)
    return saved(made)


def overlapping() -> bytes:
    """Return a nested tensor whose 4,000 sequences are each all of its rows, 2.6 GB together."""
    rows, count = torch.zeros(20_000, 8), 4_000
    offsets = ints(*[0] * count, len(rows))
    return saved(torch.nested.nested_tensor_from_jagged(rows, offsets, ints(*[len(rows)] * count)))


def bomb() -> Any:
    """Return lists that name a tensor 10^12 times."""
    value: Any = torch.zeros(4)
    for _ in range(12):
        value = [value] * 10
    return value


def loop() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def knot() -> Any:
    """Return a dict that holds itself twice: named 2^31 times, if followed."""
    value: dict[str, Any] = {}
    value["a"] = value["b"] = value
    return value


def deep() -> Any:
    value: Any = torch.zeros(1)
    for _ in range(40):
        value = [value]
    return value


GOOD = of(tensor())
DAMAGED: list[tuple[str, bytes, Any, str]] = [
    ("bytes", b"PK\x03\x04" + bytes(50), DamagedFileError, "the zip directory"),
    ("text", b"hello, this is no file of torch", NotThisFormatError, "does not begin like a zip"),
    ("pickle", pickle.dumps([1], 2), UnsupportedError, "is a pickle, and reading one runs"),
    ("old", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + bytes(9), UnsupportedError, "torch 1.6"),
    ("empty", archive(b""), DamagedFileError, "data.pkl: is not a complete pickle"),
    (
        "script",
        archive(b"", more=("a/constants.pkl",), method=zipfile.ZIP_DEFLATED),
        UnsupportedError,
        r"is a TorchScript program, .*; save its tensors with torch\.save\(torch\.jit\.load",
    ),
    (
        "exported",
        archive(b"", more=("a/models/model.json",)),
        UnsupportedError,
        r"is a program of torch\.export, .*; save its tensors with torch\.save\(torch\.export",
    ),
    (
        "deflated",
        archive(pickled(tensor()), bytes(16), method=zipfile.ZIP_DEFLATED),
        UnsupportedError,
        "is compressed, as torch never is",
    ),
    (
        "cut_pickle",
        archive(pickled(tensor())[:-20], bytes(16)),
        DamagedFileError,
        "not a complete pic",
    ),
    (
        "protocol",
        archive(pickled(tensor(), 4), bytes(16)),
        UnsupportedError,
        "of protocol 4; write",
    ),
    ("system", of(Call(print, "pwned")), UnsupportedError, "refers to __builtin__.print; only"),
    ("bytearray", of(Call(bytearray, 2**40)), UnsupportedError, "refers to __builtin__.bytearray"),
    ("getattr", of(Call(getattr, 1, "a")), UnsupportedError, "refers to __builtin__.getattr"),
    (
        "module",
        of(Call(torch.nn.Linear, 2, 2)),
        UnsupportedError,
        r"refers to torch\.nn\.modules\.linear\.Linear; .*; save module\.state_dict\(\)",
    ),
    ("calls", of(Call(torch._utils._rebuild_tensor_v2)), DamagedFileError, "other arguments than"),
    ("numel", of(tensor(numel=10**11)), DamagedFileError, "in a/data/0, which has 16 bytes"),
    ("few", of(tensor(numel=2)), DamagedFileError, "expects 2 values of float32 in a/data/0"),
    ("size", of(tensor((10**9,))), DamagedFileError, "leaves its storage of 4 values"),
    ("negative", of(tensor((-4,))), DamagedFileError, "from 0 on, found -4"),
    ("offset", of(tensor(offset=100)), DamagedFileError, "from value 100 on leaves its"),
    ("below", of(tensor(offset=-1)), DamagedFileError, "from 0 on, found -1"),
    ("stride", of(tensor(stride=(-1,))), DamagedFileError, "from 0 on, found -1"),
    ("strides", of(tensor((2, 2), (1,))), DamagedFileError, "1 strides for 2 dimensions"),
    ("record", of(tensor(key="7")), DamagedFileError, "refers to a/data/7, which is missing"),
    ("wide", of(tensor((10**12,), (0,))), TooLargeError, "declares 4000000000"),
    ("scalar", of(tensor((), ())), InvalidDataError, r"single value.* save tensor\.reshape"),
    (
        "sparse",
        saved(torch.eye(3).to_sparse()),
        UnsupportedError,
        r"refers to torch\._utils\._rebuild_sparse_tensor; .*; save tensor\.to_dense\(\), or",
    ),
    (
        "float8",
        saved(torch.zeros(3).to(torch.float8_e5m2)),
        UnsupportedError,
        r"dtype float8_e5m2, which is not supported; save tensor\.float\(\)",
    ),
    (
        "meta",
        saved(torch.zeros(3, device="meta")),
        UnsupportedError,
        "a tensor on the device meta has no values",
    ),
    ("scalars", saved([torch.tensor(1)]), InvalidDataError, r"item 0: is .*; save torch\.stack"),
    ("numbers", saved([[1, 2]]), UnsupportedError, r"item 0: .* found int; save torch\.tensor"),
    ("samples", saved([{"x": torch.ones(1)}]), UnsupportedError, "found dict; save a dict of lis"),
    ("bomb", saved(bomb()), TooLargeError, "far more than the file can hold"),
    ("loop", saved(loop()), TooLargeError, "far more than the file can hold"),
    (
        "knot",
        saved(knot()),
        (TooLargeError, UnsupportedError),
        "more than the file|deep or deeper",
    ),
    ("twice", saved({"a.b": torch.ones(1), "a": {"b": torch.ones(1)}}), InvalidDataError, "two te"),
    ("nan_key", saved({None: torch.zeros(1)}), UnsupportedError, "a dict with the key None"),
    ("tuple_key", saved({(1, 2): torch.zeros(1)}), UnsupportedError, "a key that is a tuple"),
    ("deep", saved(deep()), UnsupportedError, "32 deep or deeper"),
    ("mixed", saved([torch.zeros(1), torch.ones(1, dtype=torch.int8)]), InvalidDataError, "item 1"),
    (
        "shapes",
        saved([torch.zeros(1, 2), torch.zeros(1, 3)]),
        InvalidDataError,
        "row shape .* names: save a dict",
    ),
    ("depths", saved([torch.zeros(1), [torch.zeros(1)]]), InvalidDataError, "in 2 lists, earlier"),
    ("too_deep", saved([torch.zeros(1), []]), InvalidDataError, "an empty list where tensors"),
    ("none", saved([torch.zeros(1), None]), UnsupportedError, "expected a tensor, found NoneType"),
    ("no_data", saved({"x/lod.0": ints(0, 1)}), DamagedFileError, "has an index but no data"),
    (
        "padded_count",
        saved({"padded": torch.zeros(2, 3), "lengths": ints(1, 2, 3)}),
        InvalidDataError,
        "3 lengths for shape",
    ),
    (
        "padded_long",
        saved((torch.zeros(2, 3), ints(1, 4))),
        InvalidDataError,
        "lengths, position 1: expected 0 to 3, found 4",
    ),
    ("padded_below", saved((torch.zeros(2, 3), ints(1, -1))), InvalidDataError, "found -1"),
    (
        "padded_real",
        saved({"padded": torch.zeros(2, 3), "lengths": torch.zeros(2)}),
        InvalidDataError,
        "integer lengths",
    ),
    ("packed_total", packed(sizes=(2, 2)), InvalidLoDError, "must be the number of rows"),
    ("packed_grows", packed(sizes=(1, 2)), InvalidDataError, "that never grow"),
    ("packed_zero", packed(sizes=(3, 0)), InvalidDataError, "expected positive numbers"),
    ("packed_below", packed(sizes=(4, -1)), InvalidLoDError, "batch_sizes: level 0, position 1"),
    ("packed_real", packed(sizes=(2.0, 1.0)), InvalidLoDError, "must be integers"),
    ("packed_order", packed(there=ints(0, 0)), InvalidDataError, "order|sorted_indices"),
    ("packed_far", packed(there=ints(0, 5)), LodError, "each once|out of bounds"),
    ("packed_few", packed(there=ints(0)), InvalidDataError, "expected 0 to 1, each once"),
    (
        "packed_back",
        packed(there=ints(1, 0), back=ints(0, 1)),
        InvalidDataError,
        "are not the inverse",
    ),
    ("jagged_falls", jagged(_offsets=ints(0, 3, 1)), InvalidLoDError, "offsets decrease"),
    ("jagged_short", jagged(_offsets=ints(0, 1, 2)), InvalidLoDError, "number of rows"),
    ("jagged_long", jagged(_offsets=ints(0, 1, 9)), InvalidLoDError, "number of rows"),
    ("jagged_holes", jagged(_lengths=ints(1, 9)), LodError, "position 1: 9 rows from row 1 "),
    ("jagged_fewer", jagged(_lengths=ints(1)), InvalidDataError, "1 lengths do not fit its 3 offs"),
    ("jagged_none", jagged(_lengths=ints(), _offsets=ints()), InvalidDataError, "fit its 0 offs"),
    (
        "jagged_after",
        jagged(_offsets=ints(0, 9, 3), _lengths=ints(1, 0)),
        LodError,
        "from row 9 on",
    ),
    ("jagged_overlap", overlapping(), InvalidDataError, "overlap: 80000000 rows of 20000; save"),
    (
        "jagged_before",
        jagged(_offsets=ints(-1, 1, 3), _lengths=ints(1, 1)),
        LodError,
        "from row -1 on",
    ),
    ("jagged_minus", jagged(_lengths=ints(1, -9)), InvalidLoDError, "level 0, position 1"),
    ("jagged_turned", jagged(_ragged_idx=2), UnsupportedError, "whose dimension 2 is ragged"),
]


@pytest.mark.parametrize(
    ("data", "error", "message"), [case[1:] for case in DAMAGED], ids=[case[0] for case in DAMAGED]
)
def test_damage_is_named(tmp_path: Path, data: bytes, error: type[LodError], message: str) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(error, match=message) as caught:
        io.read_all(path, format_name="torch")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert len(text.splitlines()) == 1
    assert text.isprintable()


def test_an_unharmed_one_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.pt").write_bytes(GOOD)
    (found,) = io.read_all(tmp_path / "x.pt").values()
    assert not isinstance(found, list)


def test_an_archive_without_a_pickle_is_reported(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as file:
        file.writestr("a/other", b"x")
    with pytest.raises(NotThisFormatError, match=r"it has no data\.pkl"):
        io.read_all(tmp_path / "x.pt", format_name="torch")


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    read = partial(io.read_all, format_name="torch")
    assert not accepted(cut(GOOD, 7), tmp_path / "x.pt", read)


def test_a_flipped_bit_of_the_rows_is_found_where_there_are_checksums(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    data = bytearray(saved(torch.full((1000,), 7.0)))
    data[data.index(b"\0\0\xe0\x40" * 9) + 40] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedFileError, match="data/0: is damaged"):
        io.read_all(path)


def test_a_file_without_checksums_is_read(tmp_path: Path) -> None:
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        (tmp_path / "x.pt").write_bytes(saved([torch.zeros(3)]))
    finally:
        torch.serialization.set_crc32_options(before)
    assert list(io.read_all(tmp_path / "x.pt")) == ["data"]


@pytest.mark.parametrize("name", ["nested", "packed", "several"])
def test_no_change_of_the_pickle_crashes_or_runs_code(tmp_path: Path, name: str) -> None:
    whole = (Path(__file__).parents[1] / "made" / f"{name}.pt").read_bytes()
    with zipfile.ZipFile(bytes_io.BytesIO(whole)) as file:
        info = next(i for i in file.infolist() if i.filename.endswith("data.pkl"))
        raw = file.read(info)
    start = whole.index(raw)
    rng = np.random.default_rng(7)
    refused = 0
    for _ in range(400):
        data, changed = bytearray(whole), bytearray(raw)
        for _ in range(int(rng.integers(1, 3))):
            changed[int(rng.integers(len(changed)))] = int(rng.integers(256))
        data[start : start + len(raw)] = changed
        old, new = (struct.pack("<I", zlib.crc32(bytes(part))) for part in (raw, changed))
        path = tmp_path / "x.pt"
        path.write_bytes(bytes(data).replace(old, new))
        try:
            io.read_all(path, format_name="torch")
        except LodError:
            refused += 1
    assert refused > 100
