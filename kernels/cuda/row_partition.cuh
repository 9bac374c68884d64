// Partition of independent rows among threads.
#pragma once
#include "vectors.cuh"

// `count` rows of a thread, with stride `step`: `height` consecutive rows, or, if `dealt`, rows
// assigned to the units of a block cyclically, so that neighbouring threads have neighbouring
// (narrow) rows.
struct Share {
    int64 first;
    int step, count;

    __device__ __forceinline__ int64 row(int i) const { return first + i * step; }
};

__device__ __forceinline__ Share share_of(int64 rows, int64 height, int64 dealt) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 above = (int64)blockIdx.x * blockDim.y * height;
    const int64 first = dealt ? above + threadIdx.y : unit * height;
    const int step = dealt ? (int)blockDim.y : 1;
    // Below 2^31: 64-bit divisions are slow.
    const int left = first < rows ? (int)min(rows - first, height * step) : 0;
    return {first, step, dealt ? (left + step - 1) / step : left};
}

// Rows of a share by index, for fetch().
template <class T, int N> struct Shared {
    typedef Pack<T, N> Values;
    enum { BURST = Columns<T, N>::BURST };
    Columns<T, N> columns;
    Share share;

    __device__ __forceinline__ Values at(int64 i) const { return columns.at(share.row((int)i)); }
};

// Sum over the threads that share a row: 1, 2, 4 .. or 32 neighbours.
template <class A> __device__ __forceinline__ A shared_sum(A value) {
    for (int bit = (int)blockDim.x >> 1; bit; bit >>= 1) value = plus(value, __shfl_xor_sync(0xffffffffu, value, bit));
    return value;
}
