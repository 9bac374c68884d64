// Rows of less than 32 bytes, the size of a memory transaction. If every thread walked down a tile
// of its own in global memory, accesses would not be coalesced. So a block first loads the tiles of
// all its units into shared memory, coalesced, and its units walk there. A block is (columns,
// units), without idle threads.
#pragma once
#include "parts.cuh"
#include "vectors.cuh"

// Size of the tiles of a block: all rows of every unit, in units of 256 bytes (launch.py), padded
// by a value after every 64 to avoid bank conflicts.
enum { NARROW_BYTES = HEIGHT * 256 + 256 };

__device__ __forceinline__ int padded(int value) { return value + (value >> 6); }

// The rows of a block in shared memory, as values of H; other rows, which the last unit may walk on
// to, are read from `data` of T.
template <class T, class H> struct Tile {
    typedef H Value;
    typedef Pack<H, 1> Values;
    enum { BURST = 4 };
    H* held;
    const T* data;
    int64 top, bottom;
    int width;
    int column;

    __device__ __forceinline__ Values at(int64 row) const {
        if (row >= top && row < bottom) return {{held[padded((int)(row - top) * width + column)]}};
        return {{as<H, T>(data[row * width + column])}};
    }
};

// Results that replace their rows in shared memory; `out` is for rows outside the block.
template <class H> struct InTile {
    typedef H Value;
    typedef Pack<H, 1> Values;
    H* held;
    H* out;
    int64 top, bottom;
    int width;
    int column;

    __device__ __forceinline__ void put(int64 row, const Values& values) const {
        if (row >= top && row < bottom) held[padded((int)(row - top) * width + column)] = values.at[0];
        else out[row * width + column] = values.at[0];
    }
    // Writes rows [from, to) of the block to memory; all results must be complete.
    __device__ __forceinline__ void write_back(int64 from, int64 stop) const {
        const int64 count = (stop - top) * width;
        const int first = (int)(threadIdx.x + blockDim.x * threadIdx.y);
        for (int64 i = (from - top) * width + first; i < count; i += blockDim.x * blockDim.y)
            out[top * width + i] = held[padded((int)i)];
    }
};

// Loads rows [top, bottom) with all threads of the block: none may have exited.
template <class T, class H>
__device__ __forceinline__ Tile<T, H>
brought(H* held, const T* data, int64 top, int64 bottom, int64 width) {
    enum { AT_ONCE = 16 };
    const int count = (int)((bottom - top) * width), threads = (int)(blockDim.x * blockDim.y);
    const T* from = data + top * width;
    int value = (int)(threadIdx.x + blockDim.x * threadIdx.y);
    for (; value < count; value += AT_ONCE * threads) {
        T got[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (value + i * threads < count) got[i] = from[value + i * threads];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (value + i * threads < count) held[padded(value + i * threads)] = as<H, T>(got[i]);
    }
    __syncthreads();
    return {held, data, top, bottom, (int)width, (int)threadIdx.x};
}

// The tiles of this block's units.
template <int HEIGHT, class T>
__device__ __forceinline__ Tile<T, T> brought(T* held, const T* data, int64 rows, int64 width) {
    const int64 top = (int64)blockIdx.x * blockDim.y * HEIGHT;
    return brought(held, data, top, min(top + (int64)blockDim.y * HEIGHT, rows), width);
}

// The first of the block's rows that it writes: those before belong to a segment of at most
// `longest` rows, which the previous block writes.
template <class Offsets>
__device__ __forceinline__ int64
first_written(const Offsets& offsets, int64 segments, int64 top, int64 longest) {
    const int64 segment = segment_of(offsets, segments, top);
    const int64 start = offsets[segment], stop = offsets[segment + 1];
    return start < top && stop - start <= longest ? stop : top;
}
