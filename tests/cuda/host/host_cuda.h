// CUDA C++ on the CPU: enough of the language and its library to compile the CUDA
// sources of kernels/ with g++, and to run them block by block under the sanitizers.
//
// How they run is in host_cuda.cpp, which is compiled once; kernels are many. The threads of a
// block are fibers of one thread, switched only where they meet: at
// __syncthreads, in warp shuffles, and where one waits for other blocks in __nanosleep. Blocks run
// one after the other; those of a cooperative launch or of clusters all at once, so that they may have no
// shared memory but that of the launch. HOST_CUDA_ORDER=last runs them from last to first, a number in an
// order that it is the seed of, switched at atomics as well: a result that depends on an order that
// nothing guarantees then differs. Compiled with -fsanitize=thread they are checked for races
// (host_races.h).
#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __constant__ static const
#define __shared__ static
#define __launch_bounds__(...)
#define CLUSTER_OF(SIZE)
#define __restrict__
#define __builtin_assume(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

struct dim3 {
    unsigned x, y, z;
};
extern dim3 gridDim, blockDim, blockIdx, threadIdx;
static const int warpSize = 32;

struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) double2 { double x, y; };

namespace host_cuda {

// What a launch is: where, and what of it a kernel can ask for.
struct Shape {
    dim3 grid, block;
    size_t shared_bytes;
    bool together;
};

// Why a thread does not go on.
enum State { READY, AT_BLOCK, AT_WARP, SHUFFLES, ASLEEP, DONE };

[[noreturn]] void fail(const char* what);
// Runs body(of) as every thread of every block.
void launch(const Shape& shape, void (*body)(void*), void* of);
// Lets others run until this one may go on. `mask`: of a warp; `where`: the same for all who meet.
void wait(State state, unsigned mask, const void* where);
// Whether any thread of the block says so; all meet at `where`.
bool any_of_block(bool said, const void* where);
// Perhaps lets others run, as HOST_CUDA_ORDER says.
void between();
// Checks that an access does not race with others.
void watch(const void* place, size_t size, bool writes, bool atomic, const void* code);
// Gives 8 bytes to the warp, and returns those of lane `from`; `raw` if it gives none.
uint64_t exchange(unsigned mask, uint64_t raw, unsigned from);
// The memory of the block that runs, of a launch's size.
void* shared_memory();

inline unsigned lane() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31;
}
template <class T> T exchange_value(unsigned mask, T value, unsigned from) {
    static_assert(sizeof(T) <= 8, "shuffles move at most 8 bytes");
    uint64_t raw = 0;
    std::memcpy(&raw, &value, sizeof(T));
    raw = exchange(mask, raw, from);
    std::memcpy(&value, &raw, sizeof(T));
    return value;
}

template <class... A> struct Call {
    void (*kernel)(A...);
    void** args;

    template <size_t... I> void with(std::index_sequence<I...>) { kernel(*(A*)args[I]...); }
    // As on a device, each thread has parameters of its own.
    static void run(void* self) { ((Call*)self)->with(std::index_sequence_for<A...>{}); }
};
template <class... A> void call(void (*kernel)(A...), void** args, const unsigned* s) {
    Call<A...> one{kernel, args};
    launch({{s[0], s[1], s[2]}, {s[3], s[4], s[5]}, s[6], s[7] != 0}, &Call<A...>::run, &one);
}
template <class... A> int parameters(void (*)(A...), int* sizes) {
    int count = 0;
    ((sizes[count++] = (int)sizeof(A)), ...);
    return count;
}

// What `extern __shared__` is turned into.
struct Shared {
    operator void*() const { return shared_memory(); }
};

}  // namespace host_cuda

__attribute__((noinline)) static void host_cuda_barrier() {
    host_cuda::wait(host_cuda::AT_BLOCK, 0, __builtin_return_address(0));
}
#define __syncthreads() host_cuda_barrier()
__attribute__((noinline)) static int __syncthreads_or(int said) {
    return host_cuda::any_of_block(said != 0, __builtin_return_address(0));
}

