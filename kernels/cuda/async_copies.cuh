// Copies from global to shared memory that a thread asks for, and waits for later. GPUs before 8.0
// have none: there they are done at once.
#pragma once

#ifdef __CUDA_ARCH__
// 16 bytes, to and from multiples of as many: those of memory, or if `bytes` is 0, zeros.
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
// One value of 4 or 8 bytes.
template <class T> __device__ __forceinline__ void copy_async_value(T* to, const T* from) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(sizeof(T)) : "memory");
#else
    *to = *from;
#endif
}
// What was asked for since the last call is one group.
__device__ __forceinline__ void copies_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// Waits for all groups of this thread but the last LATER. The others see them after the next barrier.
template <int LATER> __device__ __forceinline__ void copies_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
#endif
}
// Waits for all that this thread has asked for. The others see them after the next barrier.
__device__ __forceinline__ void copies_done() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
#endif
