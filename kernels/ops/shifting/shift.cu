// Rows moved by a lag within their segment, and differences of rows. See shift.py.
#include "row_partition.cuh"

// The row of words `lag` before each row in its segment; without one, the 16 bytes `low` and
// `high`, repeated. A block is (words, units).
template <class W>
__global__ void __launch_bounds__(256)
shift_rows(const W* __restrict__ data, const int64* __restrict__ offsets, int64 segments, int64 rows,
           int64 words, int64 lag, int64 height, int64 dealt, uint64 low, uint64 high,
           W* __restrict__ out) {
    const int64 word = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const Share share = share_of(rows, height, dealt);
    if (!share.count || word >= words) return;
    const W pad = word_at<W>(low, high, word);
    int64 segment = segment_of(offsets, segments, share.first);
#pragma unroll 4
    for (int i = 0; i < share.count; i++) {
        const int64 row = share.row(i), from = row - lag;
        segment = segment_after(offsets, segments, segment, row);
        const bool there = from >= offsets[segment] && from < offsets[segment + 1];
        out[row * words + word] = there ? data[from * words + word] : pad;
    }
}

// Rows of segments, and their differences from the rows `lag` before. These have offsets `bounds`:
// those of the segments if rows without a row `lag` before are `padded`; else they are left out.
struct Lagged {
    const int64 *offsets, *bounds;
    int64 lag, padded;

    // Row of the differences, of a row of this segment; for rows that have one.
    __device__ __forceinline__ int64 ahead(int64 segment) const {
        return padded ? 0 : bounds[segment] - offsets[segment] - (lag > 0 ? lag : 0);
    }
    __device__ __forceinline__ bool has(int64 segment, int64 row) const {
        return row >= offsets[segment] && row < offsets[segment + 1];
    }
};

// A block is (columns, units); a thread has N columns of its share of the differences.
template <class T, class A, class Out, int N>
__global__ void __launch_bounds__(256)
diff_rows(const T* __restrict__ data, const int64* __restrict__ offsets,
          const int64* __restrict__ bounds, int64 segments, int64 rows, int64 width, int64 lag,
          int64 padded, int64 height, int64 dealt, uint64 low, uint64 high, Out* __restrict__ out) {
    const int64 column = N * ((int64)blockIdx.y * blockDim.x + threadIdx.x);
    const Share share = share_of(rows, height, dealt);
    if (!share.count || column >= width) return;
    const Lagged lagged = {offsets, bounds, lag, padded};
    const Columns<T, N> columns = {data + column, width};
    int64 segment = segment_of(bounds, segments, share.first);
#pragma unroll 4
    for (int i = 0; i < share.count; i++) {
        segment = segment_after(bounds, segments, segment, share.row(i));
        const int64 row = share.row(i) - lagged.ahead(segment);
        const bool there = lagged.has(segment, row - lag);
        const Pack<T, N> later = columns.at(row), earlier = columns.at(there ? row - lag : row);
        Pack<Out, N> found;
#pragma unroll
        for (int n = 0; n < N; n++)
            found.at[n] = there ? as<Out, A>(minus((A)later.at[n], (A)earlier.at[n]))
                                : word_at<Out>(low, high, column + n);
        store(out + share.row(i) * width + column, found);
    }
}

// The gradient of each row's own difference, minus that of the row `lag` after it.
template <class T, class A, class Out, int N>
__global__ void __launch_bounds__(256)
diff_grad(const T* __restrict__ grad, const int64* __restrict__ offsets,
          const int64* __restrict__ bounds, int64 segments, int64 rows, int64 width, int64 lag,
          int64 padded, int64 height, int64 dealt, Out* __restrict__ out) {
    const int64 column = N * ((int64)blockIdx.y * blockDim.x + threadIdx.x);
    const Share share = share_of(rows, height, dealt);
    if (!share.count || column >= width) return;
    const Lagged lagged = {offsets, bounds, lag, padded};
    const Columns<T, N> columns = {grad + column, width};
    int64 segment = segment_of(offsets, segments, share.first);
#pragma unroll 4
    for (int i = 0; i < share.count; i++) {
        const int64 row = share.row(i);
        segment = segment_after(offsets, segments, segment, row);
        const int64 own = row + lagged.ahead(segment);
        Pack<T, N> mine = {}, theirs = {};
        if (lagged.has(segment, row - lag)) mine = columns.at(own);
        if (lagged.has(segment, row + lag)) theirs = columns.at(own + lag);
        Pack<Out, N> found;
#pragma unroll
        for (int n = 0; n < N; n++) found.at[n] = as<Out, A>(minus((A)mine.at[n], (A)theirs.at[n]));
        store(out + row * width + column, found);
    }
}
