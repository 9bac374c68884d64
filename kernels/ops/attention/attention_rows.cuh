// Shared by the tiles of attention: rows of a segment and head, and how threads load them.
#pragma once
#include "async_copies.cuh"
#include "vectors.cuh"

// Rows of a segment and head, from one row on. Those beyond `count` are outside.
template <class T> struct HeadRows {
    const T* first;
    int64 stride;
    int count, width;
    bool wide;  // whether 16-byte loads are possible

    __device__ __forceinline__ HeadRows(const T* data, int64 row, int count, int64 heads, int64 head, int64 width)
        : first(data + (row * heads + head) * width), stride(heads * width), count(count),
          width((int)width), wide(!(((uint64)data | (uint64)width * sizeof(T)) & 15)) {}
};

// Starts loading a tile of rows from `row` and columns from `column` on; zeros outside.
template <int THREADS, int HIGH, int WIDE, int ACROSS, class T>
__device__ __forceinline__ void ask_for(T* tile, const HeadRows<T>& rows, int row, int column) {
    enum { PIECE = 16 / sizeof(T), PIECES = WIDE / PIECE };
    // Not unrolled further: addresses would fill the registers.
#pragma unroll 1
    for (int place = threadIdx.x; place < HIGH * PIECES; place += THREADS) {
        const int i = place / PIECES, j = place % PIECES * PIECE;
        const bool in = row + i < rows.count && column + j < rows.width;
        const T* from = in ? rows.first + (row + i) * rows.stride + column + j : rows.first;
        T* to = tile + i * ACROSS + j;
        if (rows.wide) {
            copy_async(to, from, in ? 16 : 0);
        } else {
#pragma unroll
            for (int e = 0; e < PIECE; e++) to[e] = in && column + j + e < rows.width ? from[e] : T();
        }
    }
}
