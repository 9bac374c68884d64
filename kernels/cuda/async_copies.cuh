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
// Waits for all that this thread has asked for. The others see them after the next barrier.
__device__ __forceinline__ void copies_done() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
#endif
