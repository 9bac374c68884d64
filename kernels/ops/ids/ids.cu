// Every id with those that follow it. See ids.py.
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
