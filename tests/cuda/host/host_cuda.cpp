// How CUDA C++ runs on the CPU: see host_cuda.h. Kernels' libraries find this one's names.
#include "host_cuda.h"

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <unordered_map>
#include <vector>

#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#define HOST_NO_REDZONES __attribute__((no_sanitize("address")))
#else
#define HOST_NO_REDZONES
#endif

dim3 gridDim, blockDim, blockIdx, threadIdx;

namespace host_cuda {

// A copy that a thread has asked for, of `size` bytes or as many zeros; and of which group it is.
struct Copy {
    void* to;
    const void* from;
    int size, bytes;
    unsigned group;
    bool watched;
};

const size_t STACK_BYTES = 256 << 10;

#if defined(__x86_64__)
// Where a fiber goes on: its stack, with the registers that a call preserves on top. Not ucontext.h,
// which calls the operating system at every switch, and whose swapcontext has the sanitizer forget the
// bounds of all arrays on the stack that it switches to.
typedef void* Context;
extern "C" void host_cuda_switch(Context* from, Context to);
asm(R"(
.pushsection .text
.type host_cuda_switch, @function
host_cuda_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size host_cuda_switch, .-host_cuda_switch
.popsection
)");
static void switch_to(Context& from, Context& to) { host_cuda_switch(&from, to); }
static void begin_at(Context& made, void* stack, void (*first)()) {
    // Under the registers and `first`: no place to return to, and aligned as after a call.
    void** top = (void**)((char*)stack + STACK_BYTES) - 8;
    std::fill(top, top + 8, nullptr);
    top[6] = (void*)first;
    made = top;
}
#else
typedef ucontext_t Context;
static void switch_to(Context& from, Context& to) { swapcontext(&from, &to); }
static void begin_at(Context& made, void* stack, void (*first)()) {
    getcontext(&made);
    made.uc_stack.ss_sp = stack;
    made.uc_stack.ss_size = STACK_BYTES;
    made.uc_link = nullptr;
    makecontext(&made, first, 0);
}
#endif

struct Fiber {
    std::vector<Copy> copies;
    unsigned groups = 0;
    Context context;
    void* stack = nullptr;
    State state = DONE;
    unsigned mask = 0;
    dim3 index;
    const void* where = nullptr;
    void* fake_stack = nullptr;
    uint16_t number = 0;
    uint32_t warp_phase = 0;  // how often its warp met
    bool said = false;  // of __syncthreads_or
};

struct Block {
    std::vector<Fiber> fibers;
    dim3 index;
    uint64_t slots[1024];
    unsigned fragments[1024][6];  // what each thread gives to a product of its warp
    unsigned char* shared = nullptr;
    size_t shared_bytes = 0;
    uint32_t number = 0, phase = 0;  // how often its threads met
    unsigned meetings = 0;           // of its cluster
    bool ended = false;
    std::vector<uint32_t> known, acquired;  // see host_races.h
};

static std::vector<Block> running;
static bool together = false;  // all blocks are there at once
static std::vector<Block*> of_number;
static std::vector<unsigned> arrivals_of;  // of each cluster
static Block* block = nullptr;
static Context scheduler;
static void* scheduler_fake = nullptr;
static const void* scheduler_bottom = nullptr;
static size_t scheduler_size = 0;
static Fiber* current = nullptr;
static void (*body)(void*) = nullptr;
static void* argument = nullptr;

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "host_cuda: %s\n", what);
    std::abort();
}

// Never returns `for_good`, when the next thread may have the stack: nothing of it may stay poisoned.
HOST_NO_REDZONES static void leave(bool for_good) {
    Fiber* self = current;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(for_good ? nullptr : &self->fake_stack, scheduler_bottom, scheduler_size);
#endif
    switch_to(self->context, scheduler);
    if (for_good) fail("a fiber ran on after its end");
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(self->fake_stack, nullptr, nullptr);
#endif
}

static void enter(Fiber& fiber) {
    current = &fiber;
    threadIdx = fiber.index;
    blockIdx = block->index;
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&scheduler_fake, fiber.stack, STACK_BYTES);
#endif
    switch_to(scheduler, fiber.context);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(scheduler_fake, nullptr, nullptr);
