// Pooling. See pool.py.
//
// Rows are split into tiles of equal height, regardless of segments, so that one long segment
// beside many short ones keeps every unit busy. A unit walks down the rows of its tile with the
// accumulators of its columns in registers. A segment no longer than a tile is written by the unit
// in whose tile it begins, even if it ends below. For a longer segment each tile stores a part:
// slot 0 for the segment that began above, slot 1 for the one that continues below. Parts are
// reduced like rows, of which there are far fewer, until all fit one tile: the order of operations
// depends only on the offsets.
#include "narrow.cuh"
#include "row_partition.cuh"

enum { SUM, MAX, MIN, MAX_INDEX, MIN_INDEX };

template <class A> struct Indexed { A value; int64 row; };

template <class T> __device__ __forceinline__ bool is_nan(T value) { return value != value; }
template <class A> struct Lowest;
template <> struct Lowest<float> { __device__ static float of() { return __uint_as_float(0xff800000u); } };
template <> struct Lowest<double> { __device__ static double of() { return __longlong_as_double((int64)0xfff0000000000000ull); } };
template <> struct Lowest<int64> { __device__ static int64 of() { return (int64)0x8000000000000000ull; } };
template <> struct Lowest<uint64> { __device__ static uint64 of() { return 0; } };
template <class A> struct Highest;
template <> struct Highest<float> { __device__ static float of() { return __uint_as_float(0x7f800000u); } };
template <> struct Highest<double> { __device__ static double of() { return __longlong_as_double(0x7ff0000000000000ll); } };
template <> struct Highest<int64> { __device__ static int64 of() { return 0x7fffffffffffffffll; } };
template <> struct Highest<uint64> { __device__ static uint64 of() { return 0xffffffffffffffffull; } };

// Accumulator of a unit: initial value, add a row, add a part, end of a segment. `first`: whether a
// row is its segment's first: only there does a NaN count.
template <int OP, class A> struct Running;

template <class A> struct Running<SUM, A> {
    typedef A Part;
    typedef A Value;
    __device__ static Part none() { return (A)0; }
    __device__ static void row(Part& part, A value, int64, bool) { part = plus(part, value); }
    __device__ static void join(Part& part, Part below) { part = plus(part, below); }
};

template <class A, bool GREATEST> struct Extreme {
    __device__ static bool better(A value, A than) { return GREATEST ? value > than : value < than; }
    __device__ static A worst() { return GREATEST ? Lowest<A>::of() : Highest<A>::of(); }
};

template <int OP, class A> struct RunningExtreme {
    typedef A Part;
    typedef A Value;
    typedef Extreme<A, OP == MAX> Rule;
    __device__ static Part none() { return Rule::worst(); }
    __device__ static void row(Part& part, A value, int64, bool first) {
        if (first || Rule::better(value, part)) part = value;
    }
    __device__ static void join(Part& part, Part below) { if (Rule::better(below, part)) part = below; }
};
template <class A> struct Running<MAX, A> : RunningExtreme<MAX, A> {};
template <class A> struct Running<MIN, A> : RunningExtreme<MIN, A> {};

template <int OP, class A> struct RunningIndex {
    typedef Indexed<A> Part;
    typedef A Value;
    typedef Extreme<A, OP == MAX_INDEX> Rule;
    __device__ static Part none() { Part part = {Rule::worst(), -1}; return part; }
    __device__ static void row(Part& part, A value, int64 row, bool first) {
        if (first || Rule::better(value, part.value) || (part.row < 0 && !is_nan(value))) {
            part.value = value;
            part.row = row;
        }
    }
    __device__ static void join(Part& part, Part below) {
        if (below.row >= 0 && (part.row < 0 || Rule::better(below.value, part.value))) part = below;
    }
};
template <class A> struct Running<MAX_INDEX, A> : RunningIndex<MAX_INDEX, A> {};
template <class A> struct Running<MIN_INDEX, A> : RunningIndex<MIN_INDEX, A> {};

