// The left operand of a step's product: the states or gradients exchanged in a group.
#pragma once
#include "async_copies.cuh"
#include "types.cuh"

const int THREADS = 256;
const int HIGH = 32;   // maximum rows
const int STAGES = 4;  // chunks in flight: one is multiplied while others load
const int SUMS = 16;   // maximum result values per thread

template <class T> struct alignas(16) Four { T v[4]; };

// One row per sequence, in the layout of the product; double buffered by even and odd steps, so
// that blocks write one buffer while others still read the other.
template <class V> struct Passed {
    V* values;
    int64 sequences, across;  // `across` values, a multiple of 16 bytes; zero-padded

    __device__ __forceinline__ V* row(int64 sequence, int64 step) const {
        return values + ((step & 1) * sequences + sequence) * across;
    }
};

// Ring buffer of chunks of up to HIGH rows and `deep` values in shared memory; rows have ACROSS
// values of padding.
template <class V, int PAD> struct Ring {
    V* tiles;
    int deep, across, shift;

    // Lanes per row: its number of 16-byte pieces, rounded up to a power of two.
    __device__ __forceinline__ Ring(void* place, int deep, int) : tiles((V*)place), deep(deep), across(deep + PAD), shift(0) {
        while (shift < 5 && (16 << shift) < deep * (int)sizeof(V)) shift++;
    }
    __device__ __forceinline__ int values() const { return STAGES * HIGH * across; }

    // Calls use(tile, first, count) for each chunk of `depth` values of `rows` rows, `stride`
    // apart. Copies bypass the L1 cache, which is not coherent with writes of other
    // multiprocessors.
    template <class Use>
    __device__ __forceinline__ void each(const V* from, int64 stride, int rows, int depth, Use use) const {
        const int chunks = (depth + deep - 1) / deep;
        for (int chunk = 0; chunk < STAGES; chunk++) bring(chunk, chunks, from, stride, rows, depth);
        for (int chunk = 0; chunk < chunks; chunk++) {
            if (chunk) copies_wait<STAGES - 2>(); else copies_wait<STAGES - 1>();
            __syncthreads();
            // The previous chunk, which all threads have read.
            if (chunk) bring(chunk + STAGES - 1, chunks, from, stride, rows, depth);
            const int first = chunk * deep;
            use(tiles + chunk % STAGES * HIGH * across, first, depth - first < deep ? depth - first : deep);
        }
    }

  private:
    __device__ __forceinline__ void bring(int chunk, int chunks, const V* from, int64 stride, int rows, int depth) const {
        enum { PIECE = 16 / sizeof(V) };
        if (chunk < chunks) {
            V* tile = tiles + chunk % STAGES * HIGH * across;
            const int first = chunk * deep, here = depth - first < deep ? depth - first : deep;
            for (int row = threadIdx.x >> shift; row < rows; row += THREADS >> shift)
                for (int k = (threadIdx.x & ((1 << shift) - 1)) * PIECE; k < here; k += PIECE << shift)
                    copy_async(tile + row * across + k, from + row * stride + first + k, 16);
        }
        copies_commit();
    }
};

// The whole left operand of a step in shared memory, with PAD values of padding per row: one tile
// for even steps, one for odd ones. The producer of a value writes it there.
template <class V, int PAD> struct Pair {
    V* tiles;
    int deep, across, high;

    __device__ __forceinline__ Pair(void* place, int deep, int high)
        : tiles((V*)place), deep(deep), across(deep + PAD), high(high) {}
    __device__ __forceinline__ int tile() const { return high * across; }
    __device__ __forceinline__ int values() const { return 2 * tile(); }

    // See Ring. Waits for all other copies of this thread too.
    template <class Use>
    __device__ __forceinline__ void each(const V* from, int64, int, int depth, Use use) const {
        use(from, 0, depth);
        copies_done();
    }
};

// Adds consecutive partial results to the first.
template <class T> __device__ __forceinline__ void join_parts(T* sums, int size, int parts) {
    for (int place = threadIdx.x; place < size; place += THREADS) {
        T sum = sums[place];
        for (int part = 1; part < parts; part++) sum += sums[part * size + place];
        sums[place] = sum;
    }
}
