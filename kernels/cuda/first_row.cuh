// The first row of which something is true: of each tile of rows, a block each.
#pragma once
#include "types.cuh"

// Writes the first row of a block's tile that is_one() tells true of; `rows` if of none. `first` is in
// shared memory.
template <class IsOne>
__device__ __forceinline__ void
first_of_tile(int64 rows, int64 height, int64* __restrict__ firsts, uint64& first, const IsOne& is_one) {
    const int64 top = blockIdx.x * height, bottom = min(top + height, rows);
    if (threadIdx.x == 0) first = (uint64)rows;
    __syncthreads();
    for (int64 row = top + threadIdx.x; row < bottom; row += blockDim.x) {
        if (!is_one(row)) continue;
        atomicMin(&first, (uint64)row);
        break;
    }
    __syncthreads();
    if (threadIdx.x == 0) firsts[blockIdx.x] = (int64)first;
}
