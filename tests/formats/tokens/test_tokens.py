"""tokens and llmc: the training data of nanoGPT and llm.c."""

from __future__ import annotations

import struct
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import schema_of
from lodcli.kernels.errors import LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.damage import accepted, cut
from tests.formats.cases.opening import batches_of, content, content_of, nested, pipe, tensors_of

THEIRS = Path(__file__).parents[1] / "theirs"
EOT = 50256


def uint16(*tokens: int) -> bytes:
    return np.array(tokens, "<u2").tobytes()


def llmc(*tokens: int, magic: int = 20240520, version: int = 1, count: int | None = None) -> bytes:
    said = len(tokens) if count is None else count
    return struct.pack("<iii", magic, version, said) + bytes(1012) + uint16(*tokens)


def documents(lists: list[list[int]], dtype: Any = np.uint16) -> LoDTensor:
    flat = [token for one in lists for token in one]
    return LoDTensor(np.array(flat, dtype), LoD.from_lengths([[len(one) for one in lists]]))


# -- reading -------------------------------------------------------------------------


def test_files_of_both_projects_are_read() -> None:
    begun = [[50256, 464, 2068], [50256], [50256, 7586, 21831]]
    ended = [[464, 2068, 50256], [50256], [7586, 21831, 50256]]
    assert content(THEIRS / "llmc.bin")["data"].data.tolist() == [
        token for document in begun for token in document
    ]
    assert nested(content(THEIRS / "llmc.bin", start_token=EOT)["data"]) == begun
    assert nested(content(THEIRS / "nanogpt.bin", end_token=EOT)["data"]) == ended
    assert content(THEIRS / "nanogpt.bin", end_token=EOT)["data"].lod.names == ("document",)
    assert content(THEIRS / "nanogpt.bin", end_token=EOT, levels=("story",))["data"].lod.names == (
        "story",
    )


@pytest.mark.parametrize(
    ("tokens", "ends", "expected"),
    [
        ([0], True, [[0]]),
        ([0], False, [[0]]),
        ([1, 2], True, [[1, 2]]),
        ([1, 2], False, [[1, 2]]),
        ([0, 0, 1, 0], True, [[0], [0], [1, 0]]),
        ([0, 0, 1, 0], False, [[0], [0, 1], [0]]),
        ([1, 0, 2], True, [[1, 0], [2]]),
        ([1, 0, 2], False, [[1], [0, 2]]),
    ],
)
@pytest.mark.parametrize("limit_bytes", [1, 4, 1 << 20])
def test_documents_are_split_by_hand(
    tokens: list[int], ends: bool, expected: list[list[int]], limit_bytes: int, tmp_path: Path
) -> None:
    (tmp_path / "x.bin").write_bytes(uint16(*tokens))
    option = {"end_token" if ends else "start_token": 0}
    parts = [part["data"] for part in batches_of(tmp_path / "x.bin", limit_bytes, **option)]
    assert nested(LoDTensor.concatenate(parts)) == expected


