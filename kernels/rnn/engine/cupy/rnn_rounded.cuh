// The product of a step on tensor cores: operands of reduced precision, accumulators in float32.
#pragma once
#include "rnn_operand.cuh"
#include "tensor_cores.cuh"

// Shared memory, in this order (costs.py counts it, too):
//   weights  (wide, words + 4), words of the depth, of each column
//   lefts    of a Ring STAGES x (HIGH, words of deep + 4), of a Pair 2 x (16 or 32, words of deep + 4)
//   sums     (parts, rows, wide), THREADS * SUMS at most
// Rows are an odd number of 16 bytes apart, so that ldmatrix has no bank conflicts.
template <class Number, template <class, int> class Lefts = Ring> struct Rounded {
    typedef float T;
    typedef typename Number::Value Value;
    enum { VALUES = Number::VALUES, STEP = 16 * VALUES };  // values per column of an ldmatrix
    enum { WIDE = 4 };

    unsigned* weights;
    Lefts<Value, 4 * VALUES> lefts;
    float* sums;
    int depth, columns, wide, stride;

    static __device__ __forceinline__ int padded(int depth) { return (depth + STEP - 1) / STEP * STEP; }
    static __device__ __forceinline__ int eights(int columns) { return (columns + 7) / 8 * 8; }
    static __device__ __forceinline__ Value value(float v) { return Number::value(v); }

    // tall: maximum rows of a slice.
    __device__ __forceinline__ Rounded(void* shared, int depth_, int columns, int deep, int tall)
        : weights((unsigned*)shared),
          lefts(weights + (padded(depth_) / VALUES + 4) * eights(columns), deep, (tall + 15) / 16 * 16),
          depth(padded(depth_)), columns(columns), wide(eights(columns)), stride(depth / VALUES + 4) {
        sums = (float*)(lefts.tiles + lefts.values());
    }
    __device__ __forceinline__ void* end() const { return sums + THREADS * SUMS; }

    template <class Weight> __device__ __forceinline__ void keep(int depth_, Weight weight) {
        for (int i = threadIdx.x; i < depth / VALUES * wide; i += THREADS) {
            const int column = i % wide, word = i / wide, k = word * VALUES;
            float values[VALUES];
            for (int e = 0; e < VALUES; e++)
                values[e] = k + e < depth_ && column < columns ? weight(k + e, column) : 0.0f;
            weights[column * stride + word] = Number::word(values);
        }
        // Rows of sequences that have ended are multiplied too; their results are not read.
        for (int i = threadIdx.x; i < lefts.values(); i += THREADS) lefts.tiles[i] = Number::value(0.0f);
    }

    __device__ __forceinline__ float sum(int row, int column) const { return sums[row * wide + column]; }

    // See Exact. A warp has groups of eight columns, at most WIDE, and all rows; remaining warps
    // split the depth.
    __device__ __forceinline__ void multiply(const Value* left, int64 row_stride, int rows) {
        const int across = wide / 8, high = rows > 16 ? 2 : 1, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
        const int parts = across < THREADS / 32 ? THREADS / 32 / across : 1;
        const int part = across < THREADS / 32 ? warp / across : 0;
        const int first = across < THREADS / 32 ? warp % across : warp, apart = lefts.across / VALUES;
        float made[WIDE][2][4] = {};
        lefts.each(left, row_stride, rows, depth, [&](const Value* tile, int k, int deep) {
            if (part >= parts) return;
            const unsigned* upper = (const unsigned*)tile + (lane & 15) * apart + (lane >> 4) * 4;
            const unsigned* right = weights + (first * 8 + (lane & 7)) * stride + k / VALUES + (lane >> 3) * 4;
            for (int w = part * 16; w < deep / VALUES; w += parts * 16) {
                unsigned a[2][2][4];
#pragma unroll
                for (int m = 0; m < 2; m++) {
                    if (m >= high) break;
                    load_matrices(a[m][0], upper + m * 16 * apart + w);
                    load_matrices(a[m][1], upper + m * 16 * apart + w + 8);
                }
#pragma unroll
                for (int n = 0; n < WIDE; n++) {
                    if (first + n * (THREADS / 32) >= across) break;
                    unsigned b[4];
                    load_matrices(b, right + n * THREADS / 4 * stride + w);
                    const unsigned low[2] = {b[0], b[1]}, upper_half[2] = {b[2], b[3]};
#pragma unroll
                    for (int m = 0; m < 2; m++) {
                        if (m >= high) break;
                        Number::multiply_add(made[n][m], a[m][0], low);
                        Number::multiply_add(made[n][m], a[m][1], upper_half);
                    }
                }
            }
        });
        const int g = lane >> 2, t = lane & 3;
        if (part < parts)
#pragma unroll
            for (int n = 0; n < WIDE; n++) {
                const int column = first + n * (THREADS / 32);
                if (column >= across) break;
#pragma unroll
                for (int m = 0; m < 2; m++) {
                    if (m >= high) break;
                    float* out = sums + (part * high * 16 + m * 16 + g) * wide + column * 8 + 2 * t;
                    *(float2*)out = {made[n][m][0], made[n][m][1]};
                    *(float2*)(out + 8 * wide) = {made[n][m][2], made[n][m][3]};
                }
            }
        __syncthreads();
        if (parts > 1) {
            join_parts(sums, high * 16 * wide, parts);
            __syncthreads();
        }
    }
};
