// left @ right.T for the few rows of one step. cuBLAS does this too, but cupy captures none of
// its calls into a graph, and at these sizes a launch costs more than the product.
#include "types.cuh"

// (rows, depth), (columns, depth) and (rows, columns), C-contiguous; on the device, see rnn.cuh.
template <class T> struct Operands {
    const T* left;
    const T* right;
    T* out;
};

const int FEW = 4;  // rows that a warp computes at once

// A warp computes one column of FEW rows: each lane a share of the depth. For a row or a few.
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

const int HIGH = 32, WIDE = 64, DEEP = 16;  // of the tile, and of what of it is loaded at once
const int PAD = 4;                          // keeps rows of shared memory off the same banks

// 128 threads compute a tile, 4 x 4 values each; the next slice of the operands is on its way
// from memory while the last one is multiplied.
template <class T>
__global__ void __launch_bounds__(128, 4)
product_tiles(const Operands<T>* __restrict__ about, int64 rows, int64 columns, int64 depth) {
    const Operands<T> of = *about;
    __shared__ __align__(16) T lefts[DEEP][HIGH + PAD];
    __shared__ __align__(16) T rights[DEEP][WIDE + PAD];
    const int64 top = (int64)blockIdx.y * HIGH, side = (int64)blockIdx.x * WIDE;
    const int thread = threadIdx.x, up = thread / 16 * 4, across = thread % 16 * 4;
    // What this thread brings: 4 values of a row of left, 8 of a row of right.
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