@given(
    tokens=st.lists(st.integers(0, 2), min_size=1, max_size=12),
    ends=st.booleans(),
    limit_bytes=st.sampled_from([1, 6, 1 << 20]),
    kind=st.sampled_from(["tokens", "llmc"]),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_split_documents_come_back(
    tmp_path: Path, tokens: list[int], ends: bool, limit_bytes: int, kind: str
) -> None:
    mark: dict[str, Any] = {"end_token" if ends else "start_token": 0}
    path = tmp_path / "x.bin"
    path.write_bytes(uint16(*tokens) if kind == "tokens" else llmc(*tokens))
    with lodcli.open(path, **mark) as source:
        batches = [tensors_of(dict(batch)) for batch in source.batches(limit_bytes)]
        out = tmp_path / "out.bin"
        io.write_batches(
            out,
            source.schema,
            batches,
            format_name=kind,
            overwrite=True,
            options=WriteOptions(**mark),
        )
    assert out.read_bytes() == path.read_bytes()
    for part in (part["data"] for part in batches):
        marks = np.flatnonzero(part.data == 0).tolist()
        bounds = part.lod.levels[0]
        assert set(marks) >= set((bounds[1:-1] - (1 if ends else 0)).tolist())


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "int32", "int64"])
def test_other_integers_are_read_if_they_are_named(dtype: str, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(np.arange(5, dtype=dtype).tobytes())
    found = content(tmp_path / "x.bin", dtype=np.dtype(dtype))["data"]
    assert found.dtype == dtype
    assert found.data.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(UnsupportedError, match="integer dtype, found float32"):
        content(tmp_path / "x.bin", dtype=np.dtype("float32"))


@pytest.mark.parametrize("data", [uint16(1, 0, 2), llmc(1, 0, 2)], ids=["tokens", "llmc"])
def test_a_pipe_is_read(data: bytes, tmp_path: Path) -> None:
    with pipe(tmp_path, ".bin", data) as path:
        assert nested(content(path, end_token=0)["data"]) == [[1, 0], [2]]


# -- writing -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "magic", "version"), [("uint16", 20240520, 1), ("uint32", 20240801, 7)]
)
def test_the_header_of_llmc_is_written(
    dtype: str, magic: int, version: int, tmp_path: Path
) -> None:
    path = tmp_path / "x.bin"
    io.write(path, LoDTensor(np.array([7, 8, 9], dtype)), format_name="llmc")
    data = path.read_bytes()
    header = np.frombuffer(data, "<i4", 256)
    assert header[:3].tolist() == [magic, version, 3]
    assert not header[3:].any()
    assert np.frombuffer(data, f"<{np.dtype(dtype).str[1:]}", offset=1024).tolist() == [7, 8, 9]
    assert content(path)["data"].identical(LoDTensor(np.array([7, 8, 9], dtype)))


@pytest.mark.parametrize(
    ("lists", "mark", "message"),
    [
        ([[1, 0], []], {"end_token": 0}, "item 1 is empty: end_token=0 would not restore"),
        (
            [[1, 0], [2], [3, 0]],
            {"end_token": 0},
            "item 1 does not end with it: end_token=0 would not restore this item; no token is",
        ),
        ([[1, 0, 2, 0]], {"end_token": 0}, "item 0 has it before its end"),
        ([[1, 0], [0, 2, 0]], {"end_token": 0}, "item 1 has it before its end"),
        ([[0, 1], []], {"start_token": 0}, "item 1 is empty: start_token=0"),
        ([[1], [2]], {"start_token": 0}, "item 1 does not begin with it"),
        ([[0, 1], [0, 2, 0]], {"start_token": 0}, "item 1 has it before its end"),
        ([[1]], {}, "holds no levels, data has 1, unless a token ends or begins"),
    ],
)
def test_documents_that_would_not_be_split_again_are_refused(
    lists: list[list[int]], mark: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        io.write(tmp_path / "x.bin", documents(lists), **mark)
    assert not list(tmp_path.iterdir())


def test_an_unfinished_document_may_only_be_the_last_of_all_batches(tmp_path: Path) -> None:
    parts = [{"data": documents([[1, 0], [2]])}, {"data": documents([[3, 0]])}]
    with lodcli.open(THEIRS / "nanogpt.bin", end_token=0) as source:
        schema = source.schema
    with pytest.raises(UnsupportedError, match="item 1 does not end with it, but others follow"):
        io.write_batches(tmp_path / "x.bin", schema, parts, options=WriteOptions(end_token=0))
    io.write_batches(tmp_path / "x.bin", schema, parts[:1], options=WriteOptions(end_token=0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"end_token": 1, "start_token": 1}, "give end_token= or start_token=, not both"),
        ({"end_token": 65536}, "token 65536 is beyond uint16"),
        ({"start_token": -1}, "token -1 is beyond uint16"),
    ],
)
def test_marks_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        content(THEIRS / "nanogpt.bin", **options)


def test_level_names_need_a_level() -> None:
    with pytest.raises(UnsupportedError, match="has 0 levels, found 1 names"):
        content(THEIRS / "nanogpt.bin", levels=("a",))


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "uint8", "bool"])
@pytest.mark.parametrize("kind", ["tokens", "llmc"])
def test_other_dtypes_are_refused(kind: str, dtype: str, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=f"{kind} holds no {dtype}"):
        io.write(tmp_path / "x.bin", LoDTensor(np.zeros(3, dtype)), format_name=kind)


