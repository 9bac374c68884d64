// Softmax and its gradients. See ops/softmax.py.
//
// Rows are cut into tiles of equal height, as in pool.cu. A unit walks down its tile; a segment
// that begins in it is written at once, while its rows are still in the cache: one pass over
// memory. Of a long one each tile keeps a part; the parts are joined like rows until all fit
// one tile, and a last pass writes the rows of these segments alone.
#include "types.cuh"

enum { SOFTMAX, LOG_SOFTMAX, SOFTMAX_GRAD, LOG_SOFTMAX_GRAD };
enum { SHIFT = 6, HEIGHT = 1 << SHIFT };
// Rows of a segment that one unit may walk down. Longer ones do not lie in one tile.
enum { LONG = 4 * HEIGHT };

// Two blocks a multiprocessor: told nothing, the compiler makes do with 32 registers and spills.

__device__ __forceinline__ float power(float value) { return expf(value); }
__device__ __forceinline__ double power(double value) { return exp(value); }
__device__ __forceinline__ float logarithm(float value) { return logf(value); }
__device__ __forceinline__ double logarithm(double value) { return log(value); }
// Of a sum of at least 1, or NaN: without the routine that a division calls for numbers too small
// or too large to occur here. One step of Newton's makes up for the guess.
__device__ __forceinline__ float inverse(float sum) {
    const float guess = __fdividef(1.0f, sum);
    return guess * (2.0f - sum * guess);
}
__device__ __forceinline__ double inverse(double sum) { return 1.0 / sum; }
template <class A> __device__ __forceinline__ A infinity();
template <> __device__ __forceinline__ float infinity<float>() { return __uint_as_float(0x7f800000u); }
template <> __device__ __forceinline__ double infinity<double>() { return __longlong_as_double(0x7ff0000000000000ll); }

// The greatest value so far, and the sum of exp(value - greatest). Both are NaN from the first
// NaN or positive infinity on, whose difference from itself is none.
template <class A> struct Powers {
    A top, sum;

    __device__ __forceinline__ static Powers none() { return {-infinity<A>(), (A)0}; }
    __device__ __forceinline__ void join(Powers below) {
        if (below.top > top) {
            sum = sum * power(top - below.top) + below.sum;
            top = below.top;
        } else if (below.top == top) {
            sum += below.sum;
        } else if (below.top < top) {
            sum += below.sum * power(below.top - top);
        } else {
            top = sum = infinity<A>() - infinity<A>();
        }
    }
};

template <class A> struct Total {
    A sum;

    __device__ __forceinline__ static Total none() { return {(A)0}; }
    __device__ __forceinline__ void join(Total below) { sum += below.sum; }
};

// What a row adds to its segment's part, and what becomes of it. `x` is a row of the data, or
// of the result for gradients; `flow` a row of the gradient that flows in.
template <int OP, class A> struct Rule {
    typedef Powers<A> Part;
    __device__ __forceinline__ static Part of(A x, A) {
        const A nan = infinity<A>() - infinity<A>();
        if (x < infinity<A>()) return {x, (A)1};
        return {nan, nan};
    }
    __device__ __forceinline__ static A result(A x, A, Part part) {
        return OP == SOFTMAX ? power(x - part.top) * part.sum : x - part.top - part.sum;
    }
    // What every row needs of the sum, once: its inverse, or its logarithm.
    __device__ __forceinline__ static Part closed(Part part) {
        return {part.top, OP == SOFTMAX ? inverse(part.sum) : logarithm(part.sum)};
    }
};
template <class A> struct Rule<SOFTMAX_GRAD, A> {
    typedef Total<A> Part;
    __device__ __forceinline__ static Part of(A x, A flow) { return {flow * x}; }
    __device__ __forceinline__ static A result(A x, A flow, Part part) { return x * (flow - part.sum); }
    __device__ __forceinline__ static Part closed(Part part) { return part; }
};
template <class A> struct Rule<LOG_SOFTMAX_GRAD, A> {
    typedef Total<A> Part;
    __device__ __forceinline__ static Part of(A, A flow) { return {flow}; }
    __device__ __forceinline__ static A result(A x, A flow, Part part) { return flow - power(x) * part.sum; }
    __device__ __forceinline__ static Part closed(Part part) { return part; }
};

template <int OP, class T, class A>
__device__ __forceinline__ void write_rows(const T* x, const T* flow, int64 first, int64 stop, int64 width,
                                           int64 column, typename Rule<OP, A>::Part part, T* out) {
    part = Rule<OP, A>::closed(part);
#pragma unroll 4
    for (int64 row = first; row < stop; row++) {
        const int64 place = row * width + column;
        const A upstream = OP >= SOFTMAX_GRAD ? (A)flow[place] : (A)0;
        out[place] = as<T, A>(Rule<OP, A>::result((A)x[place], upstream, part));
    }
}

