"""Files packed by gzip and Zstandard: read and written as if they were not."""

from __future__ import annotations

import gzip
import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.storage.compression import Packer, Unpacked
from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.formats.cases.opening import content, nested, pipe, source_of, tensors_of
from tests.formats.cases.processes import lod, python

LISTS = [list(range(n % 30)) for n in range(2000)]
TEXT = "".join(f"{json.dumps(line)}\n" for line in LISTS).encode()


def zstd(data: bytes) -> bytes:
    package = pytest.importorskip("zstandard")
    packed: bytes = package.ZstdCompressor(write_checksum=True).compress(data)
    return packed


def unzstd(data: bytes) -> bytes:
    package = pytest.importorskip("zstandard")
    found: bytes = package.ZstdDecompressor().decompressobj().decompress(data)
    return found


CODECS = pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".zst", zstd)])
Pack = Callable[[bytes], bytes]


@CODECS
def test_a_packed_file_is_read(suffix: str, pack: Pack, tmp_path: Path) -> None:
    path = tmp_path / f"t.jsonl{suffix}"
    path.write_bytes(pack(TEXT))
    assert nested(content(path)["data"]) == LISTS
    with pipe(tmp_path, f".jsonl{suffix}", pack(TEXT)) as fifo:
        assert nested(content(fifo)["data"]) == LISTS


@pytest.mark.parametrize(("codec", "unpack"), [("gzip", gzip.decompress), ("zstd", unzstd)])
def test_a_large_buffer_is_packed_in_pieces(codec: str, unpack: Pack) -> None:
    if codec == "zstd":
        pytest.importorskip("zstandard")
    data = np.frombuffer(np.random.default_rng(0).bytes(3 << 20), np.int32)[None]
    parts: list[bytes] = []
    packer = Packer(parts.append, codec)
    packer.write(data.data)
    packer.finish()
    assert max(map(len, parts)) < 3 << 19
    assert unpack(b"".join(parts)) == data.tobytes()


@CODECS
def test_several_members_are_one_file(suffix: str, pack: Pack, tmp_path: Path) -> None:
    path = tmp_path / f"t.jsonl{suffix}"
    path.write_bytes(pack(TEXT[:1000]) + pack(b"") + pack(TEXT[1000:]))
    assert nested(content(path)["data"]) == LISTS


def test_frames_without_content_are_skipped(tmp_path: Path) -> None:
    # As pzstd writes them: before each frame, its packed size.
    parts = [zstd(TEXT[:1000]), zstd(TEXT[1000:])]
    data = b"".join(
        b"\x50\x2a\x4d\x18\x04\0\0\0" + struct.pack("<I", len(part)) + part for part in parts
    )
    path = tmp_path / "t.jsonl.zst"
    path.write_bytes(data)
    assert nested(content(path)["data"]) == LISTS
    with pipe(tmp_path, "", data) as fifo, source_of(fifo, format_name="jsonl") as source:
        assert nested(tensors_of(source.read())["data"]) == LISTS
    with Unpacked(path.open("rb"), "zstd") as unpacked:
        assert unpacked.read() == TEXT
        assert unpacked.checksums == "XXH64 of what zstd compressed"
    path.write_bytes(data[:12])
    with Unpacked(path.open("rb"), "zstd") as unpacked:
        assert unpacked.read() == b""
        assert unpacked.checksums == ""


def test_a_window_over_the_limit_is_no_damage(tmp_path: Path) -> None:
    package = pytest.importorskip("zstandard")
    parameters = package.ZstdCompressionParameters(window_log=28)
    packer = package.ZstdCompressor(compression_params=parameters).compressobj()
    (tmp_path / "t.jsonl.zst").write_bytes(packer.compress(TEXT) + packer.flush())
    with pytest.raises(UnsupportedError, match=r"needs 256 MiB .* `zstd -d --long=31`$"):
        content(tmp_path / "t.jsonl.zst")


@CODECS
def test_standard_input_may_be_packed(suffix: str, pack: Pack) -> None:
    done = lod("convert", "-", "--from", "jsonl", "--to", "jsonl", input=pack(TEXT), text=False)
    assert done.stderr == b""
    assert done.stdout == TEXT.replace(b" ", b"")


