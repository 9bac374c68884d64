// Asynchronous copies from global to shared memory (cp.async). GPUs before compute capability 8.0
// have none: there they are synchronous.
#pragma once

#ifdef __CUDA_ARCH__
// Copies 16 bytes between aligned addresses; writes zeros if `bytes` is 0.
__device__ __forceinline__ void copy_async(void* to, const void* from, int bytes) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes) : "memory");
#else
    uint4 words = {0, 0, 0, 0};
    if (bytes) words = *(const uint4*)from;
    *(uint4*)to = words;
#endif
}
// Copies one value of 4 or 8 bytes.
template <class T> __device__ __forceinline__ void copy_async_value(T* to, const T* from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(sizeof(T)) : "memory");
#else
    *to = *from;
#endif
}
// Commits the copies since the last call as one group.
__device__ __forceinline__ void copies_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits for all groups of this thread but the last LATER. Other threads see them after the next
// barrier.
template <int LATER> __device__ __forceinline__ void copies_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
#endif
}
// Waits for all copies of this thread. Other threads see them after the next barrier.
__device__ __forceinline__ void copies_done() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
#endif
