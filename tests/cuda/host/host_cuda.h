// CUDA C++ on the CPU: enough of the language and its library to compile kernels/on_cupy/*.cu
// with g++ and to run them, block by block, under the sanitizers.
//
// The threads of a block are fibers of one thread, switched only where they meet: at
// __syncthreads and in warp shuffles. HOST_CUDA_REVERSE=1 runs them from last to first: a
// result that depends on an order that nothing guarantees then differs.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __constant__ static const
#define __shared__ static
#define __launch_bounds__(...)
#define __restrict__
#define __align__(bytes) __attribute__((aligned(bytes)))

struct dim3 {
    unsigned x, y, z;
};
static dim3 gridDim, blockDim, blockIdx, threadIdx;
static const int warpSize = 32;

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) double2 { double x, y; };

namespace host_cuda {

enum State { READY, AT_BLOCK, AT_WARP, DONE };

struct Fiber {
    ucontext_t context;
    void* stack = nullptr;
    State state = DONE;
    unsigned mask = 0;
    dim3 index;
    const void* where = nullptr;
    void* fake_stack = nullptr;
};

const size_t STACK_BYTES = 256 << 10;
static std::vector<Fiber> fibers;
static ucontext_t scheduler;
static void* scheduler_fake = nullptr;
static const void* scheduler_bottom = nullptr;
static size_t scheduler_size = 0;
static Fiber* current = nullptr;
static const std::function<void()>* body = nullptr;
static uint64_t slots[2048];

[[noreturn]] inline void fail(const char* what) {
    std::fprintf(stderr, "host_cuda: %s\n", what);
    std::abort();
}

inline void leave(bool for_good) {
    Fiber* self = current;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(for_good ? nullptr : &self->fake_stack, scheduler_bottom, scheduler_size);
#endif
    if (for_good) {
        setcontext(&scheduler);
        fail("a fiber ran on after its end");
    }
    swapcontext(&self->context, &scheduler);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(self->fake_stack, nullptr, nullptr);
#endif
}

inline void enter(Fiber& fiber) {
    current = &fiber;
    threadIdx = fiber.index;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&scheduler_fake, fiber.stack, STACK_BYTES);
#endif
    swapcontext(&scheduler, &fiber.context);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(scheduler_fake, nullptr, nullptr);
#endif
}

inline void start() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_bottom, &scheduler_size);
#endif
    (*body)();
    current->state = DONE;
    leave(true);
}

inline void wait(State state, unsigned mask, const void* where) {
    current->state = state;
    current->mask = mask;
    current->where = where;
    leave(false);
}

// Lets go on whoever waits for others that are all there; false if nobody could.
inline bool release(size_t count) {
    bool any = false, all = true;
    const void* where = nullptr;
    for (size_t i = 0; i < count; i++) {
        if (fibers[i].state == DONE) continue;
        any = true;
        if (fibers[i].state != AT_BLOCK) { all = false; continue; }
        if (where && where != fibers[i].where) fail("threads of a block wait at different barriers");
        where = fibers[i].where;
    }
    if (any && all) {
        for (size_t i = 0; i < count; i++) if (fibers[i].state == AT_BLOCK) fibers[i].state = READY;
        return true;
    }
    bool released = false;
    for (size_t warp = 0; warp < count; warp += 32) {
        for (size_t i = warp; i < warp + 32 && i < count; i++) {
            if (fibers[i].state != AT_WARP) continue;
            bool there = true;
            for (unsigned lane = 0; lane < 32; lane++) {
                if (!(fibers[i].mask >> lane & 1)) continue;
                if (warp + lane >= count) continue;  // a lane that the block does not have
                const Fiber& other = fibers[warp + lane];
                there = there && (other.state == AT_WARP && other.mask == fibers[i].mask);
            }
            if (!there) continue;
            const unsigned mask = fibers[i].mask;
            for (unsigned lane = 0; lane < 32 && warp + lane < count; lane++)
                if (mask >> lane & 1) fibers[warp + lane].state = READY;
            released = true;
        }
    }
    return released;
}

inline void run_block(size_t count, bool reverse) {
    if (count > 1024) fail("more than 1024 threads in a block");
    if (fibers.size() < count) fibers.resize(count);
    for (size_t i = 0; i < count; i++) {
        Fiber& fiber = fibers[i];
        if (!fiber.stack) {
            fiber.stack = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (fiber.stack == MAP_FAILED) fail("no memory for a stack");
        }
        fiber.index = {(unsigned)(i % blockDim.x), (unsigned)(i / blockDim.x % blockDim.y),
                       (unsigned)(i / blockDim.x / blockDim.y)};
        fiber.state = READY;
        fiber.fake_stack = nullptr;
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack;
        fiber.context.uc_stack.ss_size = STACK_BYTES;
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, start, 0);
    }
    for (;;) {
        bool running = false, left = false;
        for (size_t k = 0; k < count; k++) {
            Fiber& fiber = fibers[reverse ? count - 1 - k : k];
            if (fiber.state == READY) { enter(fiber); running = true; }
            left = left || fiber.state != DONE;
        }
        if (!left) return;
        if (!running && !release(count)) fail("the threads of a block wait for ever");
    }
}

