// Which accesses to memory race, as CUDA orders them; part of host_cuda.cpp.
//
// A kernel that is compiled with -fsanitize=thread calls __tsan_read4 and the like before every
// access. They are here, not in the compiler's library, which knows threads of the system only.
//
// Two accesses of different threads to the same place race unless both read, or both are atomic, or
// one comes before the other: by __syncthreads in a block, by __syncwarp in a warp; between blocks that
// are there at once by a barrier of the first block, its arrive(), arrivals() that sees it and a
// barrier of the second, all of which cluster_meet() has. A shuffle orders nothing. Found are races of
// the last write and of two reads since with any access, whatever order the threads ran in.
#pragma once

#include <unordered_map>

#include <dlfcn.h>
#include <link.h>

namespace host_cuda {

struct Access {
    uint32_t launch = 0, block = 0, phase = 0, warp_phase = 0;
    uint16_t thread = 0;
    bool atomic = false;
};
struct Cell {
    Access wrote, read[2];
};
// What is known of 4096 bytes: of accesses of 4 bytes or more by words, of others by bytes. Each is
// checked against both.
struct Page {
    Cell words[1024];
    std::vector<Cell> bytes;
};
struct Range {
    uintptr_t begin = 0, end = 0;
    bool holds(uintptr_t place) const { return place >= begin && place < end; }
};
// How far each block's work is known to be done: all of its phases before that.
typedef std::vector<uint32_t> Clock;

static std::unordered_map<uintptr_t, Page*> pages;
static std::unordered_map<const unsigned*, Clock> clocks;  // of counts that blocks arrive at
static uint32_t launches = 0;
static Range image;  // of the kernel's library: where its static shared memory is

static Page& page_of(uintptr_t place) {
    // Accesses follow others of the same pages.
    static struct { uintptr_t number; Page* page; } recent[64];
    const uintptr_t number = place >> 12;
    auto& found = recent[number % 64];
    if (!found.page || found.number != number) {
        Page*& page = pages[number];
        if (!page) page = new Page;
        found = {number, page};
    }
    return *found.page;
}

static void join(Clock& clock, const Clock& other) {
    clock.resize(std::max(clock.size(), other.size()));
    for (size_t i = 0; i < other.size(); i++) clock[i] = std::max(clock[i], other[i]);
}

static Range library_of(void* place) {
    static std::unordered_map<void*, Range> known;
    Range& found = known[place];
    if (found.end) return found;
    std::pair<uintptr_t, Range*> wanted{(uintptr_t)place, &found};
    dl_iterate_phdr([](dl_phdr_info* info, size_t, void* data) {
        auto& wanted = *(std::pair<uintptr_t, Range*>*)data;
        Range range{~(uintptr_t)0, 0};
        for (int i = 0; i < info->dlpi_phnum; i++) {
            if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
            const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            range.begin = std::min(range.begin, begin);
            range.end = std::max(range.end, begin + info->dlpi_phdr[i].p_memsz);
        }
        if (!range.holds(wanted.first)) return 0;
        *wanted.second = range;
        return 1;
    }, &wanted);
    return found;
}

static bool before(const Access& one, const Access& now, bool shared) {
    if (one.launch != now.launch || (one.block == now.block && one.thread == now.thread)) return true;
    if (one.block != now.block)
        return shared || (one.block < block->known.size() && one.phase < block->known[one.block]);
    return one.phase < now.phase || (one.thread / 32 == now.thread / 32 && one.warp_phase < now.warp_phase);
}

static void check(const Access& one, const Access& now, bool shared, const char* did, const char* does,
                  const void* place, const void* code) {
    if ((one.atomic && now.atomic) || before(one, now, shared)) return;
    Dl_info about{};
    dladdr(code, &about);
    std::fprintf(stderr, "host_cuda: thread %u of block %u %s %s memory at %p that thread %u of block %u %s, in %s\n",
                 now.thread, now.block, does, shared ? "shared" : "global", place, one.thread, one.block, did,
                 about.dli_sname ? about.dli_sname : "a kernel");
    fail("nothing says which comes first");
}

static void check(const Cell& cell, const Access& now, bool shared, bool writes, const void* place, const void* code) {
    const char* does = writes ? "writes to" : "reads";
    check(cell.wrote, now, shared, "wrote to", does, place, code);
    if (!writes) return;
    for (const Access& read : cell.read) check(read, now, shared, "reads", does, place, code);
}

static void access(Cell& cell, const Access& now, bool shared, bool writes, const void* place, const void* code) {
    check(cell, now, shared, writes, place, code);
    if (writes) {
        cell.wrote = now;
        return;
    }
    const Access& first = cell.read[0];
    const bool over = before(first, now, shared);
    if (!over) cell.read[1] = first;
    cell.read[0] = now;
}

void watch(const void* place, size_t size, bool writes, bool atomic, const void* code) {
    const uintptr_t from = (uintptr_t)place;
    if (!current || from - (uintptr_t)current->stack < STACK_BYTES) return;
    // Where blocks are there one after the other, the next one gets the same memory. Those of a cluster
    // write to each other's.
    const bool own = from - (uintptr_t)block->shared < block->shared_bytes;
    const bool shared = image.holds(from) || (own && !together);
    const Access now{launches, block->number, block->phase, current->warp_phase, current->number, atomic};
    for (size_t done = 0; done < size;) {
        const uintptr_t at = from + done;
        Page& page = page_of(at);
        Cell& word = page.words[(at & 4095) >> 2];
        if (size < 4) {
            page.bytes.resize(4096);
            check(word, now, shared, writes, place, code);
            access(page.bytes[at & 4095], now, shared, writes, place, code);
            done++;
        } else {
            for (size_t byte = at & 4092; byte < (at & 4092) + 4 && !page.bytes.empty(); byte++)
                check(page.bytes[byte], now, shared, writes, place, code);
            access(word, now, shared, writes, place, code);
            done += 4 - (at & 3);
        }
    }
}

}  // namespace host_cuda

