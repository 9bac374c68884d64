// The left operand of the product of a step: what the blocks of a group pass on, states or gradients.
#pragma once
#include "async_copies.cuh"
#include "types.cuh"

const int THREADS = 256;
const int HIGH = 32;   // rows at most
const int STAGES = 4;  // of so many chunks of the operand one is multiplied while the others come
const int SUMS = 16;   // values of the result a thread adds up at most

template <class T> struct alignas(16) Four { T v[4]; };

// Of each sequence a row, as the product wants its values; once for even steps and once for odd ones,
// so that blocks write one while others still read the other.
template <class V> struct Passed {
    V* values;
    int64 sequences, across;  // `across` values are multiples of 16 bytes; behind the last one zeros

    __device__ __forceinline__ V* row(int64 sequence, int64 step) const {
        return values + ((step & 1) * sequences + sequence) * across;
    }
};

// A ring of chunks of up to HIGH rows and `deep` values in shared memory, of rows ACROSS further apart.
template <class V, int PAD> struct Ring {
    V* tiles;
    int deep, across, shift;

    // As many lanes for a row as it has pieces of 16 bytes, or the next power of two.
    __device__ __forceinline__ Ring(void* place, int deep, int) : tiles((V*)place), deep(deep), across(deep + PAD), shift(0) {
        while (shift < 5 && (16 << shift) < deep * (int)sizeof(V)) shift++;
    }
    __device__ __forceinline__ int values() const { return STAGES * HIGH * across; }

    // use(tile, first, count) of each chunk of `depth` values of `rows` rows, `stride` apart. The copies
    // pass the first-level cache by, which does not see what other multiprocessors write.
    template <class Use>
    __device__ __forceinline__ void each(const V* from, int64 stride, int rows, int depth, Use use) const {
        const int chunks = (depth + deep - 1) / deep;
        for (int chunk = 0; chunk < STAGES; chunk++) bring(chunk, chunks, from, stride, rows, depth);
        for (int chunk = 0; chunk < chunks; chunk++) {
            if (chunk) copies_wait<STAGES - 2>(); else copies_wait<STAGES - 1>();
            __syncthreads();
            // Of the chunk before, which all have read.
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

// The whole left operand of a step in shared memory, of rows PAD further apart than its values are many: a
// tile for even steps, then one for odd ones. Who makes it writes it there.
template <class V, int PAD> struct Pair {
    V* tiles;
    int deep, across, high;

    __device__ __forceinline__ Pair(void* place, int deep, int high)
        : tiles((V*)place), deep(deep), across(deep + PAD), high(high) {}
    __device__ __forceinline__ int tile() const { return high * across; }
    __device__ __forceinline__ int values() const { return 2 * tile(); }

    // See Ring. What else this thread has asked for is there when it returns.
    template <class Use>
    __device__ __forceinline__ void each(const V* from, int64, int, int depth, Use use) const {
        use(from, 0, depth);
        copies_done();
    }
};

// Adds up the parts of a result that lie one after another, into the first.
template <class T> __device__ __forceinline__ void join_parts(T* sums, int size, int parts) {
    for (int place = threadIdx.x; place < size; place += THREADS) {
        T sum = sums[place];
        for (int part = 1; part < parts; part++) sum += sums[part * size + place];
        sums[place] = sum;
    }
}
