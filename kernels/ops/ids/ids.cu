// n-grams of ids, and compaction of rows by a mask. See ids.py.
#include "kept_rows.cuh"

// A block is (columns of the result, units); a unit walks down the rows of a tile.
template <class W>
__global__ void __launch_bounds__(256)
enumerate(const W* __restrict__ ids, const int64* __restrict__ offsets, int64 segments, int64 rows,
          int64 width, int64 height, const W* __restrict__ pad, W* __restrict__ out) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * height;
    if (top >= rows || column >= width) return;
    const int64 bottom = min(top + height, rows);
    int64 segment = segment_of(offsets, segments, top);
    for (int64 row = top; row < bottom; row++) {
        segment = segment_after(offsets, segments, segment, row);
        // Not row + column < end, which could overflow for a huge window.
        out[row * width + column] = column < offsets[segment + 1] - row ? ids[row + column] : *pad;
    }
}

// Marks the ids that are not in `tokens`, which are sorted.
template <class T>
__global__ void __launch_bounds__(256)
erase_kept(const T* __restrict__ ids, int64 rows, int64 height, const T* __restrict__ tokens, int64 count,
           bool* __restrict__ kept, Kept* __restrict__ tiles) {
    __shared__ Warps warps;
    mark_rows(rows, height, tiles, warps, [=](int64 row) {
        const T id = ids[row];
        int64 low = 0, high = count;
        while (low < high) {
            const int64 middle = (low + high) / 2;
            if (tokens[middle] < id) low = middle + 1; else high = middle;
        }
        return kept[row] = low == count || tokens[low] != id;
    });
}

// The same for marked rows.
__global__ void __launch_bounds__(256)
mask_kept(const bool* __restrict__ kept, int64 rows, int64 height, Kept* __restrict__ tiles) {
    __shared__ Warps warps;
    mark_rows(rows, height, tiles, warps, [=](int64 row) { return kept[row]; });
}

// Copies the kept rows as words of W: `lanes` threads per row, a power of two.
template <class W>
__global__ void __launch_bounds__(256, 4)
compress_rows(const W* __restrict__ data, const bool* __restrict__ kept, const Kept* __restrict__ tiles,
              const int64* __restrict__ offsets, int64 segments, int64 rows, int64 height, int64 words,
              int64 lanes, int64* __restrict__ bounds, W* __restrict__ out) {
    enum { BURST = 4 };
    const int units = KEPT_THREADS / (int)lanes, unit = threadIdx.x / (unsigned)lanes;
    const int64 lane = threadIdx.x % (unsigned)lanes;
    const auto place = [=](const Chunk& chunk, int64 first, int count, Kept above) {
        for (int row = unit; row < count; row += BURST * units)
            for (int64 word = lane; word < words; word += lanes) {
                W got[BURST];
#pragma unroll
                for (int i = 0; i < BURST; i++) {
                    const int at = row + i * units;
                    if (at < count && chunk.keeps(at)) got[i] = data[(first + at) * words + word];
                }
#pragma unroll
                for (int i = 0; i < BURST; i++) {
                    const int at = row + i * units;
                    if (at < count && chunk.keeps(at)) out[(above.count + chunk.before(at)) * words + word] = got[i];
                }
            }
    };
    __shared__ Chunk marks;
    place_rows(kept, tiles, offsets, segments, rows, height, bounds, marks, place);
}
