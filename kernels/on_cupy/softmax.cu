// Softmax and its gradients. See ops/softmax.py.
//
// Rows are cut into tiles of equal height, as in pool.cu. A segment of up to ALONE rows is done by the
// unit that it begins at, a longer one by all units of that block, which take its rows in turn, so
// that registers have room for it: one pass over memory. Those of more than LONG rows are left to
// softmax_long.cu.
#include "softmax.cuh"

// A block is (columns, units) of 256 threads; at most 16 columns, so that its units are 16 or more,
// and at least 2, since a row that is not narrow has 32 bytes.
enum { WARPS = 8, MOST_COLUMNS = 16, MOST_UNITS = 128 };
// A unit alone reads the first rows again, from the cache.
enum { ALONE = 2 * KEPT };

// What one unit does of its columns: the segments of up to `alone` rows that begin in its tile.
// Those of more, up to `longest`, it puts on the list.
template <int OP, class A, int N, class Rows, class Out>
__device__ __forceinline__ void
softmax_unit(const Rows& x, const Rows& flow, const Out& out, int64 unit, bool has_columns,
             const int64* __restrict__ offsets, int64 segments, int64 rows, int alone, int longest,
             int64* listed, int* many) {
    if (unit * HEIGHT >= rows) return;
    int64 segment = segment_of(offsets, segments, unit * HEIGHT);
    for (;;) {
        const int64 start = offsets[segment], stop = offsets[segment + 1];
        if (start >= unit * HEIGHT && stop - start <= longest) {
            const int count = (int)(stop - start);
            if (count > alone) {
                if (threadIdx.x == 0) listed[atomicAdd(many, 1)] = segment;
            } else if (has_columns) {
                Kept<OP, A, N> kept;
                int last = 0;
                Pack<Powers<A>, N> parts = reduced(x, flow, start, count, kept, last);
                close<OP>(parts);
                kept.write(out, start + last, parts);
#pragma unroll 1
                for (int at = 0; at < last; at += KEPT) {
                    kept.bring(x, flow, start + at, KEPT, 1);
                    kept.write(out, start + at, parts);
                }
            }
        }
        if (stop >= min((unit + 1) * HEIGHT, rows)) return;
        segment = segment_after(offsets, segments, segment, stop);
    }
}

// The greatest, or the sum, of what all units of a block have for a column.
template <bool GREATEST, class A> __device__ __forceinline__ A joined(A a, A b) {
    return GREATEST ? (b > a ? b : a) : a + b;
}
template <bool GREATEST, class A, int N>
__device__ __forceinline__ Pack<A, N> of_block(Pack<A, N> mine, Pack<A, N> (*meeting)[MOST_COLUMNS]) {
    const int thread = (int)(threadIdx.x + blockDim.x * threadIdx.y);
    for (int lanes = (int)blockDim.x; lanes < 32; lanes += lanes)
#pragma unroll
        for (int n = 0; n < N; n++)
            mine.at[n] = joined<GREATEST>(mine.at[n], __shfl_xor_sync(0xffffffffu, mine.at[n], lanes));
    if ((thread & 31) < (int)blockDim.x) meeting[thread >> 5][threadIdx.x] = mine;
    __syncthreads();
    mine = meeting[0][threadIdx.x];
#pragma unroll 2
    for (int warp = 1; warp < WARPS; warp++)
#pragma unroll
        for (int n = 0; n < N; n++)
            mine.at[n] = joined<GREATEST>(mine.at[n], meeting[warp][threadIdx.x].at[n]);
    __syncthreads();
    return mine;
}

// Three blocks a multiprocessor, two for gradients: told nothing, the compiler spills rather than
// take more registers.
//
//   x, flow     (rows, width); `flow` is read by gradients only
template <class T, class A, int OP, int N>
__global__ void __launch_bounds__(256, OP >= SOFTMAX_GRAD ? 2 : 3)
softmax_tiles(const T* __restrict__ x, const T* __restrict__ flow, const int64* __restrict__ offsets,
              int64 segments, int64 rows, int64 width, T* __restrict__ out) {
    __shared__ Pack<A, N> meeting[WARPS][MOST_COLUMNS];
    __shared__ int64 listed[MOST_UNITS * HEIGHT / ALONE + 1];
    __shared__ int many;
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = N * ((int64)blockIdx.y * blockDim.x + threadIdx.x);
    const Columns<T, N> of_x = {x + column, width}, of_flow = {flow + column, width};
    const Results<T, N> to = {out + column, width};
    if (threadIdx.x == 0 && threadIdx.y == 0) many = 0;
    __syncthreads();
    softmax_unit<OP, A, N>(of_x, of_flow, to, unit, column < width, offsets, segments, rows, ALONE, LONG,
                           listed, &many);
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < many; k++) {
        const int64 row = offsets[listed[k]] + threadIdx.y, stop = offsets[listed[k] + 1];
        Kept<OP, A, N> kept;
        const int mine = ((int)(stop - row) + (int)blockDim.y - 1) / (int)blockDim.y;
        kept.bring(of_x, of_flow, row, column < width ? mine : 0, (int)blockDim.y);
        Pack<A, N> tops, sums;
#pragma unroll
        for (int n = 0; n < N; n++) tops.at[n] = kept.top(n, Rule<OP, A>::least());
        if (OP < SOFTMAX_GRAD) tops = of_block<true>(tops, meeting);
#pragma unroll
        for (int n = 0; n < N; n++) sums.at[n] = kept.sum(n, (A)0, Rule<OP, A>::base(tops.at[n]));
        sums = of_block<false>(sums, meeting);
        Pack<Powers<A>, N> parts;
#pragma unroll
        for (int n = 0; n < N; n++) parts.at[n] = Rule<OP, A>::closed({tops.at[n], sums.at[n]});
        kept.write(to, row, parts);
    }
}

// The same for narrow rows: in shared memory a unit may read its rows again.
template <class T, class A, int OP>
__global__ void __launch_bounds__(256, 2)
softmax_narrow_tiles(const T* __restrict__ x, const T* __restrict__ flow, const int64* __restrict__ offsets,
               int64 segments, int64 rows, int64 width, T* __restrict__ out) {
    __shared__ __align__(16) unsigned char shared[(OP >= SOFTMAX_GRAD ? 2 : 1) * NARROW_BYTES];
    const Tile<T, T> of_x = brought<HEIGHT>((T*)shared, x, rows, width);
    Tile<T, T> of_flow = of_x;
    if (OP >= SOFTMAX_GRAD) of_flow = brought<HEIGHT>((T*)(shared + NARROW_BYTES), flow, rows, width);
    const InTile<T> to = {of_x.held, out, of_x.top, of_x.bottom, (int)width, (int)threadIdx.x};
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    softmax_unit<OP, A, 1>(of_x, of_flow, to, unit, true, offsets, segments, rows, HEIGHT, HEIGHT, 0, 0);
    __shared__ int64 first;
    if (threadIdx.x == 0 && threadIdx.y == 0)
        first = first_written(offsets, segments, of_x.top, HEIGHT);
    __syncthreads();
    if (first < of_x.bottom) to.write_back(first, of_x.bottom);
}
