// Softmax and its gradients of long segments. See softmax.py.
//
// Each tile of rows of a long segment stores a part. Parts are reduced like rows, tile by tile,
// until all fit one; a last pass reads and writes the rows of these segments only.
#include "softmax.cuh"

// Partial results of long segments, at most two per tile: slot 0 of the unit for the segment that
// began above, slot 1 for the one that continues below.
template <int OP, class A, int N, class Rows>
__device__ __forceinline__ void
long_parts(const Rows& x, const Rows& flow, int64 unit, int64 column, const int64* __restrict__ offsets,
           int64 segments, int64 rows, int64 width, int64 longest, Powers<A>* __restrict__ carry,
           int64* __restrict__ carry_keys) {
    const int64 top = unit * HEIGHT;
    if (top >= rows) return;
    const int64 bottom = min(top + HEIGHT, rows);
    const int64 first = segment_of(offsets, segments, top);
    const int64 last = segment_after(offsets, segments, first, bottom - 1);
#pragma unroll 1
    for (int slot = 0; slot < 2; slot++) {
        const int64 segment = slot ? last : first, start = offsets[segment], stop = offsets[segment + 1];
        const bool is_here = stop - start > longest && (start >= top) == (slot == 1);
        if (column == 0) carry_keys[2 * unit + slot] = is_here ? segment : -1;
        if (!is_here) continue;
        Kept<OP, A, N> kept;
        int unused;
        const int64 row = max(start, top);
        store(carry + (2 * unit + slot) * width + column,
              reduced(x, flow, row, (int)(min(stop, bottom) - row), kept, unused));
    }
}

// The parts of long segments: (2 * units, width), and their segments, -1 for none. Two blocks per
// multiprocessor would make the compiler spill; the loads in flight suffice.
template <class T, class A, int OP, int N>
__global__ void __launch_bounds__(256, 1)
softmax_long(const T* __restrict__ x, const T* __restrict__ flow, const int64* __restrict__ offsets,
             int64 segments, int64 rows, int64 width, Powers<A>* __restrict__ carry,
             int64* __restrict__ carry_keys) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = N * ((int64)blockIdx.y * blockDim.x + threadIdx.x);
    if (column >= width) return;
    const Columns<T, N> of_x = {x + column, width}, of_flow = {flow + column, width};
    long_parts<OP, A, N>(of_x, of_flow, unit, column, offsets, segments, rows, width,
                         Room<OP, A, N>::LONG, carry, carry_keys);
}
template <class T, class A, int OP>
__global__ void __launch_bounds__(256, 2)
softmax_narrow_long(const T* __restrict__ x, const T* __restrict__ flow,
                    const int64* __restrict__ offsets, int64 segments, int64 rows, int64 width,
                    Powers<A>* __restrict__ carry, int64* __restrict__ carry_keys) {
    __shared__ __align__(16) unsigned char shared[(OP >= SOFTMAX_GRAD ? 2 : 1) * NARROW_BYTES];
    const Tile<T, T> of_x = brought<HEIGHT>((T*)shared, x, rows, width);
    Tile<T, T> of_flow = of_x;
    if (OP >= SOFTMAX_GRAD) of_flow = brought<HEIGHT>((T*)(shared + NARROW_BYTES), flow, rows, width);
    long_parts<OP, A, 1>(of_x, of_flow, (int64)blockIdx.x * blockDim.y + threadIdx.y, threadIdx.x,
                         offsets, segments, rows, width, HEIGHT, carry, carry_keys);
}

// Joins parts: see parts.cuh. The result of a segment goes to the row of `totals` of the tile in
// which it begins, since at most one segment per tile begins there and continues below.
template <class A, int OP>
__global__ void __launch_bounds__(256)
softmax_parts(const Powers<A>* __restrict__ parts, const int64* __restrict__ keys,
              const int64* __restrict__ offsets, int64 count, int64 width, int64 depth,
              Powers<A>* __restrict__ totals, Powers<A>* __restrict__ carry, int64* __restrict__ carry_keys) {
    const auto write = [&](int64 segment, int64 column, const Powers<A>& part) {
        totals[(offsets[segment] >> SHIFT) * width + column] = part;
    };
    join_parts(parts, keys, offsets, count, width, depth, Powers<A>{Rule<OP, A>::least(), (A)0},
               [](Powers<A>& above, const Powers<A>& below) { above.join(below); }, write, carry,
               carry_keys);
}

// Writes the rows of the long segments; `keys` are those of the first reduction. A block is
// (columns, units); a thread has N columns.
template <class T, class A, int OP, int N>
__global__ void __launch_bounds__(256, 2)
softmax_rest(const T* __restrict__ x, const T* __restrict__ flow, const int64* __restrict__ offsets,
             const int64* __restrict__ keys, const Powers<A>* __restrict__ totals, int64 rows,
             int64 width, T* __restrict__ out) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = N * ((int64)blockIdx.y * blockDim.x + threadIdx.x);
    const int64 top = unit * HEIGHT;
    if (top >= rows || column >= width) return;
    const int64 bottom = min(top + HEIGHT, rows);
    enum { BURST = Columns<T, N>::BURST };
    const Columns<T, N> of_x = {x + column, width}, of_flow = {flow + column, width};
    for (int slot = 0; slot < 2; slot++) {
        const int64 segment = keys[2 * unit + slot];
        if (segment < 0) continue;
        const int64 start = offsets[segment], end = min(offsets[segment + 1], bottom);
        const Columns<Powers<A>, N> total = {totals + column, width};
        Pack<Powers<A>, N> parts = total.at(start >> SHIFT);
        close<OP>(parts);
        for (int64 row = max(start, top); row < end; row += BURST) {
            Pack<T, N> got[BURST], upstream[BURST];
            fetch(of_x, row, end, got);
            if (OP >= SOFTMAX_GRAD) fetch(of_flow, row, end, upstream);
#pragma unroll
            for (int i = 0; i < BURST; i++) {
                if (row + i >= end) continue;
                Pack<T, N> values;
#pragma unroll
                for (int n = 0; n < N; n++) {
                    const A flowing = OP >= SOFTMAX_GRAD ? (A)upstream[i].at[n] : (A)0;
                    values.at[n] = as<T, A>(Rule<OP, A>::result((A)got[i].at[n], flowing, parts.at[n]));
                }
                store(out + (row + i) * width + column, values);
            }
        }
    }
}

// The same for narrow rows: one value per thread, regardless of alignment.
template <class T, class A, int OP>
__global__ void __launch_bounds__(256)
softmax_narrow_rest(const T* __restrict__ x, const T* __restrict__ flow,
                    const int64* __restrict__ offsets, const int64* __restrict__ keys,
                    const Powers<A>* __restrict__ totals, int64 rows, int64 width,
                    T* __restrict__ out) {
    const int64 place = (int64)blockIdx.x * blockDim.x + threadIdx.x, row = place / width;
    if (row >= rows) return;
    for (int slot = 0; slot < 2; slot++) {
        const int64 segment = keys[2 * (row >> SHIFT) + slot];
        if (segment < 0 || row < offsets[segment] || row >= offsets[segment + 1]) continue;
        const int64 total = (offsets[segment] >> SHIFT) * width + place - row * width;
        const A upstream = OP >= SOFTMAX_GRAD ? (A)flow[place] : (A)0;
        const Powers<A> part = Rule<OP, A>::closed(totals[total]);
        out[place] = as<T, A>(Rule<OP, A>::result((A)x[place], upstream, part));
    }
}
