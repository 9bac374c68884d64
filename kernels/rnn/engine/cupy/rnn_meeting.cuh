// Barrier of the blocks of a group, all of which are co-resident.
#pragma once

#ifdef __CUDA_ARCH__
// Release: previous writes of this block, and writes it has observed, are visible to threads that
// see the count.
__device__ __forceinline__ void arrive(unsigned* count) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(count) : "memory");
}
// Acquire: writes before the observed arrivals are visible to the block after its next barrier.
// Cheaper than a relaxed load and a fence, which waits for this block's own stores.
__device__ __forceinline__ unsigned arrivals(const unsigned* count) {
    unsigned seen;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(count) : "memory");
    return seen;
}
#endif

struct Meeting {
    unsigned* arrived;  // starts at 0; may wrap around
    unsigned blocks, awaited;

    // Group barrier: afterwards all blocks see the previous writes of the others. No block
    // continues before all have arrived. A block that has all units does not synchronize.
    __device__ __forceinline__ void meet() {
        awaited += blocks;
        __syncthreads();
        if (blocks == 1) return;
        if (threadIdx.x == 0) {
            arrive(arrived);
            while ((int)(arrivals(arrived) - awaited) < 0) __nanosleep(20);
        }
        __syncthreads();
    }
};