#endif
}

HOST_NO_REDZONES static void start() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_bottom, &scheduler_size);
#endif
    body(argument);
    if (!current->copies.empty()) fail("a thread ends before the copies it has asked for");
    current->state = DONE;
    leave(true);
}

void wait(State state, unsigned mask, const void* where) {
    current->state = state;
    current->mask = mask;
    current->where = where;
    leave(false);
}

bool any_of_block(bool said, const void* where) {
    current->said = said;
    wait(AT_BLOCK, 0, where);
    bool any = false;
    for (const Fiber& one : block->fibers) any |= one.state != DONE && one.said;
    wait(AT_BLOCK, 0, where);
    return any;
}

// In what order threads and blocks run: from the first to the last, from the last to the first, or as
// random numbers say, which then also let others run in between.
enum Order { FIRST, LAST, RANDOM };
static Order order = FIRST;
static uint64_t random_state = 0;

static unsigned random_below(size_t count) {
    uint64_t word = random_state += 0x9e3779b97f4a7c15u;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return (unsigned)((word ^ word >> 31) % count);
}

// The same numbers for every launch: a launch that fails does so by itself, too.
static void begin_order() {
    const char* asked = std::getenv("HOST_CUDA_ORDER");
    if (!asked || !std::strcmp(asked, "first")) order = FIRST;
    else if (!std::strcmp(asked, "last")) order = LAST;
    else {
        char* end;
        random_state = std::strtoull(asked, &end, 10);
        if (end == asked || *end) fail("HOST_CUDA_ORDER is first, last or a number");
        order = RANDOM;
    }
}

// Numbers below a count, each once.
struct Turns {
    size_t count, next, step;
    explicit Turns(size_t count) : count(count), next(order == LAST ? count - 1 : 0), step(order == LAST ? count - 1 : 1) {
        if (order != RANDOM || count < 2) return;
        next = random_below(count);
        do step = 1 + random_below(count - 1); while (std::gcd(step, count) != 1);
    }
    size_t operator()() {
        const size_t now = next;
        next = (next + step) % count;
        return now;
    }
};

void between() {
    if (order == RANDOM && random_below(4) == 0) wait(READY, 0, nullptr);
}

}  // namespace host_cuda

#include "host_races.h"

namespace host_cuda {

// Lets go on whoever waits for others that are all there; false if nobody could.
static bool release(size_t count) {
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
        block->phase++;
        join(block->known, block->acquired);
        return true;
    }
    bool released = false;
    for (size_t warp = 0; warp < count; warp += 32) {
        for (size_t i = warp; i < warp + 32 && i < count; i++) {
            const State state = fibers[i].state;
            if (state != AT_WARP && state != SHUFFLES) continue;
            bool there = true;
            for (unsigned lane = 0; lane < 32; lane++) {
                if (!(fibers[i].mask >> lane & 1)) continue;
                if (warp + lane >= count) continue;  // a lane that the block does not have
                const Fiber& other = fibers[warp + lane];
                there = there && (other.state == state && other.mask == fibers[i].mask);
            }
            if (!there) continue;
            const unsigned mask = fibers[i].mask;
            for (unsigned lane = 0; lane < 32 && warp + lane < count; lane++) {
                if (!(mask >> lane & 1)) continue;
                fibers[warp + lane].state = READY;
                fibers[warp + lane].warp_phase += state == AT_WARP;
            }
            released = true;
        }
    }
    return released;
}

static void prepare(Block& made, size_t count, size_t number, const Shape& shape) {
    const dim3 grid = shape.grid;
    const size_t shared_bytes = made.shared_bytes = shape.shared_bytes;
    made.number = (uint32_t)number;
    made.index = {(unsigned)(number % grid.x), (unsigned)(number / grid.x % grid.y),
                  (unsigned)(number / grid.x / grid.y)};
    made.phase = made.meetings = 0;
    made.ended = false;
    made.known.clear();
    made.acquired.clear();
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
        fiber.number = (uint16_t)i;
        fiber.warp_phase = 0;
        fiber.fake_stack = nullptr;
        fiber.copies.clear();
        fiber.groups = 0;
        begin_at(fiber.context, fiber.stack, start);
    }
}

