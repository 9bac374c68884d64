// Arithmetic with one row per row, or one per segment. See elementwise.py.
#include "row_partition.cuh"

enum { ADD, SUB, MUL, DIV };

template <int OP, class A> __device__ __forceinline__ A combined(A x, A z) {
    if (OP == ADD) return plus(x, z);
    if (OP == SUB) return minus(x, z);
    if (OP == MUL) return times(x, z);
    return x / z;
}

// Location of the values combined with rows: one row of them per segment, or, without segments, per
// row. These have `width` columns like the rows, or 1, broadcast to the whole row.
struct Places {
    const int64* offsets;
    int64 segments, segment, stop;

    __device__ __forceinline__ int64 of(int64 row) {
        if (!segments) return row;
        if (row >= stop) {
            segment = segment_after(offsets, segments, segment, row);
            stop = offsets[segment + 1];
        }
        return segment;
    }
};
__device__ __forceinline__ Places places(const int64* offsets, int64 segments, int64 row) {
    return {offsets, segments, segments ? segment_of(offsets, segments, row) : 0, row};
}
template <class A, int N, class Z>
__device__ __forceinline__ Pack<A, N> value_at(const Z* values, int64 place, int64 width, int64 column) {
    if (width > 1) return cast<A>(Columns<Z, N>{values + column, width}.at(place));
    Pack<A, N> value;
#pragma unroll
    for (int n = 0; n < N; n++) value.at[n] = (A)values[place];
    return value;
}

// A block is (columns, units); a thread has N columns of its share of the rows.
template <class T, class Z, class A, class Out, int OP, int N>
__global__ void __launch_bounds__(256)
binary(const T* __restrict__ data, const Z* __restrict__ values, const int64* __restrict__ offsets,
       int64 segments, int64 rows, int64 width, int64 value_width, int64 height, int64 dealt,
       Out* __restrict__ out) {
    const int64 column = N * ((int64)blockIdx.y * blockDim.x + threadIdx.x);
    const Share share = share_of(rows, height, dealt);
    if (!share.count || column >= width) return;
    enum { BURST = Shared<T, N>::BURST };
    const Shared<T, N> of_data = {{data + column, width}, share};
    Places where = places(offsets, segments, share.first);
    for (int i = 0; i < share.count; i += BURST) {
        Pack<T, N> got[BURST];
        Pack<A, N> value[BURST];
        fetch(of_data, i, share.count, got);
#pragma unroll
        for (int k = 0; k < BURST; k++)
            if (i + k < share.count)
                value[k] = value_at<A, N>(values, where.of(share.row(i + k)), value_width, column);
#pragma unroll
        for (int k = 0; k < BURST; k++) {
            if (i + k >= share.count) continue;
            Pack<Out, N> result;
#pragma unroll
            for (int n = 0; n < N; n++)
                result.at[n] = as<Out, A>(combined<OP, A>((A)got[k].at[n], value[k].at[n]));
            store(out + share.row(i + k) * width + column, result);
        }
    }
}

// Dot product of each row of two arrays: (rows,). A block is (threads of a row, rows).
template <class T, class Z, class A, int N>
__global__ void __launch_bounds__(256)
dot_rows(const T* __restrict__ a, const Z* __restrict__ b, int64 rows, int64 width, A* __restrict__ out) {
    const int64 row = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 size = row < rows ? width : 0;
    A sum = (A)0;
    for (int64 i = N * threadIdx.x; i < size; i += N * blockDim.x) {
        const Pack<T, N> x = Columns<T, N>{a + i, width}.at(row);
        const Pack<Z, N> z = Columns<Z, N>{b + i, width}.at(row);
#pragma unroll
        for (int n = 0; n < N; n++) sum = plus(sum, times((A)x.at[n], (A)z.at[n]));
    }
    sum = shared_sum(sum);
    if (threadIdx.x == 0 && row < rows) out[row] = sum;
}

// Gradients of a product or a quotient: of the rows, and each row's contribution to that of its
// value.
template <class A, int OP, int N>
__global__ void __launch_bounds__(256)
binary_grad(const A* __restrict__ data, const A* __restrict__ values,
            const int64* __restrict__ offsets, int64 segments, int64 rows, int64 width,
            int64 value_width, int64 height, int64 dealt, const A* __restrict__ grad,
            A* __restrict__ for_data, A* __restrict__ for_value) {
    const int64 column = N * ((int64)blockIdx.y * blockDim.x + threadIdx.x);
    const Share share = share_of(rows, height, dealt);
    if (!share.count || column >= width) return;
    enum { BURST = Shared<A, N>::BURST };
    const Shared<A, N> of_data = {{data + column, width}, share}, of_grad = {{grad + column, width}, share};
    Places where = places(offsets, segments, share.first);
    for (int i = 0; i < share.count; i += BURST) {
        Pack<A, N> got[BURST], flow[BURST];
        fetch(of_data, i, share.count, got);
        fetch(of_grad, i, share.count, flow);
#pragma unroll
        for (int k = 0; k < BURST; k++) {
            if (i + k >= share.count) continue;
            const int64 row = share.row(i + k);
            const Pack<A, N> value = value_at<A, N>(values, where.of(row), value_width, column);
            Pack<A, N> first, second;
#pragma unroll
            for (int n = 0; n < N; n++) {
                const A x = got[k].at[n], f = flow[k].at[n], z = value.at[n];
                first.at[n] = OP == MUL ? f * z : f / z;
                second.at[n] = OP == MUL ? f * x : -f * x / (z * z);
            }
            store(for_data + row * width + column, first);
            store(for_value + row * width + column, second);
        }
    }
}
