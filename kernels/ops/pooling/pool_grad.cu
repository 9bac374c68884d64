// Gradients of pooling. See pool_grad.py.
#include "row_partition.cuh"

enum { EVERY, MEAN, ROOT, FIRST, LAST };

// A row of the result is its segment's row of `upstream`, or its share of it. A block is (columns,
// units); a thread has N columns. It looks up a segment once for its consecutive rows.
template <class T, class A, int N>
__global__ void __launch_bounds__(256, 4)
pool_spread(const T* __restrict__ upstream, const int64* __restrict__ offsets, int64 segments,
            int64 rows, int64 width, int64 height, int64 dealt, int64 how, T* __restrict__ out) {
    const int64 column = N * ((int64)blockIdx.y * blockDim.x + threadIdx.x);
    const Share share = share_of(rows, height, dealt);
    if (!share.count || column >= width) return;
    int64 segment = segment_of(offsets, segments, share.first);
    int64 start = 0, stop = share.first;
    Pack<T, N> given, zero;
#pragma unroll
    for (int n = 0; n < N; n++) given.at[n] = zero.at[n] = T();
    for (int i = 0; i < share.count; i++) {
        const int64 row = share.row(i);
        if (row >= stop) {
            segment = segment_after(offsets, segments, segment, row);
            start = offsets[segment];
            stop = offsets[segment + 1];
            given = Columns<T, N>{upstream + column, width}.at(segment);
            const A length = (A)(stop - start), by = how == ROOT ? (A)sqrt((double)(stop - start)) : length;
#pragma unroll
            for (int n = 0; n < N; n++)
                if (how == MEAN || how == ROOT) given.at[n] = as<T, A>((A)given.at[n] / by);
        }
        const bool taken = how == FIRST ? row == start : how == LAST ? row == stop - 1 : true;
        store(out + row * width + column, either(taken, given, zero));
    }
}

// The same for words: each column of a row gets its segment's word if `index` names this row, else
// zeros.
template <class W, int N>
__global__ void __launch_bounds__(256, 4)
pool_taken(const W* __restrict__ upstream, const int64* __restrict__ index,
           const int64* __restrict__ offsets, int64 segments, int64 rows, int64 width, int64 height,
           int64 dealt, W* __restrict__ out) {
    const int64 column = N * ((int64)blockIdx.y * blockDim.x + threadIdx.x);
    const Share share = share_of(rows, height, dealt);
    if (!share.count || column >= width) return;
    int64 segment = segment_of(offsets, segments, share.first);
    int64 stop = share.first;
    Pack<W, N> given = {};
    Pack<int64, N> taken = {};
    for (int i = 0; i < share.count; i++) {
        const int64 row = share.row(i);
        if (row >= stop) {
            segment = segment_after(offsets, segments, segment, row);
            stop = offsets[segment + 1];
            given = Columns<W, N>{upstream + column, width}.at(segment);
            taken = Columns<int64, N>{index + column, width}.at(segment);
        }
        Pack<W, N> values;
#pragma unroll
        for (int n = 0; n < N; n++) values.at[n] = taken.at[n] == row ? given.at[n] : W();
        store(out + row * width + column, values);
    }
}

// Scatters a segment's upstream to the row that `index` names, in a zeroed result.
template <class T>
__global__ void __launch_bounds__(256)
pool_scatter(const T* __restrict__ upstream, const int64* __restrict__ index, int64 count,
             int64 width, T* __restrict__ out) {
    const int64 place = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= count || index[place] < 0) return;
    out[index[place] * width + place % width] = upstream[place];
}
