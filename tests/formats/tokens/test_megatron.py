"""megatron: exchange of files with megatron-core, in both directions."""

from __future__ import annotations

import os
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.storage.outputs import TargetExistsError
from lodcli.formats.tokens.megatron_index import DTYPES
from lodcli.kernels.errors import LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.damage import changed, read_each
from tests.formats.cases.opening import batches_of, content, nested
from tests.sampling import many
from tests.strategies import tensors

THEIRS = Path(__file__).parents[1] / "theirs"
DOCUMENTS = [[[5, 6, 7], [8]], [], [[9, 10], [], [11, 12, 13, 14]]]
HELD = tuple(np.dtype(name) for name in DTYPES.values())
LEVELS = ["document", "sequence"]


def idx(
    lengths: list[int],
    pointers: list[int],
    documents: list[int],
    *,
    modes: list[int] | None = None,
    code: int = 4,
    head: bytes = b"MMIDIDX\0\0",
    version: int = 1,
    sequences: int | None = None,
    count: int | None = None,
) -> bytes:
    """Return the bytes of an index with any given fields."""
    said = len(lengths) if sequences is None else sequences
    counted = len(documents) if count is None else count
    return b"".join(
        [
            head + struct.pack("<QBQQ", version, code, said, counted),
            np.array(lengths, "<i4").tobytes(),
            np.array(pointers, "<i8").tobytes(),
            np.array(documents, "<i8").tobytes(),
            np.array(modes or [], "i1").tobytes(),
        ]
    )


def fairseq(lengths: list[int], pointers: list[int], code: int = 4) -> bytes:
    """Return the bytes of an index of fairseq."""
    parts = np.array(lengths, "<i4").tobytes(), np.array(pointers, "<i8").tobytes()
    return b"MMIDIDX\0\0" + struct.pack("<QBQ", 1, code, len(lengths)) + b"".join(parts)


def pair(folder: Path, index: bytes, tokens: bytes) -> Path:
    (folder / "x.bin").write_bytes(tokens)
    (folder / "x.idx").write_bytes(index)
    return folder / "x.idx"


def tokens(*values: int) -> bytes:
    return np.array(values, "<i4").tobytes()


# -- the real tool -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["megatron.idx", "megatron.bin"])
def test_a_dataset_of_megatron_core_is_read_by_either_name(name: str) -> None:
    found = content(THEIRS / name)
    assert list(found) == ["data"]
    assert nested(found["data"]) == DOCUMENTS
    assert found["data"].dtype == np.uint16
    assert found["data"].lod.names == ("document", "sequence")


def test_the_modes_of_megatron_core_are_a_tensor_beside_the_tokens() -> None:
    found = content(THEIRS / "megatron_modes.idx")
    assert nested(found["data"]) == DOCUMENTS
    assert found["data"].dtype == np.int32
    assert nested(found["mode"]) == [[0, 1], [], [2, 3, 4]]
    assert found["mode"].dtype == np.int8


@pytest.mark.parametrize("name", ["megatron", "megatron_modes"])
def test_files_of_megatron_core_come_back_byte_by_byte(name: str, tmp_path: Path) -> None:
    io.write(tmp_path / "x.idx", content(THEIRS / f"{name}.idx"))
    for suffix in (".idx", ".bin"):
        theirs = (THEIRS / f"{name}{suffix}").read_bytes()
        assert (tmp_path / f"x{suffix}").read_bytes() == theirs