// Finishes the accumulator at its segment's end. `scale`: 0 as is, 1 mean, 2 divided by the square
// root of the number of rows, 3 negative.
template <class Out, class A, int N>
__device__ __forceinline__ void finish(const Pack<A, N>& parts, int64 rows, int64 scale, Out* out, int64*) {
    const double by = scale == 3 ? -1.0 : scale == 2 ? sqrt((double)rows) : (double)rows;
    Pack<Out, N> result;
#pragma unroll
    for (int n = 0; n < N; n++)
        result.at[n] = scale ? as<Out, double>((double)parts.at[n] / by) : as<Out, A>(parts.at[n]);
    store(out, result);
}
template <class Out, class A, int N>
__device__ __forceinline__ void finish(const Pack<Indexed<A>, N>& parts, int64, int64, Out* out, int64* index) {
    Pack<Out, N> result;
    Pack<int64, N> places;
#pragma unroll
    for (int n = 0; n < N; n++) {
        result.at[n] = as<Out, A>(parts.at[n].value);
        places.at[n] = parts.at[n].row;
    }
    store(out, result);
    store(index, places);
}

// Maximum of rows of a segment that one unit walks down: more would delay other units.
enum { LONG = HEIGHT };

// Adds one row.
template <class Rule, class T, int N>
__device__ __forceinline__ void
take(Pack<typename Rule::Part, N>& parts, const Pack<T, N>& values, int64 row, bool first) {
#pragma unroll
    for (int n = 0; n < N; n++) Rule::row(parts.at[n], (typename Rule::Value)values.at[n], row, first);
}

// Work of one unit on its columns from `column` on. `rows` is the total.
template <class A, class Out, int OP, int N, class Rows>
__device__ __forceinline__ void
pool_tile(const Rows& data, int64 unit, int64 column, const int64* __restrict__ offsets,
          int64 segments, int64 rows, int64 width, int64 scale, Out* __restrict__ out,
          int64* __restrict__ index, int64 has_long,
          typename Running<OP, A>::Part* __restrict__ carry, int64* __restrict__ carry_keys) {
    typedef Running<OP, A> Rule;
    enum { BURST = Rows::BURST };
    const int64 top = unit * HEIGHT;
    if (top >= rows) return;
    const int64 bottom = min(top + HEIGHT, rows);
    if (has_long && column == 0) carry_keys[2 * unit] = carry_keys[2 * unit + 1] = -1;
    int64 segment = segment_of(offsets, segments, top);
    for (int64 row = top; row < bottom;) {
        const int64 start = offsets[segment], stop = offsets[segment + 1];
        const bool is_long = stop - start > LONG;
        const int64 end = is_long ? min(stop, bottom) : stop;
        if (is_long || start >= top) {
            Pack<typename Rule::Part, N> parts;
#pragma unroll
            for (int n = 0; n < N; n++) parts.at[n] = Rule::none();
            for (; row < end; row += BURST) {
                typename Rows::Values got[BURST];
                fetch(data, row, end, got);
#pragma unroll
                for (int i = 0; i < BURST; i++)
                    if (row + i < end) take<Rule>(parts, got[i], row + i, row + i == start);
            }
            if (is_long) {
                const int64 slot = 2 * unit + (start >= top);
                store(carry + slot * width + column, parts);
                if (column == 0) carry_keys[slot] = segment;
            } else {
                const int64 place = segment * width + column;
                finish(parts, stop - start, scale, out + place, index + place);
            }
        }
        row = end;
        if (row < bottom) segment = segment_after(offsets, segments, segment, row);
    }
}

// Fills empty segments with `low` and `high` repeated: blocks after the `tiled` ones of the rows,
// EMPTY segments per unit.
enum { EMPTY = 8 };

template <class A, class Out, int OP, int N>
__device__ __forceinline__ void
pool_empty(int64 column, const int64* __restrict__ offsets, int64 segments, int64 width, int64 tiled,
           uint64 low, uint64 high, Out* __restrict__ out, int64* __restrict__ index) {
    const int64 first = ((int64)blockIdx.x - tiled) * blockDim.y * EMPTY + threadIdx.y;
    Pack<Out, N> value;
    Pack<int64, N> none;
#pragma unroll
    for (int n = 0; n < N; n++) {
        value.at[n] = word_at<Out>(low, high, column + n);
        none.at[n] = -1;
    }
    for (int i = 0; i < EMPTY; i++) {
        const int64 segment = first + i * blockDim.y;
        if (segment >= segments || offsets[segment] < offsets[segment + 1]) continue;
        store(out + segment * width + column, value);
        if (OP == MAX_INDEX || OP == MIN_INDEX) store(index + segment * width + column, none);
    }
}

