// Pooling. See ops/pool.py.
//
// Rows are cut into tiles of equal height, whatever segments they belong to, so that one long
// segment beside many short ones keeps every unit busy. A unit walks down the rows of its
// tile with the running value of its column in a register. A segment that lies in one tile
// is written at once; of one that does not, each tile keeps a part: slot 0 for the segment
// that began above, slot 1 for the one that goes on below. The parts are rows again, far
// fewer, and are reduced in the same way until all fit one tile: the order in which values
// meet depends on the offsets alone.
#include "types.cuh"

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

// What a unit carries: nothing yet, a row more, a part more, and the end of a segment.
// `first` is whether a row is its segment's first: a NaN counts only there.
template <int OP, class A> struct Running;

template <class A> struct Running<SUM, A> {
    typedef A Part;
    __device__ static Part none() { return (A)0; }
    __device__ static void row(Part& part, A value, int64, bool) { part += value; }
    __device__ static void join(Part& part, Part below) { part += below; }
};

template <class A, bool GREATEST> struct Extreme {
    __device__ static bool better(A value, A than) { return GREATEST ? value > than : value < than; }
    __device__ static A worst() { return GREATEST ? Lowest<A>::of() : Highest<A>::of(); }
};

template <int OP, class A> struct RunningExtreme {
    typedef A Part;
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

// What becomes of a running value at its segment's end. `scale`: 0 as it is, 1 a mean,
// 2 over the square root of the number of rows.
template <class Out, class A>
__device__ __forceinline__ void finish(A value, int64 rows, int scale, Out* out, int64* index, int64 place) {
    (void)index;
    if (scale == 0) out[place] = as<Out, A>(value);
    else if (scale == 1) out[place] = as<Out, double>((double)value / (double)rows);
    else out[place] = as<Out, double>((double)value / sqrt((double)rows));
}
template <class Out, class A>
__device__ __forceinline__ void finish(Indexed<A> found, int64, int, Out* out, int64* index, int64 place) {
    out[place] = as<Out, A>(found.value);
    index[place] = found.row;
}

// Rows that a unit walks: enough to make the parts few, few enough to make the units many.
// Of a tile come two parts, so it must be more than two for them to become fewer.
enum { SHIFT = 6, HEIGHT = 1 << SHIFT };

// Where a segment's parts lie after `depth` reductions: the first and the last of them.
__device__ __forceinline__ void parts_of(int64 start, int64 stop, int depth, int64& first, int64& last) {
    first = start;
    last = stop - 1;
    for (int level = 0; level < depth; level++) {
        first = 2 * (first >> SHIFT) + 1;
        last = 2 * (last >> SHIFT);
    }
}

// Two blocks a multiprocessor: told nothing, the compiler spills rather than take more registers.
// A block is (columns, units). Depth 0 reads rows of T; later ones the parts of the one before.
//
//   data      (rows, width) rows, or (rows, width) parts with their segment in `keys`
//   out       (segments, width); `index` likewise, for those that tell a row
//   carry     (2 * units, width) parts, and `carry_keys` their segments, -1 for none
template <class T, class A, class Out, int OP, bool DEEP>
__global__ void __launch_bounds__(256, 2)
pool_tiles(const T* __restrict__ data, const typename Running<OP, A>::Part* __restrict__ parts,
           const int64* __restrict__ keys, const int64* __restrict__ offsets, int64 segments,
           int64 rows, int64 width, int64 depth, int64 scale,
           Out* __restrict__ out, int64* __restrict__ index,
           typename Running<OP, A>::Part* __restrict__ carry, int64* __restrict__ carry_keys) {
    typedef Running<OP, A> Rule;
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * HEIGHT;
    if (top >= rows) return;
    const int64 bottom = min(top + HEIGHT, rows);
    if (column == 0) carry_keys[2 * unit] = carry_keys[2 * unit + 1] = -1;
    if (column >= width) return;

    int64 segment = -1;
    for (int64 row = top; row < bottom;) {
        if (DEEP) {
            segment = keys[row];
            if (segment < 0) {
                row++;
                continue;
            }
        } else if (segment < 0) {
            segment = segment_of(offsets, segments, row);
        } else {
            segment = segment_after(offsets, segments, segment, row);
        }
        const int64 start = offsets[segment], stop = offsets[segment + 1];
        int64 first, last;
        parts_of(start, stop, DEEP ? (int)depth : 0, first, last);
        const int64 end = min(last + 1, bottom);
        typename Rule::Part part = Rule::none();
        if (DEEP) {
            for (; row < end; row++)
                if (keys[row] == segment) Rule::join(part, parts[row * width + column]);
        } else {
            // Several rows are asked for before the first of them is there.
#pragma unroll 4
            for (; row < end; row++)
                Rule::row(part, (A)data[row * width + column], row, row == first);
        }
        if (first >= top && last < bottom) {
            finish(part, stop - start, (int)scale, out, index, segment * width + column);
        } else {
            const int64 slot = 2 * unit + (first >= top);
            carry[slot * width + column] = part;
            if (column == 0) carry_keys[slot] = segment;
        }
    }
}

// Every value of the segments that have no rows.
template <class Out>
__global__ void __launch_bounds__(256)
pool_empty(const int64* __restrict__ offsets, int64 segments, int64 width, Out value,
           Out* __restrict__ out, int64* __restrict__ index, int64 has_index) {
    const int64 segment = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (segment >= segments || offsets[segment] < offsets[segment + 1]) return;
    for (int64 column = 0; column < width; column++) {
        out[segment * width + column] = value;
        if (has_index) index[segment * width + column] = -1;
    }
}

// The first or last row of each segment, moved as words of W.
template <class W>
__global__ void __launch_bounds__(256)
pool_pick(const W* __restrict__ data, const int64* __restrict__ offsets, int64 segments,
          int64 width, int64 from_end, W* __restrict__ out) {
    const int64 place = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= segments * width) return;
    const int64 segment = place / width;
    if (offsets[segment] == offsets[segment + 1]) return;
    const int64 row = from_end ? offsets[segment + 1] - 1 : offsets[segment];
    out[place] = data[row * width + place - segment * width];
}
