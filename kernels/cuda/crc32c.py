"""CRC32C of bytes on a GPU: crc32c.cu.

Bits are the coefficients of a polynomial over GF(2), and the CRC is its remainder. So the CRC of
a block is the sum (XOR) of the remainders of its bytes, each multiplied by the power of x of its
position, and threads can process interleaved bytes and add their sums in any order. A remainder is
32 bits, with x^0 as the highest bit. The initial value and the final inversion of CRC32C depend
only on the length: their contribution is the CRC of as many zeros.

References:
    Castagnoli, Braeuer, Herrmann (1993), "Optimization of Cyclic Redundancy-Check Codes"; RFC 3720,
    appendix B.4.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import blocks, run
from lodcli.kernels.index.checks import Array

# As in crc32c.cu.
THREADS, WORD_BYTES, STEPS = 256, 16, 32
STRIDE_BYTES = THREADS * WORD_BYTES
POLYNOMIAL = 0x82F63B78
# Period of the powers of x: the polynomial is x + 1 times a primitive one of degree 31.
ORDER = 2**31 - 1
ONES = 2**32 - 1


def block_crc32c(data: Array, block_bytes: int) -> Array:
    """Return the CRC32C of each block of bytes: (blocks,) uint32, on the device.

    Args:
        data: (n,) uint8, C-contiguous, on the device; it may begin at any address.
        block_bytes: size of each block, at least 1; the last one may be smaller.
    """
    size = data.size
    found: Array = cupy.zeros(blocks(size, block_bytes), np.uint32)
    # A block that does not begin at an aligned word covers a part of one more word.
    parts = blocks(min(size, block_bytes) + WORD_BYTES - 1, STEPS * STRIDE_BYTES)
    run(
        *("crc32c", "crc32c_parts", (found.size * parts,), (THREADS,)),
        *(data, size, block_bytes, parts, _constants(cupy.cuda.runtime.getDevice())),
        *(_of_zeros(block_bytes), _of_zeros(size % block_bytes), found),
    )
    return found


@cache
def _constants(device: int) -> Any:
    """Return the lookup tables of the kernel in device memory, complete for every stream."""
    # A byte's remainder when it is the last but `behind` of a thread's, whose next are a step away.
    byte = _product(np.arange(256, dtype=np.uint32), _power(8))
    behind = STRIDE_BYTES - WORD_BYTES + np.arange(WORD_BYTES - 1, -1, -1)
    tables = [_product(byte, _power(8 * int(each))) for each in behind]
    back = [_power(-8 * WORD_BYTES * thread) for thread in range(THREADS)]
    powers = [_power(1 << bit) for bit in range(32)]
    there = cupy.asarray(np.concatenate([*tables, back, powers]).astype(np.uint32))
    cupy.cuda.get_current_stream().synchronize()
    return there


def _of_zeros(size: int) -> int:
    """Return the CRC32C of `size` zero bytes."""
    return int(_product(np.uint32(ONES), _power(8 * size))) ^ ONES


@cache
def _power(exponent: int) -> int:
    """Return x to any power, also a negative one."""
    exponent %= ORDER
    if exponent < 32:
        return 0x80000000 >> exponent
    half = np.uint32(_power(exponent // 2))
    square = _product(half, int(half))
    return int(_product(square, _power(exponent % 2)))


def _product(many: Any, one: int) -> Any:
    """Return each of `many` remainders multiplied by `one`: the same shape."""
    total = np.zeros_like(many)
    for bit in range(31, -1, -1):
        if one >> bit & 1:
            total ^= many
        many = (many >> 1) ^ (POLYNOMIAL * (many & 1)).astype(np.uint32)
    return total