enum Turn { OVER, WENT_ON, SLEPT, STUCK };

// Runs all threads of a block that can, up to where they wait; in random order perhaps only some.
static Turn turn(size_t count) {
    bool went = false, left = false, asleep = false;
    Turns turns(count);
    size_t most = order == RANDOM && random_below(2) ? 1 + random_below(count) : count;
    for (size_t k = 0; k < count; k++) {
        Fiber& fiber = block->fibers[turns()];
        if (most && (fiber.state == READY || fiber.state == ASLEEP)) {
            most--;
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
// does not wait for others gets far ahead of them. In random order each goes on for some turns.
static void run_blocks(size_t blocks, size_t count) {
    for (size_t idle = 0;;) {
        bool left = false, went = false;
        Turns turns(blocks);
        for (size_t k = 0; k < blocks; k++) {
            block = &running[turns()];
            Turn done;
            while ((done = turn(count)) == WENT_ON) {
                went = true;
                if (order == RANDOM && random_below(4) == 0) break;
            }
            if (done == STUCK) fail("the threads of a block wait for ever");
            block->ended = done == OVER;
            left = left || done != OVER;
        }
        if (!left) return;
        idle = went ? 0 : idle + 1;
        if (idle > 100) fail("blocks wait for each other for ever");
    }
}

unsigned warp_start() {
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & ~31u;
}

uint64_t exchange(unsigned mask, uint64_t raw, unsigned from) {
    if (!(mask >> lane() & 1)) fail("a thread shuffles that is not in its mask");
    const unsigned start = warp_start();
    block->slots[start + lane()] = raw;
    wait(SHUFFLES, mask, nullptr);
    const uint64_t result = from < 32 && (mask >> from & 1) ? block->slots[start + from] : raw;
    wait(SHUFFLES, mask, nullptr);
    return result;
}

void* shared_memory() { return block->shared; }

void launch(const Shape& shape, void (*kernel)(void*), void* of) {
    begin_order();
    const dim3 grid = gridDim = shape.grid;
    blockDim = shape.block;
    body = kernel;
    argument = of;
    const size_t count = (size_t)blockDim.x * blockDim.y * blockDim.z;
    const size_t blocks = (size_t)grid.x * grid.y * grid.z, at_once = shape.together ? blocks : 1;
    together = shape.together;
    arrivals_of.assign(blocks / grid.x, 0);
    of_number.assign(blocks, nullptr);
    if (count > 1024) fail("more than 1024 threads in a block");
    if (grid.x > INT32_MAX || grid.y > 65535 || grid.z > 65535) fail("more blocks than a grid has");
    if (running.size() < at_once) running.resize(at_once);
    launches++;
    clocks.clear();
    image = library_of((void*)kernel);
    Turns turns(blocks);
    for (size_t k = 0; k < blocks; k++) {
        prepare(running[k % at_once], count, turns(), shape);
        of_number[running[k % at_once].number] = &running[k % at_once];
        if ((k + 1) % at_once == 0) run_blocks(at_once, count);
    }
    current = nullptr;
}

}  // namespace host_cuda

// Clusters: of the blocks of a row of the grid.
void* host_cuda::in_block(void* mine, unsigned rank) {
    const size_t place = (size_t)((unsigned char*)mine - block->shared);
    if (!together || rank >= gridDim.x) fail("a cluster has no such block");
    if (place >= block->shared_bytes) fail("what is not in shared memory is in no other block");
    Block& other = *of_number[block->number - block->index.x + rank];
    if (other.ended) fail("a block of the cluster has ended");
    return other.shared + place;
}
void cluster_meet() {
    using namespace host_cuda;
    const void* where = __builtin_return_address(0);
    wait(AT_BLOCK, 0, where);
    if (current->number == 0) {
        unsigned& count = arrivals_of[block->number / gridDim.x];
        const unsigned awaited = ++block->meetings * gridDim.x;
        arrive(&count);
        while (arrivals(&count) < awaited) wait(ASLEEP, 0, nullptr);
    }
    wait(AT_BLOCK, 0, where);
}

// Products of a warp, as PTX defines mma.sync for these shapes: where each lane has its part of
// the operands and of the sums. The values of a word are `decoded`, the first in its lower half.
namespace host_cuda {

template <class Decoded>
static void multiply_add(float (&sums)[4], const unsigned (&left)[4], const unsigned (&right)[2], Decoded decoded) {
    const unsigned start = warp_start(), g = lane() / 4, t = lane() % 4;
    unsigned* mine = block->fragments[start + lane()];
    std::copy(left, left + 4, mine);
    std::copy(right, right + 2, mine + 4);
    wait(SHUFFLES, 0xffffffffu, nullptr);
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
    wait(SHUFFLES, 0xffffffffu, nullptr);
}

static double half_value(unsigned bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31) return fraction ? NAN : bits & 0x8000 ? -INFINITY : INFINITY;
    const double value = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
    return bits & 0x8000 ? -value : value;
}

}  // namespace host_cuda

void mma_tf32(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    host_cuda::multiply_add(sums, a, b, [](unsigned x, unsigned y) {
        if ((x | y) & 0x1fff) host_cuda::fail("an operand of tf32 has too many digits");
        return (double)__uint_as_float(x) * __uint_as_float(y);
    });
}
void mma_bf16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    host_cuda::multiply_add(sums, a, b, [](unsigned x, unsigned y) {
        return (double)__uint_as_float(x << 16) * __uint_as_float(y << 16) +
               (double)__uint_as_float(x & 0xffff0000u) * __uint_as_float(y & 0xffff0000u);
    });
}
void mma_f16(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    host_cuda::multiply_add(sums, a, b, [](unsigned x, unsigned y) {
        return host_cuda::half_value(x & 0xffff) * host_cuda::half_value(y & 0xffff) +
               host_cuda::half_value(x >> 16) * host_cuda::half_value(y >> 16);
    });
}

