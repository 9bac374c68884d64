// The product of a step in full precision; the right operand stays in shared memory.
#pragma once
#include "rnn_operand.cuh"

// Shared memory, in this order (costs.py counts it, too):
//   weights  (4, quarter, columns): of every four values of the depth the first, then the second ..;
//            so threads that process groups of four in turn read neighbouring words
//   lefts    of a Ring STAGES x (HIGH, deep + 4), of a Pair 2 x (rows of a slice, deep + 4)
//   sums     (parts, rows, columns), THREADS * SUMS at most
template <class T_, template <class, int> class Lefts = Ring> struct Exact {
    typedef T_ T;
    typedef T Value;

    T* weights;
    Lefts<T, 4> lefts;
    T* sums;
    int depth, columns;

    static __device__ __forceinline__ int padded(int depth) { return (depth + 3) / 4 * 4; }
    static __device__ __forceinline__ T value(T v) { return v; }

    // tall: maximum rows of a slice, a multiple of 4.
    __device__ __forceinline__ Exact(void* shared, int depth_, int columns, int deep, int tall)
        : weights((T*)shared), lefts(weights + padded(depth_) * columns, deep, tall), depth(padded(depth_)), columns(columns) {
        sums = lefts.tiles + lefts.values();
    }
    __device__ __forceinline__ void* end() const { return sums + THREADS * SUMS; }

    // Loads the right operand, weight(k, column), once; zero-padded beyond `depth_` rows.
    template <class Weight> __device__ __forceinline__ void keep(int depth_, Weight weight) {
        for (int i = threadIdx.x; i < depth / 4 * columns; i += THREADS) {
            const int column = i % columns, first = i / columns;
            for (int e = 0; e < 4; e++)
                weights[(e * (depth / 4) + first) * columns + column] =
                    first * 4 + e < depth_ ? weight(first * 4 + e, column) : (T)0;
        }
        // Zero-pads the left operand as well.
        for (int i = threadIdx.x; i < lefts.values(); i += THREADS) lefts.tiles[i] = (T)0;
    }

    __device__ __forceinline__ T sum(int row, int column) const { return sums[row * columns + column]; }

    // left @ weights for `rows` rows from `left` on, into sums. Each thread computes a 4 x 4 block
    // of the result; remaining threads split the depth.
    __device__ __forceinline__ void multiply(const T* left, int64 stride, int rows) {
        const int wide = columns / 4, high = (rows + 3) / 4, most = THREADS / (wide * high);
        const int parts = most < lefts.deep / 4 ? most : lefts.deep / 4;
        const int side = threadIdx.x % wide * 4, up = threadIdx.x / wide % high * 4;
        const int part = threadIdx.x / (wide * high), across = lefts.across, quarter = depth / 4 * columns;
        T made[4][4] = {};
        lefts.each(left, stride, rows, depth, [&](const T* tile, int first, int deep) {
            if (part >= parts) return;
            const T* lower = tile + up * across + part * 4;
            const T* right = weights + (first / 4 + part) * columns + side;
#pragma unroll 2
            for (int d = part * 4; d < deep; d += parts * 4) {
                Four<T> a[4];
                for (int i = 0; i < 4; i++) a[i] = *(const Four<T>*)(lower + i * across);
                for (int e = 0; e < 4; e++) {
                    const Four<T> b = *(const Four<T>*)(right + e * quarter);
                    for (int i = 0; i < 4; i++)
                        for (int j = 0; j < 4; j++) made[i][j] += a[i].v[e] * b.v[j];
                }
                lower += parts * 4;
                right += parts * columns;
            }
        });
        if (part < parts)
            for (int i = 0; i < 4; i++) {
                Four<T> row = {{made[i][0], made[i][1], made[i][2], made[i][3]}};
                *(Four<T>*)(sums + ((part * high * 4) + up + i) * columns + side) = row;
            }
        __syncthreads();
        if (parts > 1) {
            join_parts(sums, high * 4 * columns, parts);
            __syncthreads();
        }
    }
};
