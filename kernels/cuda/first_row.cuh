// The first row for which a predicate holds: per tile of rows, one block each.
#pragma once
#include "types.cuh"

// Writes the first row of a block's tile for which is_one() holds, or `rows` if there is none.
// `first` is in shared memory.
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