@CODECS
def test_a_pipe_whose_name_has_no_extension_may_be_packed(
    suffix: str, pack: Pack, tmp_path: Path
) -> None:
    # As bash names those of <(..): /dev/fd/63.
    for data in (pack(b"[1,2]\n[3]\n"), b"[1,2]\n[3]\n"):
        with pipe(tmp_path, "", data) as fifo, source_of(fifo, format_name="jsonl") as source:
            assert nested(tensors_of(source.read())["data"]) == [[1, 2], [3]]


NUMBERS = [0x8B1F, 8, 4, 5, 6, 7, 8]  # begin like gzip
TOKENS = np.array(NUMBERS, "<u2").tobytes()


def test_raw_numbers_in_a_pipe_may_begin_like_a_packed_file(tmp_path: Path) -> None:
    for ending in ("", ".bin"):
        with pipe(tmp_path, ending, TOKENS) as fifo, source_of(fifo, format_name="tokens") as found:
            assert any("begins like data compressed by gzip" in note for note in found.notes)
            assert tensors_of(found.read())["data"].data.tolist() == NUMBERS
    with (  # as a file of this name
        pipe(tmp_path, ".bin", TOKENS) as fifo,
        pytest.raises(LodError, match="packed with gzip; if it holds tokens, use format_name='to"),
        source_of(fifo),
    ):
        pass


@CODECS
def test_numbers_in_a_pipe_are_unpacked_if_its_name_says_packed(
    suffix: str, pack: Pack, tmp_path: Path
) -> None:
    with (
        pipe(tmp_path, f".bin{suffix}", pack(TOKENS)) as fifo,
        source_of(fifo, format_name="tokens") as source,
    ):
        assert tensors_of(source.read())["data"].data.tolist() == NUMBERS


def test_raw_numbers_in_standard_input_may_begin_like_a_packed_file() -> None:
    done = lod("convert", "-", "--from", "tokens", "--to", "jsonl", input=TOKENS, text=False)
    assert [json.loads(line) for line in done.stdout.splitlines()] == NUMBERS
    assert b"give a file whose name ends with .gz, or the output of gzip -dc" in done.stderr


def test_a_pipe_packed_twice_is_not_told_to_change_its_name(tmp_path: Path) -> None:
    twice = gzip.compress(gzip.compress(TEXT))
    with (
        pipe(tmp_path, "", twice) as fifo,
        pytest.raises(LodError, match="it is still packed with gzip when it was decompressed once"),
        source_of(fifo),
    ):
        pass


