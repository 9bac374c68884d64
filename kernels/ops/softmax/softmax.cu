// Softmax and its gradients. See softmax.py.
//
// Rows are split into tiles of equal height, as in pool.cu. A segment that begins in a tile is
// computed by as many threads as hold all its rows in registers: one pass over memory. These are
// one unit, or the units of a warp, or those of the block, with rows assigned cyclically. Segments
// of more than LONG rows are left to softmax_long.cu.
#include "softmax.cuh"

// A block is (columns, units) of 256 threads. It has at most 32 / N columns, 128 bytes of float,
// and so at least 8 N units; and at least 2 columns, since a row that is not narrow has 32 bytes.
enum { WARPS = 8, MOST_UNITS = 128 };

// The segments that begin in a block's tiles and exceed one unit, by number: those for a warp from
// the front, those for the block from the back.
template <int OP, class A> struct Listed {
    enum { MOST = MOST_UNITS * HEIGHT / Room<OP, A, 1>::KEPT };
    int64 segments[MOST];
    int many[2];

    __device__ __forceinline__ void add(int64 segment, bool of_block) {
        const int place = atomicAdd(&many[of_block], 1);
        segments[of_block ? MOST - 1 - place : place] = segment;
    }
    __device__ __forceinline__ int64 at(int place, bool of_block) const {
        return segments[of_block ? MOST - 1 - place : place];
    }
};

// Work of one unit on its columns: the segments that begin in its tile and fit the unit.
template <int OP, class A, int N, class Rows, class Out>
__device__ __forceinline__ void
softmax_unit(const Rows& x, const Rows& flow, const Out& out, int64 unit, bool has_columns,
             const int64* __restrict__ offsets, int64 segments, int64 rows, Listed<OP, A>& listed) {
    typedef Room<OP, A, N> Has;
    int64 segment = segment_of(offsets, segments, unit * HEIGHT);
    for (;;) {
        const int64 start = offsets[segment], stop = offsets[segment + 1];
        if (start >= unit * HEIGHT && stop - start <= Has::LONG) {
            const int count = (int)(stop - start);
            if (count > Has::KEPT) {
                const int of_warp = Has::KEPT * 32 / (int)blockDim.x;
                if (threadIdx.x == 0) listed.add(segment, count > of_warp);
            } else if (has_columns) {
                Kept<OP, A, N> kept;
                kept.bring(x, flow, start, count, 1);
                Pack<Powers<A>, N> parts;
#pragma unroll
                for (int n = 0; n < N; n++) {
                    const A top = kept.top(n, Rule<OP, A>::least());
                    parts.at[n] = {top, kept.sum(n, (A)0, Rule<OP, A>::base(top))};
                }
                close<OP>(parts);
                kept.write(out, start, parts);
            }
        }
        if (stop >= min((unit + 1) * HEIGHT, rows)) return;
        segment = segment_after(offsets, segments, segment, stop);
    }
}

// The maximum, or the sum, over all units of a warp or of a block, per column.
template <bool GREATEST, class A> __device__ __forceinline__ A joined(A a, A b) {
    return GREATEST ? (b > a ? b : a) : a + b;
}
template <bool GREATEST, class A, int N>
__device__ __forceinline__ void of_team(Pack<A, N>& mine, bool of_block, Pack<A, N> (*meeting)[32 / N]) {
    const int thread = (int)(threadIdx.x + blockDim.x * threadIdx.y);
    for (int lanes = (int)blockDim.x; lanes < 32; lanes += lanes)
#pragma unroll
        for (int n = 0; n < N; n++)
            mine.at[n] = joined<GREATEST>(mine.at[n], __shfl_xor_sync(0xffffffffu, mine.at[n], lanes));
    if (!of_block) return;
    if ((thread & 31) < (int)blockDim.x) meeting[thread >> 5][threadIdx.x] = mine;
    __syncthreads();
    mine = meeting[0][threadIdx.x];
#pragma unroll 2
    for (int warp = 1; warp < WARPS; warp++)
#pragma unroll
        for (int n = 0; n < N; n++)
            mine.at[n] = joined<GREATEST>(mine.at[n], meeting[warp][threadIdx.x].at[n]);
    __syncthreads();
}