def test_more_tokens_than_a_header_counts_are_refused(tmp_path: Path) -> None:
    many = np.broadcast_to(np.uint16(1), 2**20)
    spec = schema_of({"data": LoDTensor(many)})
    batches = ({"data": LoDTensor(many)} for _ in range(2**11))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lodcli.formats.storage.outputs.Output.write", lambda self, data: None)
        with pytest.raises(UnsupportedError, match=r"at most 2147483647 tokens, .* 2147483648"):
            io.write_batches(tmp_path / "x.bin", spec, batches, format_name="llmc")
    assert not list(tmp_path.iterdir())


# -- damage --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (llmc(1, 2, magic=20240522), "is an evaluation file of llm.c"),
        (llmc(1, 2, magic=20240521), "begins with 20240521; expected the magic number 20240520"),
        (llmc(1, 2, magic=0), "begins with 0; expected"),
        (llmc(1, 2, magic=-1), "begins with -1; expected"),
        (llmc(1, 2, version=0), "has version 0; expected 1"),
        (llmc(1, 2, version=2), "has version 2; expected 1"),
        (llmc(1, 2, version=7), "has version 7; expected 1"),
        (llmc(1, 2, magic=20240801), "has version 1; expected 7"),
        (llmc(1, 2, version=-(2**31)), "has version -2147483648"),
        (llmc(1, 2, count=3), "announces 3 tokens, has 2; it is truncated; fetch or copy it again"),
        (llmc(1, 2, count=1), "announces 1 tokens, has 2; fetch or copy it again"),
        (llmc(1, 2, count=0), "announces 0 tokens, has 2"),
        (llmc(1, 2, count=-1), "announces -1 tokens"),
        (llmc(1, 2, count=2**31 - 1), "announces 2147483647 tokens, has 2"),
        (llmc(1, 2, magic=20240801, version=7), "announces 2 tokens, has 1"),
        (llmc(1, magic=20240801, version=7), "has 2 bytes of tokens, not a multiple of uint32"),
        (
            llmc(1, 2) + b"x",
            "has 5 bytes of tokens, not a multiple of uint16; fetch or copy it again",
        ),
        (llmc(1, 2) + b"xy", "announces 2 tokens, has 3"),
        (llmc()[:1023], "is cut off within its header, 1023 of 1024 bytes"),
        (llmc()[:4], "is cut off within its header, 4 of 1024 bytes"),
        (b"", "begins with 0; expected"),
    ],
)
@pytest.mark.parametrize("piped", [False, True])
def test_damage_is_named(data: bytes, message: str, piped: bool, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(data)
    if not piped:
        with pytest.raises(LodError, match=message):
            io.read(tmp_path / "x.bin", format_name="llmc")
    elif len(data) > 2:
        with pipe(tmp_path, ".bin", data) as path, pytest.raises(LodError, match=message):
            io.read(path, format_name="llmc")


def test_a_file_truncated_at_any_length_is_an_error(tmp_path: Path) -> None:
    whole = llmc(1, 2, 3)
    read = partial(io.read, format_name="llmc")
    assert not accepted(cut(whole), tmp_path / "x.bin", read, DamagedFileError)
    with pytest.raises(DamagedFileError, match="has 3 bytes of tokens, not a multiple of uint16"):
        content_of(tmp_path, ".bin", b"abc")


def test_a_chunk_of_litdata_is_not_read_as_tokens(tmp_path: Path) -> None:
    # As litdata.streaming.writer.BinaryWriter writes it: a count, offsets, samples.
    offsets = [2, 16, 24, 36]
    (tmp_path / "x.bin").write_bytes(np.array([*offsets, *range(5)], "<u4").tobytes())
    with pytest.raises(UnsupportedError, match="begins like a chunk of LitData"):
        io.read(tmp_path / "x.bin")
    for tokens in ([2, 16, 24, 23, 5], [0, 8, 9, 1, 2], [1, 12, 50, 9, 3]):
        (tmp_path / "x.bin").write_bytes(np.array(tokens, "<u4").tobytes())
        assert io.read(tmp_path / "x.bin").rows == 10


def test_a_file_with_a_header_is_not_read_as_bare_tokens(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(llmc(1, 2))
    with pytest.raises(UnsupportedError, match="read it with format_name='llmc'"):
        io.read(tmp_path / "x.bin", format_name="tokens")
