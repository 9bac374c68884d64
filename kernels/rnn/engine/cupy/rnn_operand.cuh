// The left operand of the product of a step that other blocks have written to: states, or gradients.
#pragma once
#include "types.cuh"

const int THREADS = 256;
const int HIGH = 32;   // rows at most
const int DEEP = 64;   // values of each that are brought to shared memory at once
const int SUMS = 16;   // values of the result a thread adds up at most

template <class T> struct alignas(16) Four { T v[4]; };

// Reads past the first-level cache, which does not see what other multiprocessors write, and never
// before a meeting that comes first: __ldcg lets the compiler do that.
#ifdef __CUDA_ARCH__
__device__ __forceinline__ float fresh(const float* place) {
    float value;
    asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(value) : "l"(place) : "memory");
    return value;
}
__device__ __forceinline__ double fresh(const double* place) {
    double value;
    asm volatile("ld.global.cg.f64 %0, [%1];" : "=d"(value) : "l"(place) : "memory");
    return value;
}
__device__ __forceinline__ Four<float> fresh_four(const float* place) {
    Four<float> f;
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(f.v[0]), "=f"(f.v[1]), "=f"(f.v[2]), "=f"(f.v[3]) : "l"(place) : "memory");
    return f;
}
__device__ __forceinline__ Four<double> fresh_four(const double* place) {
    Four<double> f;
    asm volatile("ld.global.cg.v2.f64 {%0, %1}, [%2];" : "=d"(f.v[0]), "=d"(f.v[1]) : "l"(place) : "memory");
    asm volatile("ld.global.cg.v2.f64 {%0, %1}, [%2];" : "=d"(f.v[2]), "=d"(f.v[3]) : "l"(place + 2) : "memory");
    return f;
}
#else
template <class T> T fresh(const T* place) { return *place; }
template <class T> Four<T> fresh_four(const T* place) { return *(const Four<T>*)place; }
#endif

// One row; a thread brings the same one each time.
template <class T> struct Left {
    const T* first;   // its first `split` values; null: all are 0
    const T* second;  // the others
    int split, depth;

    __device__ __forceinline__ T one(int k) const {
        if (k >= depth) return (T)0;
        return fresh(k < split ? first + k : second + (k - split));
    }
    // Four values from `k` on, a multiple of four; behind the last one zeros.
    __device__ __forceinline__ Four<T> four(int k) const {
        if (!first || k >= depth) return {{(T)0, (T)0, (T)0, (T)0}};
        if ((split | depth) & 3) return {{one(k), one(k + 1), one(k + 2), one(k + 3)}};
        return fresh_four(k < split ? first + k : second + (k - split));
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
