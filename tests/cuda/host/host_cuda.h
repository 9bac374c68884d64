// CUDA C++ on the CPU: enough of the language and its library to compile kernels/on_cupy/*.cu
// with g++ and to run them, block by block, under the sanitizers.
//
// The threads of a block are fibers of one thread, switched only where they meet: at
// __syncthreads, in warp shuffles, and where one waits for other blocks in __nanosleep. Blocks run
// one after the other; those of a cooperative launch all at once, so that they may have no shared
// memory but that of the launch. HOST_CUDA_REVERSE=1 runs them from last to first: a result that
// depends on an order that nothing guarantees then differs.
#pragma once

#include <algorithm>
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

enum State { READY, AT_BLOCK, AT_WARP, ASLEEP, DONE };

struct Fiber {
    ucontext_t context;
    void* stack = nullptr;
    State state = DONE;
    unsigned mask = 0;
    dim3 index;
    const void* where = nullptr;
    void* fake_stack = nullptr;
};

struct Block {
    std::vector<Fiber> fibers;
    dim3 index;
    uint64_t slots[1024];
    unsigned fragments[1024][6];  // what each thread gives to a product of its warp
    unsigned char* shared = nullptr;
};

const size_t STACK_BYTES = 256 << 10;
static std::vector<Block> running;
static Block* block = nullptr;
static ucontext_t scheduler;
static void* scheduler_fake = nullptr;
static const void* scheduler_bottom = nullptr;
static size_t scheduler_size = 0;
static Fiber* current = nullptr;
static const std::function<void()>* body = nullptr;

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
    blockIdx = block->index;
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
    std::vector<Fiber>& fibers = block->fibers;
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

