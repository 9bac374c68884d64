// The product of a step on tensor cores: operands of fewer digits, sums in float32.
#pragma once
#include "rnn_operand.cuh"
#include "tensor_cores.cuh"

// Shared memory, in this order (rnn/persistent.py counts it, too):
//   weights  (words, stride), words of the depth, rounded up to eights
//   lefts    2 x (HIGH, words of DEEP + 4)
//   sums     (parts, rows, wide), THREADS * SUMS at most
// The strides keep the lanes of a warp, four rows of eight or eight of four, off each other's banks.
template <class Number> struct Rounded {
    typedef float T;
    static const int WORDS = DEEP / Number::VALUES;
    static const int ACROSS = WORDS + 4;

    unsigned *weights, *lefts;
    float* sums;
    int depth, columns, wide, stride;

    __device__ __forceinline__ Rounded(void* shared, int depth, int columns)
        : weights((unsigned*)shared), depth(depth), columns(columns) {
        wide = (columns + 7) / 8 * 8;
        stride = wide + (40 - wide % 32) % 32;
        lefts = weights + words() * stride;
        sums = (float*)(lefts + 2 * HIGH * ACROSS);
    }

    __device__ __forceinline__ int words() const {
        return (depth + 8 * Number::VALUES - 1) / (8 * Number::VALUES) * 8;
    }

    template <class Weight> __device__ __forceinline__ void keep(Weight weight) {
        for (int i = threadIdx.x; i < words() * wide; i += THREADS) {
            const int column = i % wide, word = i / wide, k = word * Number::VALUES;
            float values[Number::VALUES];
            for (int e = 0; e < Number::VALUES; e++)
                values[e] = k + e < depth && column < columns ? weight(k + e, column) : 0.0f;
            weights[word * stride + column] = Number::word(values);
        }
    }

    __device__ __forceinline__ float sum(int row, int column) const { return sums[row * wide + column]; }

    // See Exact. A warp has columns of eight, two of them at most, and all rows; warps that are left
    // over share out the depth.
    __device__ __forceinline__ void multiply(const Left<float>& left, int rows) {
        const int across = wide / 8, high = rows > 16 ? 2 : 1, warp = threadIdx.x >> 5;
        const int parts = across < THREADS / 32 ? THREADS / 32 / across : 1;
        const int part = across < THREADS / 32 ? warp / across : 0;
        const int first = across < THREADS / 32 ? warp % across : warp;
        const int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
        Four<float> next[TURNS];
        for (int turn = 0; turn < TURNS; turn++) next[turn] = left.four(brought_four(turn) * 4);
        float made[2][2][4] = {};
        unsigned* tile = lefts;
        for (int k = 0; k < depth; k += DEEP) {
            for (int turn = 0; turn < TURNS; turn++)
                for (int e = 0; e < 4; e += Number::VALUES)
                    tile[brought_row() * ACROSS + (brought_four(turn) * 4 + e) / Number::VALUES] =
                        Number::word(next[turn].v + e);
            __syncthreads();
            for (int turn = 0; turn < TURNS; turn++)
                next[turn] = left.four(k + DEEP + brought_four(turn) * 4);
            const int here = k / Number::VALUES;
            const int deep = words() - here < WORDS ? words() - here : WORDS;
            if (part < parts)
                for (int w = part * 8; w < deep; w += parts * 8) {
                    unsigned a[2][4];
#pragma unroll
                    for (int m = 0; m < 2; m++) {
                        const unsigned* row = tile + (m * 16 + g) * ACROSS + w + t;
                        a[m][0] = row[0];
                        a[m][1] = row[8 * ACROSS];
                        a[m][2] = row[4];
                        a[m][3] = row[8 * ACROSS + 4];
                    }
#pragma unroll
                    for (int n = 0; n < 2; n++) {
                        const int column = first + n * (THREADS / 32);
                        if (column >= across) break;
                        const unsigned* right = weights + (here + w + t) * stride + column * 8 + g;
                        const unsigned b[2] = {right[0], right[4 * stride]};
                        Number::multiply_add(made[n][0], a[0], b);
                        if (high > 1) Number::multiply_add(made[n][1], a[1], b);
                    }
                }
            tile = tile == lefts ? lefts + HIGH * ACROSS : lefts;
        }
        if (part < parts)
#pragma unroll
            for (int n = 0; n < 2; n++) {
                const int column = first + n * (THREADS / 32);
                if (column >= across) break;
#pragma unroll
                for (int m = 0; m < 2; m++) {
                    if (m >= high) break;
                    float* out = sums + (part * high * 16 + m * 16 + g) * wide + column * 8 + 2 * t;
                    out[0] = made[n][m][0];
                    out[1] = made[n][m][1];
                    out[8 * wide] = made[n][m][2];
                    out[8 * wide + 1] = made[n][m][3];
                }
            }
        __syncthreads();
        if (parts > 1) {
            join_parts(sums, high * 16 * wide, parts);
            __syncthreads();
        }
    }
};
