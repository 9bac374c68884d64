// Gradients of pooling. See ops/pool_grad.py.
#include "types.cuh"

enum { EVERY, MEAN, ROOT, FIRST, LAST };

// A row of the result takes its segment's row of `upstream`, or its share. A block is
// (columns, units); a unit walks down the rows of a tile, so that it looks up its segment once.
template <class T, class A>
__global__ void __launch_bounds__(256)
pool_spread(const T* __restrict__ upstream, const int64* __restrict__ offsets, int64 segments,
            int64 rows, int64 width, int64 height, int64 how, T* __restrict__ out) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * height;
    if (top >= rows || column >= width) return;
    const int64 bottom = min(top + height, rows);
    int64 segment = segment_of(offsets, segments, top);
    int64 start = 0, stop = top;
    T share = T();
    for (int64 row = top; row < bottom; row++) {
        if (row >= stop) {
            segment = segment_after(offsets, segments, segment, row);
            start = offsets[segment];
            stop = offsets[segment + 1];
            share = upstream[segment * width + column];
            if (how == MEAN) share = as<T, A>((A)share / (A)(stop - start));
            if (how == ROOT) share = as<T, A>((A)share / (A)sqrt((double)(stop - start)));
        }
        const bool taken = how == FIRST ? row == start : how == LAST ? row == stop - 1 : true;
        out[row * width + column] = taken ? share : T();
    }
}

// A segment's upstream goes to the row it took, of a result that was zeroed before.
template <class T>
__global__ void __launch_bounds__(256)
pool_scatter(const T* __restrict__ upstream, const int64* __restrict__ index, int64 count,
             int64 width, T* __restrict__ out) {
    const int64 place = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= count || index[place] < 0) return;
    out[index[place] * width + place % width] = upstream[place];
}
