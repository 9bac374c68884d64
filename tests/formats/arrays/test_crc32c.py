"""CRC32C, by the C function that holds no lock and by the Python package."""

from __future__ import annotations

import sys

import google_crc32c
import numpy as np
import pytest

from lodcli.formats.arrays import crc32c

CONTENT = np.random.default_rng(5).integers(0, 256, 100_000, dtype=np.uint8)
SIZES = [0, 1, 9, crc32c._UNLOCKED_BYTES - 1, crc32c._UNLOCKED_BYTES, len(CONTENT)]


@pytest.fixture(params=[True, False], ids=["unlocked", "package"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(crc32c, "_extend", None)


def test_the_check_value_of_the_algorithm() -> None:
    assert crc32c.value(b"123456789") == 0xE3069283  # RFC 3720's polynomial


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("start", [0, 3])
def test_bytes_and_arrays_have_the_checksum_of_the_package(size: int, start: int) -> None:
    array = CONTENT[start : start + size]
    expected = google_crc32c.value(array.tobytes())
    assert crc32c.value(array) == crc32c.value(array.tobytes()) == expected


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("cut", [0, 100, 50_000])
def test_a_checksum_goes_on_behind_the_bytes_before(cut: int) -> None:
    before = crc32c.value(CONTENT[:cut])
    assert crc32c.extend(before, CONTENT[cut:]) == crc32c.value(CONTENT)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("block_bytes", [1000, 30_000, 50_000, 200_000])
def test_blocks_have_a_checksum_each(block_bytes: int) -> None:
    starts = range(0, len(CONTENT), block_bytes)
    expected = [google_crc32c.value(CONTENT[at : at + block_bytes].tobytes()) for at in starts]
    assert crc32c.of_blocks(CONTENT, block_bytes) == expected


def test_bytes_that_lie_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        crc32c.value(CONTENT[::2])
    with pytest.raises(ValueError, match="contiguous"):
        crc32c.of_blocks(CONTENT[::2], 20_000)


def test_read_only_arrays_are_summed() -> None:
    array = np.frombuffer(CONTENT.tobytes(), np.uint8)
    assert crc32c.value(array) == crc32c.value(CONTENT)


@pytest.mark.skipif(
    sys.platform != "linux" or google_crc32c.implementation != "c",
    reason="needs google-crc32c in C, as linked on Linux",
)
def test_the_function_that_holds_no_lock_is_found() -> None:
    assert crc32c._extend is not None