@pytest.mark.parametrize("dtype", HELD, ids=str)
def test_megatron_core_reads_what_we_write(dtype: np.dtype[Any], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip("megatron.core.datasets.indexed_dataset")
    rows = np.arange(250, 260).astype(dtype)
    lod = LoD.from_lengths([[2, 0, 3], [3, 1, 2, 0, 4]])
    modes = LoDTensor(np.array([4, 0, -3, 1, 2], np.int8), lod.above(-1))
    io.write(tmp_path / "x.idx", {"data": LoDTensor(rows, lod)})
    io.write(tmp_path / "modes.idx", {"data": LoDTensor(rows, lod), "mode": modes})
    theirs = module.IndexedDataset(str(tmp_path / "x"))
    assert theirs.document_indices.tolist() == [0, 2, 2, 5]
    ends = [0, 3, 4, 6, 6, 10]
    assert len(theirs) == 5
    for number in range(5):
        found = theirs[number]
        assert found.dtype == dtype
        assert found.tolist() == rows[ends[number] : ends[number + 1]].tolist()
    with_modes = module.IndexedDataset(str(tmp_path / "modes"), multimodal=True)
    assert [with_modes[number][1] for number in range(5)] == [4, 0, -3, 1, 2]


# -- round trips ---------------------------------------------------------------------


@given(
    tensor=tensors(HELD, row_shapes=[()], min_levels=1, max_levels=2, any_bits=True),
    limit_bytes=st.sampled_from([1, 20, 1 << 20]),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_bits_come_back(tmp_path: Path, tensor: LoDTensor, limit_bytes: int) -> None:
    path = tmp_path / "x.idx"
    io.write(path, tensor, overwrite=True)
    names = LEVELS[2 - tensor.lod.n_levels :]
    plain = LoDTensor(np.array(tensor.data), tensor.lod.with_names(names))
    parts = [batch["data"] for batch in batches_of(path, limit_bytes, levels=tuple(names))]
    assert LoDTensor.concatenate(parts).identical(plain)
    if limit_bytes == 1:
        assert len(parts) == max(1, len(plain))
    with lodcli.open(path) as source:
        assert source.schema[0].rows == tensor.rows


@pytest.mark.parametrize("limit_bytes", [1, 1 << 20])
@pytest.mark.parametrize("name", ["fairseq.idx", "fairseq.bin"])
def test_a_dataset_of_fairseq_has_no_documents(name: str, limit_bytes: int) -> None:
    found = LoDTensor.concatenate([one["data"] for one in batches_of(THEIRS / name, limit_bytes)])
    assert nested(found) == [[5, 6, 7, 2], [2], [], [9, 10, 11, 12, 2]]  # as make_fairseq.py wrote
    assert found.dtype == np.uint16
    assert found.lod.names == ("sequence",)
    with lodcli.open(THEIRS / name) as source:
        assert source.slice("data", (3, slice(1, 3))).data.tolist() == [10, 11]


@pytest.mark.parametrize(("code", "dtype"), [(4, "int32"), (7, "float64"), (9, "uint32")])
def test_dtypes_of_fairseq_have_its_codes(code: int, dtype: str, tmp_path: Path) -> None:
    rows = np.array([1, 2, 3], np.dtype(dtype).newbyteorder("<"))
    path = pair(tmp_path, fairseq([2, 1], [0, 2 * rows.itemsize], code=code), rows.tobytes())
    assert content(path)["data"].identical(
        LoDTensor(rows, LoD.from_lengths([[2, 1]], ["sequence"]))
    )


def test_a_dataset_of_fairseq_may_be_empty_and_its_level_named(tmp_path: Path) -> None:
    path = pair(tmp_path, fairseq([], []), b"")
    assert len(content(path)["data"]) == 0
    assert content(THEIRS / "fairseq.idx", levels=("line",))["data"].lod.names == ("line",)
    with pytest.raises(UnsupportedError, match=r"fairseq\.idx: .*of fairseq, which has 1 level"):
        content(THEIRS / "fairseq.idx", levels=("a", "b"))


@pytest.mark.parametrize(("head", "kind"), [(b"TNTIDX\0\0", "cached"), (b"HUFFIDX\0\0", "huffman")])
def test_other_kinds_of_fairseq_are_named(head: bytes, kind: str, tmp_path: Path) -> None:
    path = pair(tmp_path, head + bytes(40), b"")
    with pytest.raises(UnsupportedError, match=rf"x\.idx: .*--dataset-impl {kind}; .* for mmap"):
        content(path)


def test_one_level_becomes_documents_of_one_sequence(tmp_path: Path) -> None:
    io.write(tmp_path / "x.idx", LoDTensor(np.arange(5), LoD.from_lengths([[2, 0, 3]])))
    assert nested(content(tmp_path / "x.idx")["data"]) == [[[0, 1]], [[]], [[2, 3, 4]]]


def test_one_level_name_leaves_the_documents_out() -> None:
    found = content(THEIRS / "megatron_modes.idx", levels=("turn",))
    assert nested(found["data"]) == [[5, 6, 7], [8], [9, 10], [], [11, 12, 13, 14]]
    assert found["data"].lod.names == ("turn",)
    assert found["mode"].data.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(UnsupportedError, match="has 2 levels, or 1, found 3 names"):
        content(THEIRS / "megatron.idx", levels=("a", "b", "c"))


@given(data=st.data())
@settings(
    max_examples=many(60, share=4),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_slice_is_that_of_the_whole(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "x.idx"
    tensor = data.draw(tensors(HELD, row_shapes=[()], min_levels=2, max_levels=2))
    io.write(path, tensor, overwrite=True)
    level = data.draw(st.integers(0, 1))
    count = tensor.lod.count(level)
    start, stop = sorted(data.draw(st.tuples(st.integers(0, count), st.integers(0, count))))
    with lodcli.open(path) as source:
        branches: list[tuple[Key, ...]] = [
            (slice(start, stop),),
            *([(start,)] if start < count else []),
        ]
        for branch in branches:
            whole = tensor.select(*branch, level=level)
            found = source.slice("data", branch, level)
            assert found.data.tolist() == whole.data.tolist()
            assert found.recursive_sequence_lengths() == whole.recursive_sequence_lengths()


# -- where sequences lie -------------------------------------------------------------


@pytest.mark.parametrize("limit_bytes", [1, 1 << 20])
def test_sequences_may_lie_anywhere(limit_bytes: int, tmp_path: Path) -> None:
    index = idx([2, 1, 0, 3, 1], [16, 4, 999 - 995, 4 + 4, 0], [0, 1, 5])
    path = pair(tmp_path, index, tokens(10, 11, 12, 13, 14, 15, 16))
    parts = [batch["data"] for batch in batches_of(path, limit_bytes)]
    expected = [[[14, 15]], [[11], [], [12, 13, 14], [10]]]
    assert nested(LoDTensor.concatenate(parts)) == expected
    with lodcli.open(path) as source:
        assert source.slice("data", (slice(3, 5),), 1).data.tolist() == [12, 13, 14, 10]


def test_sequences_need_not_be_aligned(tmp_path: Path) -> None:
    path = pair(tmp_path, idx([1], [3], [0, 1]), b"???" + tokens(-7))
    assert content(path)["data"].data.tolist() == [-7]


def test_more_than_2_to_the_31_tokens_are_counted(tmp_path: Path) -> None:
    """The .bin file is a hole but for its ends: 6 GB that take no room."""
    most = 2**31 - 1
    sizes = [most, 7, most, most, 3]
    starts = [0, *np.cumsum(sizes)[:-1].tolist()]
    path = pair(tmp_path, idx(sizes, starts, [0, 2, 5], code=1), b"")
    with open(tmp_path / "x.bin", "r+b") as file:
        file.truncate(sum(sizes))
        for start, size in zip(starts, sizes, strict=True):
            os.pwrite(file.fileno(), bytes([size % 251]), start + size - 1)
    with lodcli.open(path) as source:
        assert source.schema[0].rows == sum(sizes) > 2**32
        assert source.slice("data", (1, 2)).data.tolist() == [0, 0, 3]
        for number, size in enumerate(sizes):
            last = source.slice("data", (number, slice(-1, None)), 1)
            assert last.data.tolist() == [size % 251]


# -- what cannot be held -------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ({"data": np.zeros(3, np.float16)}, "megatron holds no float16"),
        ({"data": np.zeros(3, np.uint32)}, "megatron holds no uint32"),
        ({"data": np.zeros(3, bool)}, "megatron holds no bool"),
        ({"data": np.zeros((3, 1), np.int32)}, "rows of at most 0 dimensions"),
        ({"data": np.zeros(3, np.int32), "tags": np.zeros(3)}, "and a mode for each"),
        (
            {"data": np.zeros(3, np.int32), "mode": np.zeros(3, np.int16)},
            "one int8 per sequence",
        ),
        (
            {"data": np.zeros(3, np.int32), "mode": np.zeros(3, np.int8)},
            "only beside data of two levels",
        ),
    ],
)
def test_tensors_that_megatron_cannot_hold_are_refused_by_name(
    items: dict[str, Any], message: str, tmp_path: Path
) -> None:
    lod = LoD.from_lengths([[3]])
    with pytest.raises(UnsupportedError, match=message):
        io.write(tmp_path / "x.idx", {name: LoDTensor(rows, lod) for name, rows in items.items()})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("lengths", [[], [[1], [1], [1]]])
def test_no_level_and_three_are_refused(lengths: list[list[int]], tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"megatron (needs 1|holds 2) level"):
        io.write(tmp_path / "x.idx", LoDTensor(np.zeros(1, np.int32), lengths))


def test_a_sequence_too_long_for_its_length_is_refused(tmp_path: Path) -> None:
    long = LoDTensor(np.broadcast_to(np.uint8(1), 2**31), LoD.from_lengths([[1], [2**31]]))
    with pytest.raises(UnsupportedError, match=r"at most 2147483647 tokens .* 0 has 2147483648"):
        io.write(tmp_path / "x.idx", long)
    assert not list(tmp_path.iterdir())


def test_the_name_to_write_is_that_of_the_index(tmp_path: Path) -> None:
    tensor = content(THEIRS / "megatron.idx")["data"]
    with pytest.raises(SelectionError, match=r"megatron writes X.idx and X.bin; name X.idx"):
        io.write(tmp_path / "x.bin", tensor, format_name="megatron")
    with pytest.raises(UnsupportedError, match="several files, not one stream of bytes"):
        io.write("-", tensor, format_name="megatron")
    (tmp_path / "x.bin").write_bytes(b"mine")
    with pytest.raises(TargetExistsError, match=r"x\.bin: exists already"):
        io.write(tmp_path / "x.idx", tensor)
    assert os.listdir(tmp_path) == ["x.bin"]


# -- damage --------------------------------------------------------------------------

BIN = tokens(1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (b"", "is cut off: 0 bytes, its header has 34"),
        (idx([2, 3], [0, 8], [0, 2], head=b"MMIDIDX\0\1"), "does not begin with MMIDIDX"),
        (idx([2, 3], [0, 8], [0, 2], head=b"LODIDX\0\0\0"), "does not begin with MMIDIDX"),
        (idx([2, 3], [0, 8], [0, 2], version=2), "has version 2; expected 1"),
        (idx([2, 3], [0, 8], [0, 2], version=2**63), "has version 9223372036854775808"),
        (idx([2, 3], [0, 8], [0, 2], code=0), "has dtype code 0; expected 1 to 8"),
        (idx([2, 3], [0, 8], [0, 2], code=9), "has dtype code 9"),
        (idx([2, 3], [0, 8], [0, 2], code=255), "has dtype code 255"),
        (idx([2, 3], [0, 8], [0, 2], sequences=3), "announces 3 sequences: needs 62 bytes as an"),
        (idx([2, 3], [0, 8], [0, 2], sequences=1), "announces 1 sequences"),
        (idx([2, 3], [0, 8], [0, 2], sequences=2**60), "announces 1152921504606846976 sequences"),
        (idx([2, 3], [0, 8], [0, 2], sequences=2**64 - 1), "announces 18446744073709551615"),
        (idx([2, 3], [0, 8], [0, 2], count=2**62), "a document index of 4611686018427387904"),
        (idx([2, 3], [0, 8], [0, 2], count=1), "needs"),
        (idx([2, 3], [0, 8], []), "has no document index"),
        (idx([2, 3], [0, 8], [1, 2]), "expected 0 first, found 1"),
        (idx([2, 3], [0, 8], [-1, 2]), "expected 0 first, found -1"),
        (idx([2, 3], [0, 8], [0, 2, 1, 2]), r"decreases at position 2 \(2, then 1\)"),
        (idx([2, 3], [0, 8], [0, 1]), "ends at 1, but there are 2 sequences"),
        (idx([2, 3], [0, 8], [0]), "ends at 0, but there are 2 sequences.*levels='sequence'"),
        (idx([2, 3], [0, 8], [0, 2**62]), "ends at 4611686018427387904"),
        (idx([2, -3], [0, 8], [0, 2]), "sequence 1 has length -3"),
        (idx([2, 4], [0, 8], [0, 2]), "sequence 1 needs 16 bytes from 8 on, the .bin file has 20"),
        (idx([2, 2**31 - 1], [0, 8], [0, 2]), "sequence 1 needs 8589934588 bytes"),
        (idx([2, 3], [0, -8], [0, 2]), "sequence 1 needs 12 bytes from -8 on"),
        (idx([2, 3], [0, 2**63 - 1], [0, 2]), "sequence 1 needs 12 bytes from 9223372036854775807"),
        (idx([2, 3], [0, 8], [0, 2], code=5), "sequence 1 needs 24 bytes from 8 on"),
        (idx([2, 0], [0, 21], [0, 2]), "sequence 1 needs 0 bytes from 21 on"),
        (idx([3, 3], [0, 0], [0, 2]), "6 tokens need 24 bytes, the .bin file has 20: .* overlap"),
        (idx([2, 3], [0, 8], [0, 2], modes=[1]), "needs"),
        (idx([2, 3], [0, 8], [0, 2], modes=[1, 2, 3]), "needs"),
        (fairseq([2, 3], [0, 4]), "sequence 1 begins at byte 4 .*; expected 8, where the one"),
        (fairseq([2, 3], [0, 8], code=11), "has dtype code 11; expected 1 to 10"),
        (fairseq([2, 3], [0, 8])[:-3], "needs 50 bytes as an index of fairseq, or .*; found 47"),
        (fairseq([2, 3], [0, 8]) + bytes(8), "needs 50 bytes as an index of fairseq, .* found 58"),
        (fairseq([2, 3], [0, 8]) + bytes(16), "needs 50 bytes as an index of fairseq, .* found 66"),
        (fairseq([2, 2], [0, 8]), r"4 tokens need 16 bytes, the \.bin file has 20; it belongs"),
        (fairseq([2, 4], [0, 8]), "sequence 1 needs 16 bytes from 8 on, the .bin file has 20"),
    ],
)
def test_an_index_that_contradicts_itself_is_named(
    index: bytes, message: str, tmp_path: Path
) -> None:
    path = pair(tmp_path, index, BIN)
    with pytest.raises(LodError, match=message), lodcli.open(path, format_name="megatron") as _:
        pass


def test_a_file_truncated_at_any_length_is_an_error(tmp_path: Path) -> None:
    index, stored = idx([2, 3], [0, 8], [0, 1, 2]), BIN
    for size in range(len(index)):
        path = pair(tmp_path, index[:size], stored)
        with pytest.raises(DamagedFileError, match=r"x\.idx: "):
            io.read(path, format_name="megatron")
    for size in range(len(stored)):
        path = pair(tmp_path, index, stored[:size])
        with pytest.raises(
            DamagedFileError, match=r"x\.idx: sequence .*; fetch or copy both again"
        ):
            io.read(path)


def test_damage_gives_an_error_or_a_sound_tensor(tmp_path: Path) -> None:
    whole = idx([2, 0, 3], [0, 8, 8], [0, 1, 3], modes=[1, 2, 3])
    found = list(read_each(changed(whole, 400, 2), pair(tmp_path, whole, BIN), content))
    assert all(one is None or one["data"].rows <= 5 for one in found)
    assert 200 < found.count(None) < 400


def test_a_missing_neighbour_is_named(tmp_path: Path) -> None:
    path = pair(tmp_path, idx([2, 3], [0, 8], [0, 2]), BIN)
    (tmp_path / "x.bin").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        content(path)
    assert os.fspath(caught.value.filename) == str(tmp_path / "x.bin")
