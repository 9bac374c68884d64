// Rows of less than 32 bytes, which is the least that memory gives. If every thread walked down a
// tile of its own in memory, neighbours would read as far apart as a tile is high. So a block
// brings the tiles of all its units into shared memory, neighbouring threads neighbouring values,
// and its units walk there. A block is (columns, units), without any idle thread.
#pragma once
#include "parts.cuh"
#include "vectors.cuh"

// Of the tiles of a block: all rows of every unit, units of 256 bytes together (launch.py), and a
// value to spare after every 64, without which the units would meet in one bank.
enum { NARROW_BYTES = HEIGHT * 256 + 256 };

__device__ __forceinline__ int padded(int value) { return value + (value >> 6); }

// The rows of a block, in shared memory as values of H; `data` of T is read for others, such as
// the last unit may walk on to.
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

// Results that take the place of the rows they come from; `out` is for other rows than the block's.
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
    // Writes rows of the block to memory, from one to before another; all results must be there.
    __device__ __forceinline__ void write_back(int64 from, int64 stop) const {
        const int64 count = (stop - top) * width;
        const int first = (int)(threadIdx.x + blockDim.x * threadIdx.y);
        for (int64 i = (from - top) * width + first; i < count; i += blockDim.x * blockDim.y)
            out[top * width + i] = held[padded((int)i)];
    }
};

// Rows `top` to before `bottom`, brought by all threads of the block: none may have left.
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

// The first of the block's rows that it writes: those above are the last ones of a segment of no
// more than `longest` rows that the block above writes.
template <class Offsets>
__device__ __forceinline__ int64
first_written(const Offsets& offsets, int64 segments, int64 top, int64 longest) {
    const int64 segment = segment_of(offsets, segments, top);
    const int64 start = offsets[segment], stop = offsets[segment + 1];
    return start < top && stop - start <= longest ? stop : top;
}