// Copies and matrices in shared memory, as PTX defines cp.async and ldmatrix.
namespace host_cuda {

static void aligned(const void* place, int bytes) {
    if ((uintptr_t)place & (bytes - 1)) fail("an address is no multiple of as many bytes as are copied");
}

// Its place may be written from now on until it is waited for.
void copy_async(void* to, const void* from, int size, int bytes, bool watched) {
    aligned(to, size);
    aligned(from, size);
    if (size != 4 && size != 8 && size != 16) fail("a copy is of 4, 8 or 16 bytes");
    if (bytes != 0 && bytes != size) fail("a copy is of all bytes, or of zeros");
    if (watched) watch(to, size, true, false, nullptr);
    if (watched && bytes) watch(from, bytes, false, false, nullptr);
    current->copies.push_back({to, from, size, bytes, current->groups, watched});
}

void load_matrices(unsigned (&r)[4], const void* row, bool turned, bool watched) {
    aligned(row, 16);
    if (watched) watch(row, 16, false, false, nullptr);
    const unsigned start = warp_start(), g = lane() / 4, t = lane() % 4;
    block->slots[start + lane()] = (uint64_t)(uintptr_t)row;
    wait(SHUFFLES, 0xffffffffu, nullptr);
    for (unsigned matrix = 0; matrix < 4; matrix++) {
        const auto row_of = [&](unsigned i) { return (const void*)(uintptr_t)block->slots[start + matrix * 8 + i]; };
        if (turned)
            r[matrix] = ((const uint16_t*)row_of(2 * t))[g] | (unsigned)((const uint16_t*)row_of(2 * t + 1))[g] << 16;
        else
            r[matrix] = ((const unsigned*)row_of(g))[t];
    }
    wait(SHUFFLES, 0xffffffffu, nullptr);
}

}  // namespace host_cuda

void copies_commit() { host_cuda::current->groups++; }

void copies_wait(unsigned later) {
    using namespace host_cuda;
    std::vector<Copy> left;
    for (const Copy& one : current->copies) {
        // Done no sooner than they must be.
        if (one.group + later >= current->groups) {
            left.push_back(one);
            continue;
        }
        if (one.watched) watch(one.to, one.size, true, false, nullptr);
        if (one.bytes) std::memcpy(one.to, one.from, one.size);
        else std::memset(one.to, 0, one.size);
    }
    current->copies.swap(left);
}

void copies_done() {
    copies_commit();
    copies_wait(0);
}
