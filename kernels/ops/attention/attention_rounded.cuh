// Tiles of attention on tensor cores: operands of reduced precision, accumulators in float32.
#pragma once
#include "attention_rows.cuh"
#include "tensor_cores.cuh"

// A warp has 16 own rows and all others; of them, lane g * 4 + t has rows g and g + 8, and columns
// 2 t and 2 t + 1 of every eight: mma.sync leaves sums where the next product takes its left
// operand, so that weights do not pass through shared memory. For tf32 the next product takes the
// keys of every eight in the order 0, 2, 4, 6, 1, 3, 5, 7, for the same reason.
//
// WIDE: maximum number of columns. SIDES: arrays of own rows: 1, or 2 in the gradients.
// Shared memory, in this order (attention_cupy.py counts it, too), in words:
//   own     (SIDES, 64, words of WIDE + 4)
//   others  2 x (2, others, words of WIDE + 4): double buffered
template <class Number, int WIDE_, int OTHERS_, int SIDES> struct RoundedTiles {
    typedef typename Number::Value T;
    typedef float A;
    enum {
        THREADS = 128, BLOCKS = 2, OWN = 64, OTHERS = OTHERS_, ROWS = 2, COLUMNS = OTHERS / 4, GROUP = 2,
        WIDE = WIDE_, SUMS = WIDE / 4, ROW_LANES = 4, VALUES = Number::VALUES, WORDS = WIDE / VALUES,
        ACROSS = WORDS + 4, PAIR = 2 * OTHERS * ACROSS
    };
    typedef HeadRows<T> Rows;

    unsigned *own, *pair, *next;
    int g, t;

    __device__ __forceinline__ RoundedTiles(void* shared, const Rows (&mine)[2]) : own((unsigned*)shared) {
        g = (threadIdx.x & 31) >> 2;
        t = threadIdx.x & 3;
        next = own + SIDES * OWN * ACROSS;
        pair = next + PAIR;
#pragma unroll
        for (int side = 0; side < SIDES; side++) bring<OWN>(own + side * OWN * ACROSS, mine[side], 0);
    }

    // Powers of two take one instruction.
    static __device__ __forceinline__ A unit() { return 1.44269504f; }
    static __device__ __forceinline__ A power(A value) { return exp2f(value); }
    static __device__ __forceinline__ A logarithm(A value) { return log2f(value); }
    __device__ __forceinline__ int row(int i) const { return (threadIdx.x >> 5) * 16 + g + i * 8; }
    __device__ __forceinline__ int column(int j) const { return j / 2 * 8 + 2 * t + j % 2; }
    __device__ __forceinline__ int result_column(int e) const { return column(e); }

    // Starts loading the first others.
    __device__ __forceinline__ void begin(const Rows (&others)[2], int first) {
        bring_pair(others, first);
        copies_done();
        settle<SIDES * OWN>(own);
    }
    // Waits for the current load, and starts loading those from `first` on if there are `more`.
    __device__ __forceinline__ void turn(const Rows (&others)[2], int first, bool more) {
        copies_done();
        settle<2 * OTHERS>(next);
        __syncthreads();
        unsigned* free = pair;
        pair = next;
        next = free;
        if (more) bring_pair(others, first);
    }

    template <int SIDE>
    __device__ __forceinline__ void scores(A (&s)[ROWS][COLUMNS], const Rows (&)[2], const Rows (&)[2], int) {
        const int lane = threadIdx.x & 31;
        const unsigned* left = own + (SIDE * OWN + (threadIdx.x >> 5) * 16 + lane % 16) * ACROSS + lane / 16 * 4;
        const unsigned* right = pair + (SIDE * OTHERS + lane % 8 + lane / 16 * 8) * ACROSS + lane / 8 % 2 * 4;
        float made[OTHERS / 8][4] = {};
#pragma unroll 4
        for (int k = 0; k < WORDS; k += 8) {
            unsigned a[4];
            load_matrices(a, left + k);
#pragma unroll
            for (int n = 0; n < OTHERS / 16; n++) {
                unsigned b[4];
                load_matrices(b, right + n * 16 * ACROSS + k);
                const unsigned low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
                Number::multiply_add(made[2 * n], a, low);
                Number::multiply_add(made[2 * n + 1], a, high);
            }
        }
#pragma unroll
        for (int n = 0; n < OTHERS / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) s[e / 2][2 * n + e % 2] = made[n][e];
    }

    template <int SIDE>
    __device__ __forceinline__ void gather(const A (&s)[ROWS][COLUMNS], const Rows (&)[2], int, int, A (&sums)[ROWS][SUMS]) {
        const int lane = threadIdx.x & 31;
        const unsigned* tile = pair + SIDE * OTHERS * ACROSS;
        if constexpr (VALUES == 2) {
            tile += lane % 16 * ACROSS + lane / 16 * 4;
#pragma unroll
            for (int k = 0; k < OTHERS / 16; k++) {
                const unsigned a[4] = {Number::word(&s[0][4 * k]), Number::word(&s[1][4 * k]),
                                       Number::word(&s[0][4 * k + 2]), Number::word(&s[1][4 * k + 2])};
#pragma unroll
                for (int n = 0; n < WIDE / 16; n++) {
                    unsigned b[4];
                    load_matrices_turned(b, tile + k * 16 * ACROSS + n * 8);
                    const unsigned low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
                    add(sums, 2 * n, a, low);
                    add(sums, 2 * n + 1, a, high);
                }
            }
        } else {
#pragma unroll
            for (int k = 0; k < OTHERS / 8; k++) {
                const unsigned a[4] = {Number::word(&s[0][2 * k]), Number::word(&s[1][2 * k]),
                                       Number::word(&s[0][2 * k + 1]), Number::word(&s[1][2 * k + 1])};
                const unsigned* right = tile + (8 * k + 2 * t) * ACROSS + g;
#pragma unroll
                for (int n = 0; n < WIDE / 8; n++) {
                    const unsigned b[2] = {right[8 * n], right[ACROSS + 8 * n]};
                    add(sums, n, a, b);
                }
            }
        }
    }

  private:
    static __device__ __forceinline__ void add(A (&sums)[ROWS][SUMS], int n, const unsigned (&a)[4], const unsigned (&b)[2]) {
        float made[4] = {sums[0][2 * n], sums[0][2 * n + 1], sums[1][2 * n], sums[1][2 * n + 1]};
        Number::multiply_add(made, a, b);
#pragma unroll
        for (int e = 0; e < 4; e++) sums[e / 2][2 * n + e % 2] = made[e];
    }
    template <int HIGH> static __device__ __forceinline__ void bring(unsigned* tile, const Rows& rows, int first) {
        ask_for<THREADS, HIGH, WIDE, ACROSS * VALUES>((T*)tile, rows, first, 0);
    }
    __device__ __forceinline__ void bring_pair(const Rows (&others)[2], int first) {
        bring<OTHERS>(next, others[0], first);
        bring<OTHERS>(next + OTHERS * ACROSS, others[1], first);
    }
    // Rounds the values that this thread loaded, in the order of ask_for(), to tf32.
    template <int HIGH> static __device__ __forceinline__ void settle(unsigned* tile) {
        if constexpr (VALUES == 1)
#pragma unroll 1
            for (int place = threadIdx.x; place < HIGH * WORDS / 4; place += THREADS) {
                Pack<unsigned, 4>& piece = *(Pack<unsigned, 4>*)(tile + place / (WORDS / 4) * ACROSS + place % (WORDS / 4) * 4);
                Pack<unsigned, 4> words = piece;
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const float value = __uint_as_float(words.at[e]);
                    words.at[e] = Number::word(&value);
                }
                piece = words;
            }
    }
};
