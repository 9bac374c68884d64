// Where the blocks of a group meet, all of which are on the device at once.
#pragma once

#ifdef __CUDA_ARCH__
// What this block wrote, and what it has seen of others, is seen by who sees the count.
__device__ __forceinline__ void arrive(unsigned* count) {
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(count) : "memory");
}
// What was written before the arrivals that are seen, is seen from here on, by the block from its
// next barrier on. Cheaper than a relaxed load and a fence, which waits for this block's own stores.
__device__ __forceinline__ unsigned arrivals(const unsigned* count) {
    unsigned seen;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(count) : "memory");
    return seen;
}
#endif

struct Meeting {
    unsigned* arrived;  // begins at 0; may pass the largest number
    unsigned blocks, awaited;

    // All blocks may read afterwards what any of them wrote before. No block continues before all have
    // arrived. A block that has all units does not synchronize.
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