// Two blocks per multiprocessor: without this bound the compiler spills registers.
//
//   x, flow     (rows, width); only gradients read `flow`
template <class T, class A, int OP, int N>
__global__ void __launch_bounds__(256, 2)
softmax_tiles(const T* __restrict__ x, const T* __restrict__ flow, const int64* __restrict__ offsets,
              int64 segments, int64 rows, int64 width, T* __restrict__ out) {
    __shared__ Pack<A, N> meeting[WARPS][32 / N];
    __shared__ Listed<OP, A> listed;
    // Blocks that read the same rows are adjacent.
    const unsigned across = (unsigned)((width / N + blockDim.x - 1) / blockDim.x);
    const int64 unit = (int64)(blockIdx.x / across) * blockDim.y + threadIdx.y;
    const int64 column = N * ((int64)(blockIdx.x % across) * blockDim.x + threadIdx.x);
    const Columns<T, N> of_x = {x + column, width}, of_flow = {flow + column, width};
    const Results<T, N> to = {out + column, width};
    if (threadIdx.x == 0 && threadIdx.y < 2) listed.many[threadIdx.y] = 0;
    __syncthreads();
    if (unit * HEIGHT < rows)
        softmax_unit<OP, A, N>(of_x, of_flow, to, unit, column < width, offsets, segments, rows, listed);
    __syncthreads();
    // First the segments for a warp, one each, then those for the block.
    const int warp = (int)(threadIdx.x + blockDim.x * threadIdx.y) >> 5;
#pragma unroll 1
    for (int of_block = 0; of_block < 2; of_block++) {
        const int step = (int)(of_block ? blockDim.y : 32 / blockDim.x);
        const int mine = (int)threadIdx.y & (step - 1);
#pragma unroll 1
        for (int k = of_block ? 0 : warp; k < listed.many[of_block]; k += of_block ? 1 : WARPS) {
            const int64 segment = listed.at(k, of_block), start = offsets[segment];
            const int left = column < width ? (int)(offsets[segment + 1] - start) - mine : 0;
            Kept<OP, A, N> kept;
            kept.bring(of_x, of_flow, start + mine, left, step);
            Pack<A, N> tops, sums;
#pragma unroll
            for (int n = 0; n < N; n++) tops.at[n] = kept.top(n, Rule<OP, A>::least());
            if (OP < SOFTMAX_GRAD) of_team<true>(tops, of_block, meeting);
#pragma unroll
            for (int n = 0; n < N; n++) sums.at[n] = kept.sum(n, (A)0, Rule<OP, A>::base(tops.at[n]));
            of_team<false>(sums, of_block, meeting);
            Pack<Powers<A>, N> parts;
#pragma unroll
            for (int n = 0; n < N; n++) parts.at[n] = {tops.at[n], sums.at[n]};
            close<OP>(parts);
            kept.write(to, start + mine, parts);
        }
    }
}

// The same for narrow rows, in shared memory, which a unit may read again.
template <int OP, class A, class Rows, class Out>
__device__ __forceinline__ void
narrow_unit(const Rows& x, const Rows& flow, const Out& out, int64 unit,
            const int64* __restrict__ offsets, int64 segments, int64 rows) {
    int64 segment = segment_of(offsets, segments, unit * HEIGHT);
    for (;;) {
        const int64 start = offsets[segment], stop = offsets[segment + 1];
        if (start >= unit * HEIGHT && stop - start <= HEIGHT) {
            Kept<OP, A, 1> kept;
            int last = 0;
            Pack<Powers<A>, 1> parts = reduced(x, flow, start, (int)(stop - start), kept, last);
            close<OP>(parts);
            kept.write(out, start + last, parts);
#pragma unroll 1
            for (int at = 0; at < last; at += Room<OP, A, 1>::KEPT) {
                kept.bring(x, flow, start + at, Room<OP, A, 1>::KEPT, 1);
                kept.write(out, start + at, parts);
            }
        }
        if (stop >= min((unit + 1) * HEIGHT, rows)) return;
        segment = segment_after(offsets, segments, segment, stop);
    }
}

template <class T, class A, int OP>
__global__ void __launch_bounds__(256, 2)
softmax_narrow_tiles(const T* __restrict__ x, const T* __restrict__ flow,
                     const int64* __restrict__ offsets, int64 segments, int64 rows, int64 width,
                     T* __restrict__ out) {
    __shared__ __align__(16) unsigned char shared[(OP >= SOFTMAX_GRAD ? 2 : 1) * NARROW_BYTES];
    const Tile<T, T> of_x = brought<HEIGHT>((T*)shared, x, rows, width);
    Tile<T, T> of_flow = of_x;
    if (OP >= SOFTMAX_GRAD) of_flow = brought<HEIGHT>((T*)(shared + NARROW_BYTES), flow, rows, width);
    const InTile<T> to = {of_x.held, out, of_x.top, of_x.bottom, (int)width, (int)threadIdx.x};
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    if (unit * HEIGHT < rows) narrow_unit<OP, A>(of_x, of_flow, to, unit, offsets, segments, rows);
    __shared__ int64 first;
    if (threadIdx.x == 0 && threadIdx.y == 0)
        first = first_written(offsets, segments, of_x.top, HEIGHT);
    __syncthreads();
    if (first < of_x.bottom) to.write_back(first, of_x.bottom);
}
