// The product of a step on tensor cores: operands of fewer digits, sums in float32.
#pragma once
#include "rnn_operand.cuh"

// sums (16, 8) += left (16, 8 words) @ right (8 words, 8), by a warp. Lane g * 4 + t has of left
// the words (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4); of right (t, g), (t + 4, g); of the
// sums (g, 2 t), (g, 2 t + 1), (g + 8, 2 t), (g + 8, 2 t + 1). A GPU older than 8.0 has none.
#ifdef __CUDA_ARCH__
#if __CUDA_ARCH__ >= 800
#define LOD_MMA(KIND)                                                                                  \
    asm("mma.sync.aligned." KIND " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"    \
        : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])                                               \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#else
#define LOD_MMA(KIND) __trap()
#endif
typedef float Sums[4];
typedef const unsigned Lefts[4], Rights[2];
__device__ __forceinline__ void mma_tf32(Sums& s, Lefts& a, Rights& b) {
    LOD_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
}
__device__ __forceinline__ void mma_f16(Sums& s, Lefts& a, Rights& b) {
    LOD_MMA("m16n8k16.row.col.f32.f16.f16.f32");
}
__device__ __forceinline__ void mma_bf16(Sums& s, Lefts& a, Rights& b) {
    LOD_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
}
#undef LOD_MMA
#endif

// What operands are rounded to, to nearest. A word holds one value, or two that follow each other.
struct TF32 {
    static const int VALUES = 1;
    static __device__ __forceinline__ unsigned word(const float* v) {
        const unsigned bits = __float_as_uint(*v);
        // Ten digits stay; half of the last is added. A NaN might be carried into a number.
        return (bits & 0x7fffffffu) > 0x7f800000u ? bits : (bits + 0x1000u) & ~0x1fffu;
    }
    template <class... A> static __device__ __forceinline__ void multiply_add(A&... a) { mma_tf32(a...); }
};
template <class Half> struct Halves {
    static const int VALUES = 2;
    static __device__ __forceinline__ unsigned word(const float* v) {
        return Half::from(v[0]).bits | (unsigned)Half::from(v[1]).bits << 16;
    }
};
struct FP16 : Halves<float16> {
    template <class... A> static __device__ __forceinline__ void multiply_add(A&... a) { mma_f16(a...); }
};
struct BF16 : Halves<bfloat16> {
    template <class... A> static __device__ __forceinline__ void multiply_add(A&... a) { mma_bf16(a...); }
};

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
