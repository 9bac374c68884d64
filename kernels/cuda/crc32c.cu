// CRC32C of blocks of bytes. See crc32c.py for the arithmetic.
#include "types.cuh"

const int THREADS = 256;
const int WORD = 16;                // bytes that a thread reads at once
const int STRIDE = THREADS * WORD;  // distance to its next bytes
const int STEPS = 32;               // as in crc32c.py: maximum number of steps
const unsigned POLYNOMIAL = 0x82f63b78u;

// Product of two polynomials modulo that of CRC32C. The highest bit is x^0.
__device__ unsigned product(unsigned a, unsigned b) {
    unsigned sum = 0;
#pragma unroll 8
    for (int bit = 31; bit >= 0; bit--) {
        sum ^= b & (0u - (a >> bit & 1u));
        b = (b >> 1) ^ (POLYNOMIAL & (0u - (b & 1u)));
    }
    return sum;
}

// Bytes at..at + 16, with 0 outside [begin, end). `at` is aligned, as a number or as an address.
__device__ __forceinline__ uint4 bytes_at(const unsigned char* __restrict__ data, int64 at,
                                          int64 begin, int64 end) {
    if (at >= begin && at + WORD <= end) return *(const uint4*)(data + at);
    uint4 found = {0, 0, 0, 0};
#pragma unroll
    for (int k = 0; k < WORD; k++) {
        const unsigned byte = at + k >= begin && at + k < end ? data[at + k] : 0;
        unsigned& word = k < 4 ? found.x : k < 8 ? found.y : k < 12 ? found.z : found.w;
        word |= byte << (k & 3) * 8;
    }
    return found;
}

__device__ __forceinline__ unsigned four(const unsigned* tables, unsigned word) {
    return tables[word & 255] ^ tables[256 + (word >> 8 & 255)] ^ tables[512 + (word >> 16 & 255)] ^
           tables[768 + (word >> 24)];
}

// A thread block takes one of the `parts` of one block of bytes. Thread t takes bytes 16 t .. of
// every STRIDE of it: its checksum so far is advanced over the gap and over the next bytes by the
// same table look-ups. In the end its position is that of thread 0 after one more step, so thread t
// is 16 t bytes behind.
//
// Zeros before a block change nothing. Zeros after it, up to a whole step, are undone by a shift by
// a negative number of bits: it equals one by 2^31 - 1 more, the period of the powers of x.
__global__ void __launch_bounds__(256)
crc32c_parts(const unsigned char* __restrict__ data, int64 size, int64 block_bytes, int64 parts,
             const unsigned* __restrict__ constants, int64 of_zeros, int64 of_last_zeros,
             unsigned* __restrict__ out) {
    __shared__ unsigned tables[WORD * 256];
    __shared__ unsigned found[THREADS / 32];
    const int thread = threadIdx.x, lane = thread & 31;
    const unsigned* behind = constants + WORD * 256;   // by 16 t bytes, taken back
    const unsigned* powers = behind + THREADS;         // x^1, x^2, x^4, ..
    const int64 block = blockIdx.x / parts, part = blockIdx.x - block * parts;
    const int64 begin = block * block_bytes, end = min(begin + block_bytes, size);
    const int64 top = begin - ((int64)(data + begin) & (WORD - 1)) + part * STEPS * STRIDE;
    if (top >= end) return;
    for (int k = thread; k < WORD * 256; k += THREADS) tables[k] = constants[k];
    __syncthreads();

    const int steps = (int)min((int64)STEPS, (end - top + STRIDE - 1) / STRIDE);
    int64 at = top + thread * WORD;
    unsigned crc = 0;
    uint4 next = bytes_at(data, at, begin, end);
    for (int step = 1; step <= steps; step++) {
        const uint4 word = next;
        at += STRIDE;
        if (step < steps) next = bytes_at(data, at, begin, end);
        crc = four(tables, word.x ^ crc) ^ four(tables + 1024, word.y) ^
              four(tables + 2048, word.z) ^ four(tables + 3072, word.w);
    }
    crc = product(crc, behind[thread]);
    for (int other = 16; other; other >>= 1) crc ^= __shfl_xor_sync(0xffffffffu, crc, other);
    if (!lane) found[thread / 32] = crc;
    __syncthreads();
    if (thread >= 32) return;

    // From the end of the last step to the end of the block. Each lane knows one power of x.
    const int64 order = (1LL << 31) - 1;
    int64 bits = (end - top - (int64)steps * STRIDE) % order * 8 % order;
    if (bits < 0) bits += order;
    unsigned shift = bits >> lane & 1 ? powers[lane] : 0x80000000u;
    crc = lane < THREADS / 32 ? found[lane] : 0;
    for (int other = 16; other; other >>= 1) {
        crc ^= __shfl_xor_sync(0xffffffffu, crc, other);
        shift = product(shift, __shfl_xor_sync(0xffffffffu, shift, other));
    }
    if (lane) return;
    crc = product(crc, shift);
    if (!part) crc ^= (unsigned)(end - begin == block_bytes ? of_zeros : of_last_zeros);
    atomicXor(out + block, crc);
}