inline void __nanosleep(unsigned) { host_cuda::wait(host_cuda::ASLEEP, 0, nullptr); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { host_cuda::wait(host_cuda::AT_WARP, mask, nullptr); }
template <class T> T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
    return host_cuda::exchange_value(mask, value, (host_cuda::lane() & ~(width - 1)) + (from & (width - 1)));
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
    (void)width;
    return host_cuda::exchange_value(mask, value, host_cuda::lane() ^ bits);
}
template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
    const unsigned self = host_cuda::lane(), to = self + by;
    return host_cuda::exchange_value(mask, value, (to / width == self / width) ? to : self);
}
template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
    const unsigned self = host_cuda::lane();
    return host_cuda::exchange_value(mask, value, self % width >= by ? self - by : self);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
    unsigned result = 0;
    for (unsigned from = 0; from < 32; from++)
        if (mask >> from & 1) result |= (unsigned)(host_cuda::exchange_value(mask, predicate, from) != 0) << from;
    return result;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }

template <class T> T __ldg(const T* place) { return *place; }
#if defined(__SANITIZE_THREAD__)
#define HOST_ATOMIC template <class T> __attribute__((no_sanitize("thread"), noinline)) T
#define HOST_WATCH(place) host_cuda::watch(place, sizeof(T), true, true, __builtin_return_address(0))
#else
#define HOST_ATOMIC template <class T> T
#define HOST_WATCH(place) (void)0
#endif
#define HOST_DEFINE_ATOMIC(NAME, ...)                                   \
    HOST_ATOMIC NAME(T* place, T value) {                               \
        HOST_WATCH(place);                                              \
        host_cuda::between();                                           \
        const T old = *place;                                           \
        *place = __VA_ARGS__;                                           \
        return old;                                                     \
    }
HOST_DEFINE_ATOMIC(atomicAdd, old + value)
HOST_DEFINE_ATOMIC(atomicMax, old < value ? value : old)
HOST_DEFINE_ATOMIC(atomicMin, value < old ? value : old)
HOST_DEFINE_ATOMIC(atomicXor, old ^ value)
HOST_DEFINE_ATOMIC(atomicExch, value)
HOST_ATOMIC atomicCAS(T* place, T expected, T value) {
    HOST_WATCH(place);
    host_cuda::between();
    const T old = *place;
    if (old == expected) *place = value;
    return old;
}
// What PTX says in rnn_meeting.cuh: adds 1 and releases; reads and acquires.
void arrive(unsigned* count);
unsigned arrivals(const unsigned* count);
// In last_block.cuh: both. Not of blocks that run at once, which might be counted together.
inline unsigned arrived(unsigned* count) {
    arrive(count);
    return arrivals(count);
}

// In rnn_cluster.cuh, of the blocks of a row of the grid.
void cluster_meet();
namespace host_cuda {
void* in_block(void* mine, unsigned rank);
}
template <class T> T* in_block(T* mine, unsigned rank) { return (T*)host_cuda::in_block((void*)mine, rank); }

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

// Products of a warp; see host_cuda.cpp.
void mma_tf32(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]);
void mma_bf16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]);
void mma_f16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]);

#if defined(__SANITIZE_THREAD__)
static const bool host_watched = true;
#else
static const bool host_watched = false;
#endif
namespace host_cuda {
void load_matrices(unsigned (&r)[4], const void* row, bool turned, bool watched);
void copy_async(void* to, const void* from, int size, int bytes, bool watched);
}  // namespace host_cuda
inline void load_matrices(unsigned (&r)[4], const void* row) { host_cuda::load_matrices(r, row, false, host_watched); }
inline void load_matrices_turned(unsigned (&r)[4], const void* row) { host_cuda::load_matrices(r, row, true, host_watched); }
// Done when they are waited for, no sooner.
inline void copy_async(void* to, const void* from, int bytes) { host_cuda::copy_async(to, from, 16, bytes, host_watched); }
template <class T> void copy_async_value(T* to, const T* from) { host_cuda::copy_async(to, from, sizeof(T), sizeof(T), host_watched); }
void copies_commit();
void copies_wait(unsigned later);
template <int LATER> void copies_wait() { copies_wait(LATER); }
void copies_done();
