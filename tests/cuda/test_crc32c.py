"""CRC32C on a GPU compared with published values and with the CPU's.

Runs where cupy and a GPU are, or with the stand-in that tests/cuda/run.sh puts in its place.
"""

from __future__ import annotations

from typing import Any

import google_crc32c
import numpy as np
import pytest

cupy: Any = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

# Bytes that a thread reads at once, that a block reads at once, and the maximum of a block.
WORD, STRIDE, PART = 16, 4096, 32 * 4096


def crc32c(data: Any, block_bytes: int, start: int = 0, behind: int = 40) -> list[int]:
    """Return the checksums of bytes that begin `start` after an aligned address."""
    from lodcli.kernels.cuda.crc32c import block_crc32c

    # Other bytes around them must not affect the result.
    held = np.full(start + data.size + behind, 0x5A, np.uint8)
    held[start : start + data.size] = data
    there = cupy.asarray(held)
    assert there.data.ptr % WORD == 0
    found = block_crc32c(there[start : start + data.size], block_bytes)
    assert isinstance(found, cupy.ndarray)
    assert found.dtype == np.uint32
    return [int(each) for each in found.get()]


def expected(data: Any, block_bytes: int) -> list[int]:
    whole = data.tobytes()
    return [
        google_crc32c.value(whole[begin : begin + block_bytes])
        for begin in range(0, len(whole), block_bytes)
    ]


def random(size: int) -> Any:
    return np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)


# The check value of the catalogue of CRCs; RFC 3720, B.4.
PUBLISHED = [
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]


@pytest.mark.parametrize(("content", "value"), PUBLISHED)
def test_published_values(content: bytes, value: int) -> None:
    data = np.frombuffer(content, np.uint8)
    assert crc32c(data, len(content)) == [value]
    assert crc32c(data, 1 << 40, start=3) == [value]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 15, 16, 17, 31, 33])
def test_few_bytes_at_any_address(size: int) -> None:
    data = random(size)
    for start in (0, 1, 4, 15):
        assert crc32c(data, 100, start) == expected(data, 100), start
        assert crc32c(data, 7, start, behind=0) == expected(data, 7), start


@pytest.mark.parametrize("size", [STRIDE, PART, 2 * PART])
@pytest.mark.parametrize("more", [-17, -1, 0, 1, 16])
def test_sizes_about_those_of_a_step_and_a_part(size: int, more: int) -> None:
    data = random(size + more)
    for start in (0, 7):
        assert crc32c(data, size + more, start) == expected(data, size + more), start


@pytest.mark.parametrize("block_bytes", [1, 5, 16, 4095, 4096, 4100, PART - 8, PART + 1])
def test_many_blocks_and_a_short_last_one(block_bytes: int) -> None:
    data = random(min(40 * block_bytes, 3 * PART) - min(block_bytes, 2) // 2)
    assert len(expected(data, block_bytes)) > 2
    assert crc32c(data, block_bytes, start=2) == expected(data, block_bytes)


def test_every_bit_counts_wherever_it_is() -> None:
    data = random(STRIDE + 40)
    right = expected(data, data.size)
    for place in (0, 1, 15, 16, 527, STRIDE - 1, STRIDE, data.size - 1):
        for bit in (0, 7):
            wrong = data.copy()
            wrong[place] ^= 1 << bit
            assert crc32c(wrong, data.size) == expected(wrong, data.size) != right


def test_zeros_are_counted() -> None:
    for size in (STRIDE - 1, STRIDE, PART + 5):
        data = np.zeros(size, np.uint8)
        assert crc32c(data, size, start=1) == expected(data, size)
