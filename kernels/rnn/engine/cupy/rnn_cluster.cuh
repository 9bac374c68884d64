// The blocks of a cluster, from compute capability 9.0 on: they are on neighbouring multiprocessors, and
// write to each other's shared memory.
#pragma once

#ifdef __CUDA_ARCH__
#if __CUDA_ARCH__ >= 900
#define CLUSTER_OF(SIZE) __cluster_dims__(SIZE, 1, 1)
#else
#define CLUSTER_OF(SIZE)
#endif
// All threads may read afterwards what any of them wrote before. No block continues before all have arrived. One thread
// waits for what its block wrote: a release of every thread would have each wait for its own.
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
// Where another block of the cluster has what lies here in this one's shared memory.
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
