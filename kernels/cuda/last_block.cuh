// The last block to finish, which may reduce the results of all blocks.
#pragma once
#include "vectors.cuh"

#ifdef __CUDA_ARCH__
// Atomically increments the number of arrivals and returns it. Writes of this block before its last
// barrier are visible to later arrivals, and earlier arrivals' writes to this block after its next
// barrier.
__device__ __forceinline__ unsigned arrived(unsigned* count) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(count) : "memory");
    return before + 1;
}
#endif

// Whether this block is the last of `blocks` to arrive; it sees the previous writes of the others.
// All its threads must call it, once. `count` starts at 0; `last` is in shared memory.
__device__ __forceinline__ bool is_last_block(unsigned* count, unsigned blocks, bool& last) {
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) last = arrived(count) == blocks;
    __syncthreads();
    return last;
}

// Resets these counts to 0 for a later launch.
__device__ __forceinline__ void no_arrivals(unsigned* __restrict__ arrivals, int64 counts) {
    if (blockIdx.x || blockIdx.y) return;
    const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
    for (int64 i = thread; i < counts; i += blockDim.x * blockDim.y) arrivals[i] = 0;
}

// Sums the values of a block's units for each column; the first unit gets the sums.
template <class A, int N> __device__ __forceinline__ void sum_of_units(Pack<A, N>& mine, Pack<A, N>* meeting) {
    const unsigned place = threadIdx.y * blockDim.x + threadIdx.x;
    meeting[place] = mine;
    for (unsigned left = blockDim.y; left > 1;) {
        const unsigned half = (left + 1) / 2;
        __syncthreads();
        if (threadIdx.y < left / 2) {
#pragma unroll
            for (int n = 0; n < N; n++) mine.at[n] += meeting[place + half * blockDim.x].at[n];
            meeting[place] = mine;
        }
        left = half;
    }
    __syncthreads();
}

// Sums `parts` (blocks, size) over blocks, for `count` columns from `from` on with stride `step`;
// all threads of a block must call it. A block is (columns, units): units process blocks in turn.
template <class T>
__device__ __forceinline__ void
sum_of_blocks(const T* __restrict__ parts, int64 blocks, int64 size, int64 from, int64 step, int64 count,
              bool takes_part, Pack<T, 1>* meeting, T* __restrict__ out) {
    enum { AT_ONCE = 8 };
    for (int64 first = 0; first < count; first += AT_ONCE) {
        Pack<T, 1> sums[AT_ONCE] = {};
        for (int64 block = threadIdx.y; block < blocks && takes_part; block += blockDim.y) {
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                if (first + i < count) sums[i].at[0] += parts[block * size + from + (first + i) * step];
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (first + i >= count) break;
            sum_of_units(sums[i], meeting);
            if (threadIdx.y == 0 && takes_part) out[from + (first + i) * step] = sums[i].at[0];
        }
    }
}
