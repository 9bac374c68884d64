// The left operand of the product of a step that other blocks have written to: states, or gradients.
#pragma once
#include "types.cuh"

const int THREADS = 256;
const int HIGH = 32;   // rows at most
const int DEEP = 64;   // values of each that are brought to shared memory at once
const int SUMS = 16;   // values of the result a thread adds up at most

template <class T> struct alignas(16) Four { T v[4]; };

// Past the first-level cache, which does not see what other multiprocessors write.
__device__ __forceinline__ Four<float> fresh(const float* place) {
    const float4 whole = __ldcg((const float4*)place);
    return {{whole.x, whole.y, whole.z, whole.w}};
}
__device__ __forceinline__ Four<double> fresh(const double* place) {
    const double2 half = __ldcg((const double2*)place), other = __ldcg((const double2*)place + 1);
    return {{half.x, half.y, other.x, other.y}};
}

// One row; a thread brings the same one each time.
template <class T> struct Left {
    const T* first;   // its first `split` values; null: all are 0
    const T* second;  // the others
    int split, depth;

    __device__ __forceinline__ T one(int k) const {
        if (k >= depth) return (T)0;
        return __ldcg(k < split ? first + k : second + (k - split));
    }
    // Four values from `k` on, a multiple of four; behind the last one zeros.
    __device__ __forceinline__ Four<T> four(int k) const {
        if (!first || k >= depth) return {{(T)0, (T)0, (T)0, (T)0}};
        if ((split | depth) & 3) return {{one(k), one(k + 1), one(k + 2), one(k + 3)}};
        return fresh(k < split ? first + k : second + (k - split));
    }
};

// Sixteen rows and 32 bytes of each for a warp: whole sectors of memory, and no two lanes meet
// in one bank when they write columns of the tile.
__device__ __forceinline__ int brought_row() { return (threadIdx.x >> 1) & (HIGH - 1); }
__device__ __forceinline__ int brought_four(int turn) {
    return ((threadIdx.x >> 6) + turn * (THREADS >> 6)) * 2 + (threadIdx.x & 1);
}
const int TURNS = HIGH * DEEP / 4 / THREADS;

// Adds up the parts of a result that lie behind each other, into the first.
template <class T> __device__ __forceinline__ void join_parts(T* sums, int size, int parts) {
    for (int place = threadIdx.x; place < size; place += THREADS) {
        T sum = sums[place];
        for (int part = 1; part < parts; part++) sum += sums[part * size + place];
        sums[place] = sum;
    }
}