inline unsigned lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31;
}
inline unsigned warp_start() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & ~31u;
}

template <class T> T exchange(unsigned mask, T value, unsigned from, const void* where) {
    static_assert(sizeof(T) <= 8, "shuffles move at most 8 bytes");
    if (!(mask >> lane() & 1)) fail("a thread shuffles that is not in its mask");
    const unsigned start = warp_start(), self = lane();
    uint64_t raw = 0;
    std::memcpy(&raw, &value, sizeof(T));
    slots[start + self] = raw;
    wait(AT_WARP, mask, where);
    T result = value;
    if (from < 32 && (mask >> from & 1)) std::memcpy(&result, &slots[start + from], sizeof(T));
    wait(AT_WARP, mask, where);
    return result;
}

inline void launch(dim3 grid, dim3 block, const std::function<void()>& kernel) {
    const char* order = std::getenv("HOST_CUDA_REVERSE");
    const bool reverse = order && *order == '1';
    gridDim = grid;
    blockDim = block;
    body = &kernel;
    const size_t count = (size_t)block.x * block.y * block.z;
    const size_t blocks = (size_t)grid.x * grid.y * grid.z;
    for (size_t k = 0; k < blocks; k++) {
        const size_t b = reverse ? blocks - 1 - k : k;
        blockIdx = {(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y), (unsigned)(b / grid.x / grid.y)};
        run_block(count, reverse);
    }
}

template <class... A, size_t... I>
void call_with(void (*kernel)(A...), void** args, dim3 grid, dim3 block, std::index_sequence<I...>) {
    // Not references into `args`: as on a device, each thread has parameters of its own.
    const std::tuple<A...> values{*(A*)args[I]...};
    launch(grid, block, [&] { kernel(std::get<I>(values)...); });
}
template <class... A> void call(void (*kernel)(A...), void** args, dim3 grid, dim3 block) {
    call_with(kernel, args, grid, block, std::index_sequence_for<A...>{});
}
template <class... A> int parameters(void (*)(A...), int* sizes) {
    int count = 0;
    ((sizes[count++] = (int)sizeof(A)), ...);
    return count;
}

}  // namespace host_cuda

__attribute__((noinline)) static void host_cuda_barrier() {
    host_cuda::wait(host_cuda::AT_BLOCK, 0, __builtin_return_address(0));
}
#define __syncthreads() host_cuda_barrier()
#define HOST_CUDA_HERE ((const void*)(uintptr_t)__LINE__)

inline void __syncwarp(unsigned mask = 0xffffffffu) { host_cuda::wait(host_cuda::AT_WARP, mask, nullptr); }
template <class T> T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    return host_cuda::exchange(mask, value, (host_cuda::lane() & ~(width - 1)) + (from & (width - 1)), nullptr);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    (void)width;
    return host_cuda::exchange(mask, value, host_cuda::lane() ^ bits, nullptr);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
    const unsigned self = host_cuda::lane(), to = self + by;
    return host_cuda::exchange(mask, value, (to / width == self / width) ? to : self, nullptr);
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
    const unsigned self = host_cuda::lane();
    return host_cuda::exchange(mask, value, self % width >= by ? self - by : self, nullptr);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    unsigned result = 0;
    for (unsigned from = 0; from < 32; from++)
        if (mask >> from & 1) result |= (unsigned)(host_cuda::exchange(mask, predicate, from, nullptr) != 0) << from;
    return result;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }

template <class T> T __ldg(const T* place) { return *place; }
template <class T> T atomicAdd(T* place, T value) { T old = *place; *place = old + value; return old; }
template <class T> T atomicMax(T* place, T value) { T old = *place; *place = old < value ? value : old; return old; }
template <class T> T atomicMin(T* place, T value) { T old = *place; *place = value < old ? value : old; return old; }
template <class T> T atomicXor(T* place, T value) { T old = *place; *place = old ^ value; return old; }
template <class T> T atomicExch(T* place, T value) { T old = *place; *place = value; return old; }
template <class T> T atomicCAS(T* place, T expected, T value) { T old = *place; if (old == expected) *place = value; return old; }

inline float __uint_as_float(unsigned bits) { float value; std::memcpy(&value, &bits, 4); return value; }
inline unsigned __float_as_uint(float value) { unsigned bits; std::memcpy(&bits, &value, 4); return bits; }
inline int __float_as_int(float value) { return (int)__float_as_uint(value); }
inline long long __double_as_longlong(double value) { long long bits; std::memcpy(&bits, &value, 8); return bits; }
inline double __longlong_as_double(long long bits) { double value; std::memcpy(&value, &bits, 8); return value; }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __clz(int bits) { return bits ? __builtin_clz((unsigned)bits) : 32; }
inline float rsqrtf(float value) { return 1.0f / std::sqrt(value); }
inline double rsqrt(double value) { return 1.0 / std::sqrt(value); }
inline float __expf(float value) { return std::exp(value); }
inline float __fdividef(float a, float b) { return a / b; }
using std::isinf;
using std::isnan;
using std::max;
using std::min;
