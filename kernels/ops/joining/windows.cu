// Sums of overlapping ranges of rows. See windows.py.
#include "vectors.cuh"

// Rows per unit: enough to amortise the search for its first ranges.
enum { HEIGHT = 16 };

// The first of these ranges that ends after a row.
__device__ __forceinline__ int64
first_behind(const int64* __restrict__ starts, const int64* __restrict__ offsets, int64 ranges, int64 row) {
    int64 low = 0, high = ranges;
    while (low < high) {
        const int64 middle = (low + high) / 2;
        if (starts[middle] + offsets[middle + 1] - offsets[middle] > row) high = middle;
        else low = middle + 1;
    }
    return low;
}

// Range i are the rows offsets[i]..offsets[i+1], added to those from starts[i] on. Starts and ends
// never decrease, so the ranges that contain a row are consecutive. A block is (columns, units); a
// thread has N columns.
template <class T, class A, int N>
__global__ void __launch_bounds__(256)
window_add(const T* __restrict__ rows, const int64* __restrict__ starts,
           const int64* __restrict__ offsets, int64 ranges, int64 count, int64 width,
           T* __restrict__ out) {
    const int64 top = HEIGHT * ((int64)blockIdx.x * blockDim.y + threadIdx.y);
    const int64 column = N * ((int64)blockIdx.y * blockDim.x + threadIdx.x);
    if (top >= count || column >= width) return;
    const Columns<T, N> from = {rows + column, width};
    const Results<T, N> to = {out + column, width};
    int64 first = first_behind(starts, offsets, ranges, top);
    for (int64 row = top; row < min(top + HEIGHT, count); row++) {
        while (first < ranges && starts[first] + offsets[first + 1] - offsets[first] <= row) first++;
        Pack<A, N> total = {};
        for (int64 i = first; i < ranges && starts[i] <= row; i++) {
            const Pack<T, N> values = from.at(offsets[i] + row - starts[i]);
#pragma unroll
            for (int n = 0; n < N; n++) total.at[n] = plus(total.at[n], (A)values.at[n]);
        }
        to.put(row, cast<T>(total));
    }
}
