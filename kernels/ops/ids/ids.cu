// Every id with those that follow it, and rows that a mask keeps. See ids.py.
#include "types.cuh"

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
        // Not row + column < end, which a huge window would overflow.
        out[row * width + column] = column < offsets[segment + 1] - row ? ids[row + column] : *pad;
    }
}

// Where what is kept of each segment begins: `kept` of row r is how many of rows 0 .. r there are.
__global__ void __launch_bounds__(256)
compress_bounds(const int64* __restrict__ kept, const int64* __restrict__ offsets, int64 count,
                int64* __restrict__ bounds) {
    const int64 place = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (place < count) bounds[place] = offsets[place] ? kept[offsets[place] - 1] : 0;
}

// The kept rows as words of W. The rows of a block are dealt out to its units in turn.
template <class W>
__global__ void __launch_bounds__(256)
compress_rows(const W* __restrict__ data, const bool* __restrict__ mask, const int64* __restrict__ kept,
              int64 rows, int64 words, int64 height, W* __restrict__ out) {
    const int64 word = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = (int64)blockIdx.x * blockDim.y * height;
    if (word >= words) return;
    const int64 bottom = min(top + (int64)blockDim.y * height, rows);
    for (int64 row = top + threadIdx.y; row < bottom; row += blockDim.y)
        if (mask[row]) out[(kept[row] - 1) * words + word] = data[row * words + word];
}
