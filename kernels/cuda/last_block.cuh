// The block that comes last, which may add up what all have left.
#pragma once

#ifdef __CUDA_ARCH__
// The number of arrivals with this one. What this block wrote before its last barrier is seen by who
// arrives later, and what earlier ones wrote by this block from its next barrier on.
__device__ __forceinline__ unsigned arrived(unsigned* count) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(count) : "memory");
    return before + 1;
}
#endif

// Whether this block is the last of `blocks` to come here; it sees what the others wrote before. All its
// threads come, once. `count` begins at 0; `last` is in shared memory.
__device__ __forceinline__ bool is_last_block(unsigned* count, unsigned blocks, bool& last) {
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0) last = arrived(count) == blocks;
    __syncthreads();
    return last;
}
