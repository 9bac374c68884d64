// Stream compaction: marks kept rows, then computes their positions.
//
// Rows are split into tiles of equal height, a multiple of CHUNK, one block each. One launch marks
// the rows and counts the kept ones per tile. In the next, each block sums the counts of the tiles
// before its own, of 2,048 tiles at most, and places its rows: no block waits for another.
#pragma once
#include "types.cuh"

enum { KEPT_THREADS = 256, CHUNK = 1024, CHUNK_WORDS = CHUNK / 32 };

// For some rows: the number of kept ones and the last of them, -1 if none.
struct Kept {
    int64 count, last;
};

// Per warp of a block.
struct Warps {
    Kept kept[KEPT_THREADS / 32];
};

// Reduces the values of all threads of a block; `warps` is in shared memory.
__device__ __forceinline__ Kept of_block(Kept mine, Warps& warps) {
    for (int bit = 16; bit; bit >>= 1) {
        mine.count += __shfl_xor_sync(0xffffffffu, mine.count, bit);
        mine.last = max(mine.last, __shfl_xor_sync(0xffffffffu, mine.last, bit));
    }
    if (threadIdx.x % 32 == 0) warps.kept[threadIdx.x / 32] = mine;
    __syncthreads();
    mine = {0, -1};
    for (int warp = 0; warp < KEPT_THREADS / 32; warp++) {
        mine.count += warps.kept[warp].count;
        mine.last = max(mine.last, warps.kept[warp].last);
    }
    return mine;
}

// Marks the rows of a block's tile: `keeps` returns for each whether it is kept. `warps` is in
// shared memory.
template <class Keeps>
__device__ __forceinline__ void
mark_rows(int64 rows, int64 height, Kept* __restrict__ tiles, Warps& warps, const Keeps& keeps) {
    const int64 top = blockIdx.x * height, bottom = min(top + height, rows);
    Kept found = {0, -1};
    for (int64 row = top + threadIdx.x; row < bottom; row += KEPT_THREADS) {
        if (!keeps(row)) continue;
        found.count++;
        found.last = row;
    }
    found = of_block(found, warps);
    if (threadIdx.x == 0) tiles[blockIdx.x] = found;
}

// The marks of CHUNK rows, 32 per word, and the number of kept rows before the tile and before each
// word.
struct Chunk {
    unsigned words[CHUNK_WORDS];
    int above[CHUNK_WORDS];
    int count;
    int64 begun;  // number of segments that begin in these rows or before
    Warps warps;

    __device__ __forceinline__ bool keeps(int row) const { return words[row / 32] >> row % 32 & 1; }
    // Number of rows of the chunk before this one that are kept.
    __device__ __forceinline__ int before(int row) const {
        return above[row / 32] + __popc(words[row / 32] & ((1u << row % 32) - 1));
    }
    // The last kept row before this one; -1 if none.
    __device__ __forceinline__ int last(int row) const {
        int word = row / 32;
        unsigned left = word < CHUNK_WORDS ? words[word] & ((1u << row % 32) - 1) : 0;
        while (!left && word > 0) left = words[--word];
        return left ? word * 32 + 31 - __clz((int)left) : -1;
    }
};

// Iterates over the rows of a block's tile. All threads call `place` for every chunk, with its
// first row, its number of rows, and the counts before it. `bounds` are the new offsets of the
// segments; the last block writes those of segments that begin after the last row. `chunk` is in
// shared memory.
template <class Place>
__device__ __forceinline__ void
place_rows(const bool* __restrict__ kept, const Kept* __restrict__ tiles, const int64* __restrict__ offsets,
           int64 segments, int64 rows, int64 height, int64* __restrict__ bounds, Chunk& chunk, const Place& place) {
    const int64 top = blockIdx.x * height, bottom = min(top + height, rows);
    const unsigned lane = threadIdx.x % 32;
    Kept above = {0, -1};
    for (int64 tile = threadIdx.x; tile < blockIdx.x; tile += KEPT_THREADS) {
        above.count += tiles[tile].count;
        above.last = max(above.last, tiles[tile].last);
    }
    above = of_block(above, chunk.warps);
    int64 begun = top ? segment_of(offsets, segments + 1, top - 1) + 1 : 0;
    for (int64 first = top; first < bottom; first += CHUNK) {
        const int count = (int)min((int64)CHUNK, bottom - first);
        for (int row = threadIdx.x; row < CHUNK; row += KEPT_THREADS) {
            const unsigned word = __ballot_sync(0xffffffffu, row < count && kept[first + row]);
            if (lane == 0) chunk.words[row / 32] = word;
        }
        __syncthreads();
        if (threadIdx.x < 32) {
            const int mine = __popc(chunk.words[lane]);
            int sum = mine;
            for (unsigned by = 1; by < 32; by += by) {
                const int left = __shfl_up_sync(0xffffffffu, sum, by);
                if (lane >= by) sum += left;
            }
            chunk.above[lane] = sum - mine;
            if (lane == 31) chunk.count = sum;
            if (lane == 0) {
                const int64 from = max(begun - 1, (int64)0), last = first + count - 1;
                chunk.begun = last + 1 == rows ? segments + 1 : segment_after(offsets, segments + 1, from, last) + 1;
            }
        }
        __syncthreads();
        for (int64 segment = begun + threadIdx.x; segment < chunk.begun; segment += KEPT_THREADS) {
            const int row = (int)(offsets[segment] - first);
            bounds[segment] = above.count + (row < CHUNK ? chunk.before(row) : chunk.count);
        }
        place(chunk, first, count, above);
        begun = chunk.begun;
        const int last = chunk.last(CHUNK);
        above.count += chunk.count;
        if (last >= 0) above.last = first + last;
        __syncthreads();
    }
}