// A block arrives with what it knows, and with its own phases before the last barrier.
void arrive(unsigned* count) {
    using namespace host_cuda;
    watch(count, 4, true, true, nullptr);
    Clock& clock = clocks[count];
    join(clock, block->known);
    clock.resize(std::max(clock.size(), (size_t)block->number + 1));
    clock[block->number] = std::max(clock[block->number], block->phase);
    between();
    ++*count;
}
unsigned arrivals(const unsigned* count) {
    using namespace host_cuda;
    between();
    watch(count, 4, false, true, nullptr);
    // What the thread has seen, the others of its block know from their next barrier on.
    join(block->acquired, clocks[count]);
    return *count;
}

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
#define WATCHED(SIZE)                                                                                         \
    void __tsan_read##SIZE(void* at) { host_cuda::watch(at, SIZE, false, false, __builtin_return_address(0)); } \
    void __tsan_write##SIZE(void* at) { host_cuda::watch(at, SIZE, true, false, __builtin_return_address(0)); }
WATCHED(1)
WATCHED(2)
WATCHED(4)
WATCHED(8)
WATCHED(16)
#undef WATCHED
#define WATCHED(SIZE)                                                            \
    void __tsan_unaligned_read##SIZE(void* at) { __tsan_read##SIZE(at); }        \
    void __tsan_unaligned_write##SIZE(void* at) { __tsan_write##SIZE(at); }
WATCHED(2)
WATCHED(4)
WATCHED(8)
WATCHED(16)
#undef WATCHED
void __tsan_read_range(void* at, unsigned long size) {
    host_cuda::watch(at, size, false, false, __builtin_return_address(0));
}
void __tsan_write_range(void* at, unsigned long size) {
    host_cuda::watch(at, size, true, false, __builtin_return_address(0));
}
}
