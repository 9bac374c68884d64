// The product of a step in the type of its operands; the right one stays in shared memory.
#pragma once
#include "rnn_operand.cuh"

// Shared memory, in this order (rnn/persistent.py counts it, too):
//   weights  (depth, columns)
//   lefts    2 x (DEEP, HIGH + 4): of what is brought one is read while the other is written
//   sums     (parts, rows, columns), THREADS * SUMS at most
template <class T_> struct Exact {
    typedef T_ T;
    static const int ACROSS = HIGH + 4;

    T *weights, *lefts, *sums;
    int depth, columns;

    __device__ __forceinline__ Exact(void* shared, int depth, int columns)
        : weights((T*)shared), depth(depth), columns(columns) {
        lefts = weights + depth * columns;
        sums = lefts + 2 * DEEP * ACROSS;
    }

    // Brings the right operand, weight(k, column), once.
    template <class Weight> __device__ __forceinline__ void keep(Weight weight) {
        for (int i = threadIdx.x; i < (depth + 3) / 4 * columns; i += THREADS) {
            const int column = i % columns, first = i / columns * 4;
            for (int k = first; k < first + 4 && k < depth; k++)
                weights[k * columns + column] = weight(k, column);
        }
    }

    __device__ __forceinline__ T sum(int row, int column) const { return sums[row * columns + column]; }

    // left @ weights of the first `rows` rows, into sums. Threads share out the result, four by
    // four values each, and those that are left over the depth.
    __device__ __forceinline__ void multiply(const Left<T>& left, int rows) {
        const int wide = columns / 4, high = (rows + 3) / 4;
        const int parts = THREADS / (wide * high) < DEEP ? THREADS / (wide * high) : DEEP;
        const int side = threadIdx.x % wide * 4, up = threadIdx.x / wide % high * 4;
        const int part = threadIdx.x / (wide * high);
        Four<T> next[TURNS];
        for (int turn = 0; turn < TURNS; turn++) next[turn] = left.four(brought_four(turn) * 4);
        T made[4][4] = {};
        T* tile = lefts;
        for (int k = 0; k < depth; k += DEEP) {
            for (int turn = 0; turn < TURNS; turn++)
                for (int e = 0; e < 4; e++)
                    tile[(brought_four(turn) * 4 + e) * ACROSS + brought_row()] = next[turn].v[e];
            __syncthreads();
            for (int turn = 0; turn < TURNS; turn++)
                next[turn] = left.four(k + DEEP + brought_four(turn) * 4);
            const int deep = depth - k < DEEP ? depth - k : DEEP;
            if (part < parts) {
                const T* lower = tile + part * ACROSS + up;
                const T* right = weights + (k + part) * columns + side;
#pragma unroll 4
                for (int d = part; d < deep; d += parts) {
                    const Four<T> a = *(const Four<T>*)lower, b = *(const Four<T>*)right;
                    for (int i = 0; i < 4; i++)
                        for (int j = 0; j < 4; j++) made[i][j] += a.v[i] * b.v[j];
                    lower += parts * ACROSS;
                    right += parts * columns;
                }
            }
            // The other one is free: who reads it last did so before this turn's barrier.
            tile = tile == lefts ? lefts + DEEP * ACROSS : lefts;
        }
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
