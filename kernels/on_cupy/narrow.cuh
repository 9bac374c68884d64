// Rows of less than 32 bytes, which is the least that memory gives. If every thread walked down a
// tile of its own in memory, neighbours would read as far apart as a tile is high. So a block
// brings the tiles of all its units into shared memory, neighbouring threads neighbouring values,
// and its units walk there. A block is (columns, units), without any idle thread.
#pragma once
#include "vectors.cuh"

// Of the tiles of a block: 64 rows for every unit, units of 256 bytes together (launch.py), and a
// value to spare after every 64, without which the units would meet in one bank.
enum { NARROW_BYTES = 64 * 256 + 256 };

__device__ __forceinline__ int padded(int value) { return value + (value >> 6); }

// The rows of a block, in shared memory as values of H; `data` of T is read for those below them,
// which the last unit may walk on to.
template <class T, class H> struct Tile {
    typedef Pack<H, 1> Values;
    H* held;
    const T* data;
    int64 top, bottom;
    int width;
    int column;

    __device__ __forceinline__ Values at(int64 row) const {
        if (row < bottom) return {{held[padded((int)(row - top) * width + column)]}};
        return {{as<H, T>(data[row * width + column])}};
    }
};

// Results that take the place of the rows they come from; `out` is for those below the block's.
template <class H> struct InTile {
    typedef H Value;
    H* held;
    H* out;
    int64 top, bottom;
    int width;
    int column;

    __device__ __forceinline__ void put(int64 row, const Pack<H, 1>& values) const {
        if (row < bottom) held[padded((int)(row - top) * width + column)] = values.at[0];
        else out[row * width + column] = values.at[0];
    }
    // Writes the block's rows from one on to memory; all its results must be there.
    __device__ __forceinline__ void write_back(int64 from) const {
        const int64 count = (bottom - top) * width;
        const int first = (int)(threadIdx.x + blockDim.x * threadIdx.y);
        for (int64 i = (from - top) * width + first; i < count; i += blockDim.x * blockDim.y)
            out[top * width + i] = held[padded((int)i)];
    }
};

// The block's tiles, brought by all its threads: none may have left.
template <int HEIGHT, class T, class H>
__device__ __forceinline__ Tile<T, H> brought(H* held, const T* data, int64 rows, int64 width) {
    const int64 top = (int64)blockIdx.x * blockDim.y * HEIGHT;
    const int64 bottom = min(top + (int64)blockDim.y * HEIGHT, rows);
    const int count = (int)((bottom - top) * width), threads = (int)(blockDim.x * blockDim.y);
    const T* from = data + top * width;
    for (int value = (int)(threadIdx.x + blockDim.x * threadIdx.y); value < count; value += 8 * threads) {
        T got[8];
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (value + i * threads < count) got[i] = from[value + i * threads];
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (value + i * threads < count) held[padded(value + i * threads)] = as<H, T>(got[i]);
    }
    __syncthreads();
    return {held, data, top, bottom, (int)width, (int)threadIdx.x};
}