inline void prepare(Block& made, size_t count, dim3 index, size_t shared_bytes) {
    made.index = index;
    // Exactly as much as was asked for, so that the sanitizer sees who goes beyond; not of zeros.
    std::free(made.shared);
    made.shared = (unsigned char*)std::malloc(shared_bytes);
    std::memset(made.shared, 0xA5, shared_bytes);
    if (made.fibers.size() < count) made.fibers.resize(count);
    for (size_t i = 0; i < count; i++) {
        Fiber& fiber = made.fibers[i];
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
}

enum Turn { OVER, WENT_ON, SLEPT, STUCK };

// Runs all threads of a block that can, up to where they wait.
inline Turn turn(size_t count, bool reverse) {
    bool went = false, left = false, asleep = false;
    for (size_t k = 0; k < count; k++) {
        Fiber& fiber = block->fibers[reverse ? count - 1 - k : k];
        if (fiber.state == READY || fiber.state == ASLEEP) {
            enter(fiber);
            went = went || fiber.state != ASLEEP;
        }
        asleep = asleep || fiber.state == ASLEEP;
        left = left || fiber.state != DONE;
    }
    if (!left) return OVER;
    if (went || release(count)) return WENT_ON;
    return asleep ? SLEPT : STUCK;
}

// Runs the first `blocks` of those prepared to their ends. Each goes on for as long as it can: who
// does not wait for others gets far ahead of them.
inline void run_blocks(size_t blocks, size_t count, bool reverse) {
    for (size_t idle = 0;;) {
        bool left = false, went = false;
        for (size_t k = 0; k < blocks; k++) {
            block = &running[reverse ? blocks - 1 - k : k];
            Turn done;
            while ((done = turn(count, reverse)) == WENT_ON) went = true;
            if (done == STUCK) fail("the threads of a block wait for ever");
            left = left || done != OVER;
        }
        if (!left) return;
        idle = went ? 0 : idle + 1;
        if (idle > 100) fail("blocks wait for each other for ever");
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
    block->slots[start + self] = raw;
    wait(AT_WARP, mask, where);
    T result = value;
    if (from < 32 && (mask >> from & 1)) std::memcpy(&result, &block->slots[start + from], sizeof(T));
    wait(AT_WARP, mask, where);
    return result;
}

// What a launch is: where, and what of it a kernel can ask for.
struct Shape {
    dim3 grid, block;
    size_t shared_bytes;
    bool together;
};

inline void launch(const Shape& shape, const std::function<void()>& kernel) {
    const char* order = std::getenv("HOST_CUDA_REVERSE");
    const bool reverse = order && *order == '1';
    const dim3 grid = gridDim = shape.grid;
    blockDim = shape.block;
    body = &kernel;
    const size_t count = (size_t)blockDim.x * blockDim.y * blockDim.z;
    const size_t blocks = (size_t)grid.x * grid.y * grid.z, at_once = shape.together ? blocks : 1;
    if (count > 1024) fail("more than 1024 threads in a block");
    if (running.size() < at_once) running.resize(at_once);
    for (size_t k = 0; k < blocks; k++) {
        const size_t b = reverse && !shape.together ? blocks - 1 - k : k;
        const dim3 index{(unsigned)(b % grid.x), (unsigned)(b / grid.x % grid.y), (unsigned)(b / grid.x / grid.y)};
        prepare(running[k % at_once], count, index, shape.shared_bytes);
        if ((k + 1) % at_once == 0) run_blocks(at_once, count, reverse);
    }
}

template <class... A, size_t... I>
void call_with(void (*kernel)(A...), void** args, const Shape& shape, std::index_sequence<I...>) {
    // Not references into `args`: as on a device, each thread has parameters of its own.
    const std::tuple<A...> values{*(A*)args[I]...};
    launch(shape, [&] { kernel(std::get<I>(values)...); });
}
template <class... A> void call(void (*kernel)(A...), void** args, const unsigned* s) {
    const Shape shape{{s[0], s[1], s[2]}, {s[3], s[4], s[5]}, s[6], s[7] != 0};
    call_with(kernel, args, shape, std::index_sequence_for<A...>{});
}
template <class... A> int parameters(void (*)(A...), int* sizes) {
    int count = 0;
    ((sizes[count++] = (int)sizeof(A)), ...);
    return count;
}

// What `extern __shared__` is turned into: the memory of the block that runs.
struct Shared {
    operator void*() const { return block->shared; }
};

}  // namespace host_cuda

__attribute__((noinline)) static void host_cuda_barrier() {
    host_cuda::wait(host_cuda::AT_BLOCK, 0, __builtin_return_address(0));
}
#define __syncthreads() host_cuda_barrier()
#define HOST_CUDA_HERE ((const void*)(uintptr_t)__LINE__)

inline void __nanosleep(unsigned) { host_cuda::wait(host_cuda::ASLEEP, 0, nullptr); }
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

// Products of a warp, as PTX defines mma.sync for these shapes: where each lane has its part of
// the operands and of the sums. The values of a word are `decoded`, the first in its lower half.
namespace host_cuda {

template <class Decoded>
void multiply_add(float (&sums)[4], const unsigned (&left)[4], const unsigned (&right)[2], Decoded decoded) {
    const unsigned start = warp_start(), g = lane() / 4, t = lane() % 4;
    unsigned* mine = block->fragments[start + lane()];
    std::copy(left, left + 4, mine);
    std::copy(right, right + 2, mine + 4);
    wait(AT_WARP, 0xffffffffu, nullptr);
    for (unsigned place = 0; place < 4; place++) {
        const unsigned row = g + place / 2 * 8, column = 2 * t + place % 2;
        double sum = sums[place];
        for (unsigned word = 0; word < 8; word++) {
            const unsigned a = block->fragments[start + row % 8 * 4 + word % 4][row / 8 + word / 4 * 2];
            const unsigned b = block->fragments[start + column * 4 + word % 4][4 + word / 4];
            sum += decoded(a, b);
        }
        sums[place] = (float)sum;
    }
    wait(AT_WARP, 0xffffffffu, nullptr);
}

inline double half_value(unsigned bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31) return fraction ? NAN : bits & 0x8000 ? -INFINITY : INFINITY;
    const double value = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
    return bits & 0x8000 ? -value : value;
}

}  // namespace host_cuda

inline void mma_tf32(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    host_cuda::multiply_add(sums, a, b, [](unsigned x, unsigned y) {
        if ((x | y) & 0x1fff) host_cuda::fail("an operand of tf32 has too many digits");
        return (double)__uint_as_float(x) * __uint_as_float(y);
    });
}
inline void mma_bf16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    host_cuda::multiply_add(sums, a, b, [](unsigned x, unsigned y) {
        return (double)__uint_as_float(x << 16) * __uint_as_float(y << 16) +
               (double)__uint_as_float(x & 0xffff0000u) * __uint_as_float(y & 0xffff0000u);
    });
}
inline void mma_f16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    host_cuda::multiply_add(sums, a, b, [](unsigned x, unsigned y) {
        return host_cuda::half_value(x & 0xffff) * host_cuda::half_value(y & 0xffff) +
               host_cuda::half_value(x >> 16) * host_cuda::half_value(y >> 16);
    });
}