@CODECS
def test_a_file_cut_anywhere_is_named_as_such(suffix: str, pack: Pack, tmp_path: Path) -> None:
    whole, path = pack(TEXT[:3000]), tmp_path / f"t.jsonl{suffix}"
    for size in range(6, len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(
            DamagedFileError, match=r"t\.jsonl\.(gz|zst): (gzip|zstd): is truncated"
        ):
            content(path)


@CODECS
def test_altered_bytes_are_found(suffix: str, pack: Pack, tmp_path: Path) -> None:
    whole, path = pack(TEXT[:3000]), tmp_path / f"t.jsonl{suffix}"
    refused = 0
    for place in range(10, len(whole)):
        data = bytearray(whole)
        data[place] ^= 0x10
        path.write_bytes(data)
        try:
            assert nested(content(path)["data"]) == LISTS[: len(content(path)["data"])]
        except LodError:
            refused += 1
    assert refused > (len(whole) - 10) * 0.9


def test_only_zeros_or_a_member_may_follow_a_member_of_gzip(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(gzip.compress(TEXT) + bytes(512))  # as tapes end
    assert nested(content(path)["data"]) == LISTS
    path.write_bytes(gzip.compress(TEXT) + b"hello")
    with pytest.raises(DamagedFileError, match="gzip: is damaged"):
        content(path)


@pytest.mark.parametrize("name", ["t.jsonl", "t.ts", "t.txt"])
@pytest.mark.parametrize(("suffix", "unpack"), [(".gz", gzip.decompress), (".zst", unzstd)])
def test_text_is_packed_as_its_name_says(
    name: str, suffix: str, unpack: Pack, tmp_path: Path
) -> None:
    if suffix == ".zst":
        zstd(b"")
    if name == "t.ts":
        tensor = LoDTensor(np.arange(6.0).reshape(6, 1), LoD.from_lengths([[2, 4]], ["series"]))
    elif name == "t.txt":
        letters = np.frombuffer(b"abcdef", np.uint8)
        lod = LoD.from_lengths([[2], [1, 1], [2, 4]], ["article", "sentence", "word"])
        tensor = LoDTensor(letters, lod)
    else:
        tensor = LoDTensor(np.arange(6), LoD.from_lengths([[2, 4]]))
    for path in (tmp_path / name, tmp_path / f"{name}{suffix}"):
        io.write(path, tensor)
    packed = (tmp_path / f"{name}{suffix}").read_bytes()
    assert unpack(packed) == (tmp_path / name).read_bytes()
    assert suffix == ".gz" or packed[4] & 4, "zstd is without a checksum"
    both = [content(path) for path in (tmp_path / name, tmp_path / f"{name}{suffix}")]
    assert all(both[0][key].identical(both[1][key]) for key in both[0])


def test_binary_formats_are_not_packed_as_a_whole(tmp_path: Path) -> None:
    refused = "is not compressed as a whole, so that parts can be read; name it "
    ends = {"t.npz.gz": "t.npz", "t.lod.h5.zst": "t.lod.h5, and give compression="}
    for name, remedy in ends.items():
        with pytest.raises(UnsupportedError, match=f"{refused}{remedy}$"):
            io.write(tmp_path / name, LoDTensor(np.arange(3)))
    assert not list(tmp_path.iterdir())


def test_a_binary_file_packed_by_others_is_read(tmp_path: Path) -> None:
    io.write(tmp_path / "t.npz", LoDTensor(np.arange(3)))
    (tmp_path / "t.npz.gz").write_bytes(gzip.compress((tmp_path / "t.npz").read_bytes()))
    assert content(tmp_path / "t.npz.gz")["data"].data.tolist() == [0, 1, 2]


def test_zstandard_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UnsupportedError, match=r"'lodcli\[codecs\]', or decompress it with"):
        content(tmp_path / "t.jsonl.zst")
    with pytest.raises(UnsupportedError, match=r"is to be .* 'lodcli\[codecs\]', or write \.gz$"):
        io.write(tmp_path / "u.jsonl.zst", LoDTensor(np.arange(3)))
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl.zst"]


@CODECS
def test_a_bomb_is_read_in_little_memory(suffix: str, pack: Pack, tmp_path: Path) -> None:
    path = tmp_path / f"t.txt{suffix}"
    path.write_bytes(pack((b"a" * 100 + b"\nb\n").ljust(90 << 20)))
    assert path.stat().st_size < 1 << 20
    code = (
        "import sys, re\nfrom lodcli.formats.storage.inputs import Input\n"
        "source = Input(sys.argv[1])\n"
        "while source.file.read(1 << 20): pass\n"
        "print(int(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1]) >> 10)\n"
    )
    assert int(python(code, path, check=True).stdout) < 100


def test_a_file_named_so_but_not_packed_is_refused(tmp_path: Path) -> None:
    for name in ("t.jsonl.gz", "t.txt.zst"):
        (tmp_path / name).write_bytes(TEXT)
        with pytest.raises(
            DamagedFileError, match=r"named as if compressed .* does not begin like that"
        ):
            content(tmp_path / name)
    (tmp_path / "t.txt.gz").write_bytes(b"")
    with pytest.raises(DamagedFileError, match=r"named as if compressed .* but is empty"):
        content(tmp_path / "t.txt.gz")
    (tmp_path / "t.jsonl").write_bytes(gzip.compress(TEXT))
    (tmp_path / "twice.jsonl.gz").write_bytes(gzip.compress(gzip.compress(TEXT)))
    for name in ("t.jsonl", "twice.jsonl.gz"):
        with pytest.raises(InvalidDataError, match="packed with gzip; unpack it first, or"):
            content(tmp_path / name)
