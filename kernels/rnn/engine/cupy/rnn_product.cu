// left @ right.T for the few rows of one step. cuBLAS has this too, but cupy does not capture its
// calls in graphs, and at these sizes a launch costs more than the product.
#include "tensor_cores.cuh"

// (rows, depth), (columns, depth) and (rows, columns), C-contiguous; on the device, see rnn.cuh.
template <class T> struct Operands {
    const T* left;
    const T* right;
    T* out;
};

const int FEW = 4;  // rows that a warp computes at once

// Matrix-vector: a warp computes one column of FEW rows, each lane a share of the depth.
template <class T>
__global__ void __launch_bounds__(256, 2)
product_few(const Operands<T>* __restrict__ about, int64 rows, int64 columns, int64 depth) {
    const Operands<T> of = *about;
    const int lane = threadIdx.x & 31;
    const int64 column = (int64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    const int64 first = (int64)blockIdx.y * FEW;
    if (column >= columns) return;
    T sums[FEW] = {};
    for (int64 k = lane; k < depth; k += 32) {
        const T right = of.right[column * depth + k];
        for (int r = 0; r < FEW; r++)
            if (first + r < rows) sums[r] += of.left[(first + r) * depth + k] * right;
    }
    for (int r = 0; r < FEW; r++) {
        for (int bits = 16; bits; bits >>= 1) sums[r] += __shfl_xor_sync(0xffffffffu, sums[r], bits);
        if (lane == 0 && first + r < rows) of.out[(first + r) * columns + column] = sums[r];
    }
}

// A grid is (tiles of rows, of columns): it has up to 65,535 along its second axis.
const int HIGH = 32, WIDE = 64, DEEP = 16;  // size of the tile, and depth loaded at once
const int PAD = 4;                          // padding against bank conflicts

// 128 threads compute a tile, 4 x 4 values each; the next slice of the operands is loaded while the
// current one is multiplied.
template <class T>
__global__ void __launch_bounds__(128, 4)
product_tiles(const Operands<T>* __restrict__ about, int64 rows, int64 columns, int64 depth) {
    const Operands<T> of = *about;
    __shared__ __align__(16) T lefts[DEEP][HIGH + PAD];
    __shared__ __align__(16) T rights[DEEP][WIDE + PAD];
    const int64 top = (int64)blockIdx.x * HIGH, side = (int64)blockIdx.y * WIDE;
    const int thread = threadIdx.x, up = thread / 16 * 4, across = thread % 16 * 4;
    // This thread loads 4 values of a row of left, 8 of a row of right.
    const int left_row = thread / 4, left_k = thread % 4 * 4;
    const int right_row = thread / 2, right_k = thread % 2 * 8;
    const bool left_in = top + left_row < rows, right_in = side + right_row < columns;
    const T* left = of.left + (top + left_row) * depth;
    const T* right = of.right + (side + right_row) * depth;
    T left_next[4], right_next[8];
    for (int e = 0; e < 4; e++)
        left_next[e] = left_in && left_k + e < depth ? left[left_k + e] : (T)0;
    for (int e = 0; e < 8; e++)
        right_next[e] = right_in && right_k + e < depth ? right[right_k + e] : (T)0;
    T sums[4][4] = {};
    for (int64 k = 0; k < depth; k += DEEP) {
        for (int e = 0; e < 4; e++) lefts[left_k + e][left_row] = left_next[e];
        for (int e = 0; e < 8; e++) rights[right_k + e][right_row] = right_next[e];
        __syncthreads();
        const int64 next = k + DEEP;
        for (int e = 0; e < 4; e++)
            left_next[e] = left_in && next + left_k + e < depth ? left[next + left_k + e] : (T)0;
        for (int e = 0; e < 8; e++)
            right_next[e] = right_in && next + right_k + e < depth ? right[next + right_k + e] : (T)0;
#pragma unroll
        for (int d = 0; d < DEEP; d++) {
            T a[4], b[4];
            for (int e = 0; e < 4; e++) a[e] = lefts[d][up + e];
            for (int e = 0; e < 4; e++) b[e] = rights[d][across + e];
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) sums[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            if (top + up + i < rows && side + across + j < columns)
                of.out[(top + up + i) * columns + side + across + j] = sums[i][j];
}

const int LONG = 32;  // depth of a slice of the operands on tensor cores

// Loads COUNT values of a row from `k` on; zeros if it is not `in`, or beyond its end. `fours`:
// whether every four values are aligned to 16 bytes and end together.
template <int COUNT>
__device__ __forceinline__ void bring(float (&to)[COUNT], const float* row, int64 k, int64 depth, bool in,
                                      bool fours) {
#pragma unroll
    for (int e = 0; e < COUNT; e += 4) {
        float4 four = {0.0f, 0.0f, 0.0f, 0.0f};
        if (in && fours) {
            if (k + e < depth) four = *(const float4*)(row + k + e);
        } else if (in) {
            if (k + e < depth) four.x = row[k + e];
            if (k + e + 1 < depth) four.y = row[k + e + 1];
            if (k + e + 2 < depth) four.z = row[k + e + 2];
            if (k + e + 3 < depth) four.w = row[k + e + 3];
        }
        to[e] = four.x;
        to[e + 1] = four.y;
        to[e + 2] = four.z;
        to[e + 3] = four.w;
    }
}

// The same tile on tensor cores, with operands rounded to a Number of tensor_cores.cuh: each of
// four warps has all rows and 16 columns.
template <class Number>
__global__ void __launch_bounds__(128, 4)
product_rounded(const Operands<float>* __restrict__ about, int64 rows, int64 columns, int64 depth) {
    enum { WORDS = LONG / Number::VALUES, ACROSS = WORDS + 4 };  // padding against bank conflicts
    const Operands<float> of = *about;
    __shared__ __align__(16) unsigned lefts[HIGH * ACROSS];
    __shared__ __align__(16) unsigned rights[WIDE * ACROSS];
    const int64 top = (int64)blockIdx.x * HIGH, side = (int64)blockIdx.y * WIDE;
    const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5;
    const int left_row = thread / 4, left_k = thread % 4 * 8;
    const int right_row = thread / 2, right_k = thread % 2 * 16;
    const bool left_in = top + left_row < rows, right_in = side + right_row < columns;
    const bool fours = depth % 4 == 0 && ((uint64)of.left | (uint64)of.right) % 16 == 0;
    const float* left = of.left + (top + left_row) * depth;
    const float* right = of.right + (side + right_row) * depth;
    float left_next[8], right_next[16];
    bring(left_next, left, left_k, depth, left_in, fours);
    bring(right_next, right, right_k, depth, right_in, fours);
    float sums[2][2][4] = {};
    for (int64 k = 0; k < depth; k += LONG) {
#pragma unroll
        for (int e = 0; e < 8; e += Number::VALUES)
            lefts[left_row * ACROSS + (left_k + e) / Number::VALUES] = Number::word(left_next + e);
#pragma unroll
        for (int e = 0; e < 16; e += Number::VALUES)
            rights[right_row * ACROSS + (right_k + e) / Number::VALUES] = Number::word(right_next + e);
        __syncthreads();
        bring(left_next, left, k + LONG + left_k, depth, left_in, fours);
        bring(right_next, right, k + LONG + right_k, depth, right_in, fours);
#pragma unroll
        for (int w = 0; w < WORDS; w += 8) {
            unsigned a[2][4], b[4];
#pragma unroll
            for (int m = 0; m < 2; m++)
                load_matrices(a[m], lefts + (m * 16 + (lane & 15)) * ACROSS + w + (lane >> 4) * 4);
            const int column = warp * 16 + (lane >> 4) * 8 + (lane & 7);
            load_matrices(b, rights + column * ACROSS + w + (lane >> 3 & 1) * 4);
#pragma unroll
            for (int n = 0; n < 2; n++) {
                const unsigned pair[2] = {b[2 * n], b[2 * n + 1]};
#pragma unroll
                for (int m = 0; m < 2; m++) Number::multiply_add(sums[m][n], a[m], pair);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int64 row = top + m * 16 + (lane >> 2) + e / 2 * 8;
                const int64 column = side + warp * 16 + n * 8 + (lane & 3) * 2 + e % 2;
                if (row < rows && column < columns) of.out[row * columns + column] = sums[m][n][e];
            }
}
