// Clusters of blocks, from compute capability 9.0 on: their blocks run on neighbouring
// multiprocessors, and write to each other's shared memory (distributed shared memory).
#pragma once

#ifdef __CUDA_ARCH__
#if __CUDA_ARCH__ >= 900
#define CLUSTER_OF(SIZE) __cluster_dims__(SIZE, 1, 1)
#else
#define CLUSTER_OF(SIZE)
#endif
// Cluster barrier: afterwards all threads see the previous writes of the others. No block continues
// before all have arrived. One thread issues the release for its block: if every thread did, each
// would wait for its own writes.
__device__ __forceinline__ void cluster_meet() {
#if __CUDA_ARCH__ >= 900
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("fence.acq_rel.cluster;" ::: "memory");
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#else
    __trap();
#endif
}
// The address in another block's shared memory that corresponds to one in this block.
template <class T> __device__ __forceinline__ T* in_block(T* mine, unsigned rank) {
#if __CUDA_ARCH__ >= 900
    T* there;
    asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(mine), "r"(rank));
    return there;
#else
    return mine;
#endif
}
#endif