// A block is (columns, units). Writes the segments that begin in a tile, and of long ones a part:
// slot 0 of the unit for the one that began above, slot 1 for the one that goes on below.
//
//   x, flow     (rows, width); `flow` is read by gradients only
//   carry       (2 * units, width), and `carry_keys` their segments, -1 for none
template <class T, class A, int OP>
__global__ void __launch_bounds__(256, 2)
softmax_tiles(const T* __restrict__ x, const T* __restrict__ flow, const int64* __restrict__ offsets,
              int64 segments, int64 rows, int64 width, T* __restrict__ out,
              typename Rule<OP, A>::Part* __restrict__ carry, int64* __restrict__ carry_keys) {
    typedef typename Rule<OP, A>::Part Part;
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * HEIGHT;
    if (top >= rows) return;
    const int64 bottom = min(top + HEIGHT, rows);
    if (column == 0) carry_keys[2 * unit] = carry_keys[2 * unit + 1] = -1;
    if (column >= width) return;
    int64 segment = segment_of(offsets, segments, top);
    for (int64 row = top; row < bottom;) {
        const int64 start = offsets[segment], stop = offsets[segment + 1];
        const bool is_long = stop - start > LONG;
        const int64 end = is_long ? min(stop, bottom) : stop;
        if (is_long || start >= top) {
            Part part = Part::none();
#pragma unroll 4
            for (; row < end; row++) {
                const int64 place = row * width + column;
                const A upstream = OP >= SOFTMAX_GRAD ? (A)flow[place] : (A)0;
                part.join(Rule<OP, A>::of((A)x[place], upstream));
            }
            if (is_long) {
                const int64 slot = 2 * unit + (start >= top);
                carry[slot * width + column] = part;
                if (column == 0) carry_keys[slot] = segment;
            } else {
                write_rows<OP, T, A>(x, flow, start, end, width, column, part, out);
            }
        }
        row = end;
        if (row < bottom) segment = segment_after(offsets, segments, segment, row);
    }
}

// Joins parts, `depth` reductions after the rows, as softmax_tiles does rows. A segment is done
// once its parts lie in one tile; it goes to the row of `totals` of the tile of rows that it
// began in, for in each at most one begins that goes on below.
template <class Part>
__global__ void __launch_bounds__(256, 2)
softmax_parts(const Part* __restrict__ parts, const int64* __restrict__ keys,
              const int64* __restrict__ offsets, int64 count, int64 width, int64 depth,
              Part* __restrict__ totals, Part* __restrict__ carry, int64* __restrict__ carry_keys) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * HEIGHT;
    if (top >= count) return;
    const int64 bottom = min(top + HEIGHT, count);
    if (column == 0) carry_keys[2 * unit] = carry_keys[2 * unit + 1] = -1;
    if (column >= width) return;
    for (int64 row = top; row < bottom;) {
        const int64 segment = keys[row];
        if (segment < 0) {
            row++;
            continue;
        }
        const int64 start = offsets[segment];
        int64 first = start, last = offsets[segment + 1] - 1;
        for (int64 level = 0; level < depth; level++) {
            first = 2 * (first >> SHIFT) + 1;
            last = 2 * (last >> SHIFT);
        }
        Part part = Part::none();
        for (; row < bottom && row <= last; row++)
            if (keys[row] == segment) part.join(parts[row * width + column]);
        if (first >= top && last < bottom) {
            totals[(start >> SHIFT) * width + column] = part;
        } else {
            const int64 slot = 2 * unit + (first >= top);
            carry[slot * width + column] = part;
            if (column == 0) carry_keys[slot] = segment;
        }
    }
}

// Writes the rows of the long segments; `keys` are those of the first reduction.
template <class T, class A, int OP>
__global__ void __launch_bounds__(256, 2)
softmax_rest(const T* __restrict__ x, const T* __restrict__ flow, const int64* __restrict__ offsets,
             const int64* __restrict__ keys, const typename Rule<OP, A>::Part* __restrict__ totals,
             int64 rows, int64 width, T* __restrict__ out) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * HEIGHT;
    if (top >= rows || column >= width) return;
    const int64 bottom = min(top + HEIGHT, rows);
    for (int slot = 0; slot < 2; slot++) {
        const int64 segment = keys[2 * unit + slot];
        if (segment < 0) continue;
        const int64 start = offsets[segment], stop = offsets[segment + 1];
        write_rows<OP, T, A>(x, flow, max(start, top), min(stop, bottom), width, column,
                             totals[(start >> SHIFT) * width + column], out);
    }
}