// A block is (columns, units); a thread has N columns.
//
//   data      (rows, width)
//   out       (segments, width); `index` likewise, for ops that return rows
//   carry     (2 * units, width) parts, and `carry_keys` their segments, -1 for none; both
//             only exist if a segment is longer than LONG
template <class T, class A, class Out, int OP, int N>
__global__ void __launch_bounds__(256, 3)
pool_tiles(const T* __restrict__ data, const int64* __restrict__ offsets, int64 segments,
           int64 rows, int64 width, int64 scale, Out* __restrict__ out, int64* __restrict__ index,
           int64 has_long, typename Running<OP, A>::Part* __restrict__ carry,
           int64* __restrict__ carry_keys, int64 tiled, uint64 low, uint64 high) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = N * ((int64)blockIdx.y * blockDim.x + threadIdx.x);
    if (column >= width) return;
    if (blockIdx.x >= tiled)
        return pool_empty<A, Out, OP, N>(column, offsets, segments, width, tiled, low, high, out, index);
    pool_tile<A, Out, OP, N>(Columns<T, N>{data + column, width}, unit, column, offsets, segments,
                             rows, width, scale, out, index, has_long, carry, carry_keys);
}

// The same for narrow rows.
template <class T, class A, class Out, int OP>
__global__ void __launch_bounds__(256, 3)
pool_narrow(const T* __restrict__ data, const int64* __restrict__ offsets, int64 segments,
            int64 rows, int64 width, int64 scale, Out* __restrict__ out, int64* __restrict__ index,
            int64 has_long, typename Running<OP, A>::Part* __restrict__ carry,
            int64* __restrict__ carry_keys, int64 tiled, uint64 low, uint64 high) {
    __shared__ __align__(16) unsigned char shared[NARROW_BYTES];
    if (blockIdx.x >= tiled)
        return pool_empty<A, Out, OP, 1>(threadIdx.x, offsets, segments, width, tiled, low, high, out, index);
    const Tile<T, T> tile = brought<HEIGHT>((T*)shared, data, rows, width);
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    pool_tile<A, Out, OP, 1>(tile, unit, threadIdx.x, offsets, segments, rows, width, scale, out,
                             index, has_long, carry, carry_keys);
}

// Joins parts: see parts.cuh. `parts` and `keys` are the `carry` and `carry_keys` of pool_tiles or
// of the previous depth.
template <class A, class Out, int OP>
__global__ void __launch_bounds__(256)
pool_parts(const typename Running<OP, A>::Part* __restrict__ parts, const int64* __restrict__ keys,
           const int64* __restrict__ offsets, int64 count, int64 width, int64 depth, int64 scale,
           Out* __restrict__ out, int64* __restrict__ index,
           typename Running<OP, A>::Part* __restrict__ carry, int64* __restrict__ carry_keys) {
    typedef Running<OP, A> Rule;
    typedef typename Rule::Part Part;
    const auto write = [&](int64 segment, int64 column, const Part& part) {
        const int64 place = segment * width + column;
        const Pack<Part, 1> whole = {{part}};
        finish(whole, offsets[segment + 1] - offsets[segment], scale, out + place, index + place);
    };
    join_parts(parts, keys, offsets, count, width, depth, Rule::none(),
               [](Part& above, const Part& below) { Rule::join(above, below); }, write, carry,
               carry_keys);
}

// Copies the first or last row of each segment as words of W; `low` and `high` for an empty one.
template <class W>
__global__ void __launch_bounds__(256)
pool_pick(const W* __restrict__ data, const int64* __restrict__ offsets, int64 segments, int64 width, int64 height,
          int64 dealt, int64 from_end, uint64 low, uint64 high, W* __restrict__ out) {
    const int64 word = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    if (word >= width) return;
    const Share share = share_of(segments, height, dealt);
    const W none = word_at<W>(low, high, word);
#pragma unroll 4
    for (int i = 0; i < share.count; i++) {
        const int64 segment = share.row(i), start = offsets[segment], stop = offsets[segment + 1];
        out[segment * width + word] = start < stop ? data[(from_end ? stop - 1 : start) * width + word] : none;
    }
}
