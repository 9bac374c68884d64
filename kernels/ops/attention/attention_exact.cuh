// Tiles of attention in the precision of the rows: any width, a few columns at a time.
#pragma once
#include "attention_rows.cuh"

// A thread has rows HIGH apart; of the scores, columns 16 apart; of the results, VEC neighbours in
// each part. So a warp reads 16 rows of an operand, or two of the other, without bank conflicts,
// and sixteen neighbouring lanes have a whole row.
//
// Shared memory, in this order (attention_cupy.py counts it, too):
//   stages   2 x (own and other rows, DEEP + VEC): double buffered
//   weights  (own, others + 4 VEC): each row is accessed only by the lanes that own it
template <class T_, int PARTS, int THREADS_> struct ExactTiles {
    typedef T_ T;
    typedef T_ A;
    enum {
        THREADS = THREADS_, BLOCKS = 256 / THREADS, VEC = 16 / sizeof(T), OWN = 16 * VEC, OTHERS = OWN, HIGH = THREADS / 16,
        ROWS = OWN / HIGH, COLUMNS = VEC, GROUP = VEC, SUMS = VEC * PARTS, ROW_LANES = 16,
        WIDE = 16 * VEC * PARTS, DEEP = 4 * VEC, ACROSS = DEEP + VEC,
        STAGE = (OWN + OTHERS) * ACROSS, WEIGHTS = OTHERS + 4 * VEC
    };
    typedef Pack<T, VEC> Piece;
    typedef HeadRows<T> Rows;

    T *stages, *weights;
    int stage, x, y;

    __device__ __forceinline__ ExactTiles(void* shared, const Rows (&)[2])
        : stages((T*)shared), weights(stages + 2 * STAGE), stage(0), x(threadIdx.x & 15), y(threadIdx.x >> 4) {}

    static __device__ __forceinline__ A unit() { return (A)1; }
    static __device__ __forceinline__ A power(A value) { return sizeof(A) == 4 ? (A)expf((float)value) : (A)exp((double)value); }
    static __device__ __forceinline__ A logarithm(A value) { return sizeof(A) == 4 ? (A)logf((float)value) : (A)log((double)value); }
    __device__ __forceinline__ int row(int i) const { return y + i * HIGH; }
    __device__ __forceinline__ int column(int j) const { return x + j * 16; }
    __device__ __forceinline__ int result_column(int e) const { return e / VEC * 16 * VEC + x * VEC + e % VEC; }
    __device__ __forceinline__ void begin(const Rows (&)[2], int) {}
    __device__ __forceinline__ void turn(const Rows (&)[2], int, bool) {}

    // own rows @ others.T
    template <int SIDE>
    __device__ __forceinline__ void scores(A (&s)[ROWS][COLUMNS], const Rows (&own)[2], const Rows (&others)[2], int first) {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) s[i][j] = (A)0;
        const int width = own[SIDE].width;
        if (width) bring_both(own[SIDE], others[SIDE], first, 0);
#pragma unroll 1
        for (int from = 0; from < width; from += DEEP) {
            copies_done();
            __syncthreads();
            const T *left = stages + stage * STAGE + y * ACROSS, *right = stages + stage * STAGE + (OWN + x) * ACROSS;
            stage ^= 1;
            if (from + DEEP < width) bring_both(own[SIDE], others[SIDE], first, from + DEEP);
#pragma unroll 2
            for (int k = 0; k < DEEP; k += VEC) {
                Piece b[COLUMNS];
#pragma unroll
                for (int j = 0; j < COLUMNS; j++) b[j] = *(const Piece*)(right + j * 16 * ACROSS + k);
#pragma unroll
                for (int i = 0; i < ROWS; i++) {
                    const Piece a = *(const Piece*)(left + i * HIGH * ACROSS + k);
#pragma unroll
                    for (int e = 0; e < VEC; e++)
#pragma unroll
                        for (int j = 0; j < COLUMNS; j++) s[i][j] += a.at[e] * b[j].at[e];
                }
            }
        }
    }

    // sums += s @ others, of their columns from `from` on
    template <int SIDE>
    __device__ __forceinline__ void gather(const A (&s)[ROWS][COLUMNS], const Rows (&others)[2], int first, int from, A (&sums)[ROWS][SUMS]) {
        if (from >= others[SIDE].width) return;
        T* mine = weights + y * WEIGHTS;
        __syncwarp();  // rows without columns: there was no barrier since the last read
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j++) mine[i * HIGH * WEIGHTS + x + j * 16] = s[i][j];
        const int left = others[SIDE].count - first, here = left < OTHERS ? left : OTHERS;
        bring(others[SIDE], first, from);
#pragma unroll 1
        for (int top = 0; top < here; top += DEEP) {
            copies_done();
            __syncthreads();
            const T* right = stages + stage * STAGE + x * VEC;
            stage ^= 1;
            if (top + DEEP < here) bring(others[SIDE], first + top + DEEP, from);
#pragma unroll 2
            for (int k = 0; k < DEEP; k += VEC) {
                Piece a[ROWS];
#pragma unroll
                for (int i = 0; i < ROWS; i++) a[i] = *(const Piece*)(mine + i * HIGH * WEIGHTS + top + k);
#pragma unroll
                for (int e = 0; e < VEC; e++)
#pragma unroll
                    for (int part = 0; part < PARTS; part++) {
                        const Piece b = *(const Piece*)(right + (k + e) * WIDE + part * 16 * VEC);
#pragma unroll
                        for (int i = 0; i < ROWS; i++)
#pragma unroll
                            for (int c = 0; c < VEC; c++) sums[i][part * VEC + c] += a[i].at[e] * b.at[c];
                    }
            }
        }
    }

  private:
    // The last read of this stage precedes the last barrier.
    __device__ __forceinline__ void bring_both(const Rows& own, const Rows& others, int first, int from) {
        T* tile = stages + stage * STAGE;
        ask_for<THREADS, OWN, DEEP, ACROSS>(tile, own, 0, from);
        ask_for<THREADS, OTHERS, DEEP, ACROSS>(tile + OWN * ACROSS, others, first, from);
    }
    __device__ __forceinline__ void bring(const Rows& others, int first, int from) {
        ask_for<THREADS, DEEP, WIDE, WIDE>(stages + stage * STAGE, others, first, from);
    }
};
