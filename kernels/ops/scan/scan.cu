// Running totals. See scan.py.
//
// Rows are cut into tiles of equal height, as in pool.cu. A segment of no more rows than a tile is
// done by the unit that it begins at: one pass over memory. Of longer ones a pass before that
// leaves of each tile the total of those rows at its end whose segment goes on below. These totals
// are added up tile by tile, and the last pass walks down each tile from the total above it.
// Inside a tile values meet in the order of the rows; across tiles, tile by tile: a product may
// overflow where one from left to right would come back into range.
#include "narrow.cuh"

enum { SUM, PRODUCT, LINEAR };
enum { LONG = HEIGHT };

// For products; sums take the two parts as columns of their own.
template <class A> struct Complex { A real, imaginary; };
template <class A> __device__ __forceinline__ Complex<A> times(Complex<A> a, Complex<A> b) {
    return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}
template <class A> __device__ __forceinline__ Complex<A> plus(Complex<A> a, Complex<A> b) {
    return {a.real + b.real, a.imaginary + b.imaginary};
}
// What a row makes of a state h: factor h + summand. See linear_scan.py.
template <class A> struct Effect {
    A factor, summand;
};
template <class A> struct Number {
    __device__ __forceinline__ static A of(int value) { return (A)value; }
};
template <class A> struct Number<Complex<A> > {
    __device__ __forceinline__ static Complex<A> of(int value) { return {(A)value, (A)0}; }
};

// What joins two totals, and what is none.
template <int OP, class A> struct Running {
    __device__ __forceinline__ static A none() { return Number<A>::of(0); }
    __device__ __forceinline__ static A join(A above, A below) { return plus(above, below); }
};
template <class A> struct Running<PRODUCT, A> {
    __device__ __forceinline__ static A none() { return Number<A>::of(1); }
    __device__ __forceinline__ static A join(A above, A below) { return times(above, below); }
};
template <class A> struct Running<LINEAR, Effect<A> > {
    __device__ __forceinline__ static Effect<A> none() { return {Number<A>::of(1), Number<A>::of(0)}; }
    __device__ __forceinline__ static Effect<A> join(Effect<A> above, Effect<A> below) {
        return {times(below.factor, above.factor),
                plus(times(below.factor, above.summand), below.summand)};
    }
};

// Rows and offsets as they are, or from the last row to the first.
struct Direction {
    const int64* offsets;
    int64 segments, rows;
    bool reverse;

    __device__ __forceinline__ int64 operator[](int64 segment) const {
        return reverse ? rows - offsets[segments - segment] : offsets[segment];
    }
    // Where a row lies in memory.
    __device__ __forceinline__ int64 place(int64 row) const { return reverse ? rows - 1 - row : row; }
};
template <class Rows> struct Turned {
    typedef typename Rows::Value Value;
    typedef typename Rows::Values Values;
    Rows rows;
    Direction way;

    __device__ __forceinline__ Values at(int64 row) const { return rows.at(way.place(row)); }
    __device__ __forceinline__ void put(int64 row, const Values& values) const {
        rows.put(way.place(row), values);
    }
};

template <int OP, class A, class T, int N>
__device__ __forceinline__ void add(Pack<A, N>& total, const Pack<T, N>& values) {
#pragma unroll
    for (int n = 0; n < N; n++) total.at[n] = Running<OP, A>::join(total.at[n], (A)values.at[n]);
}
template <int OP, class A, int N> __device__ __forceinline__ Pack<A, N> nothing() {
    Pack<A, N> total;
#pragma unroll
    for (int n = 0; n < N; n++) total.at[n] = Running<OP, A>::none();
    return total;
}

// What the rows at the end of a unit's tile come to, if their segment is long and goes on below;
// `keys` are these segments, -1 for none.
template <int OP, class A, int N, class Rows>
__device__ __forceinline__ void
total_of(const Turned<Rows>& data, const Direction& way, int64 unit, int64 column, int64 width,
         A* __restrict__ totals, int64* __restrict__ keys) {
    enum { BURST = Rows::BURST };
    const int64 top = unit * HEIGHT;
    if (top >= way.rows) return;
    const int64 bottom = min(top + HEIGHT, way.rows);
    const int64 segment = segment_of(way, way.segments, bottom - 1);
    const int64 start = way[segment], stop = way[segment + 1];
    const bool goes_on = stop > bottom && stop - start > LONG;
    if (column == 0) keys[unit] = goes_on ? segment : -1;
    if (!goes_on) return;
    Pack<A, N> total = nothing<OP, A, N>();
    for (int64 row = max(start, top); row < bottom; row += BURST) {
        typename Rows::Values got[BURST];
        fetch(data, row, bottom, got);
#pragma unroll
        for (int i = 0; i < BURST; i++)
            if (row + i < bottom) add<OP>(total, got[i]);
    }
    store(totals + unit * width + column, total);
}

// A block is (columns, units); a thread has N columns.
template <class T, class A, int OP, int N>
__global__ void __launch_bounds__(256)
scan_totals(const T* __restrict__ data, const int64* __restrict__ offsets, int64 segments,
            int64 rows, int64 width, int64 reverse, A* __restrict__ totals,
            int64* __restrict__ keys) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = N * ((int64)blockIdx.y * blockDim.x + threadIdx.x);
    if (column >= width) return;
    const Direction way = {offsets, segments, rows, reverse != 0};
    const Turned<Columns<T, N> > from = {{data + column, width}, way};
    total_of<OP, A, N>(from, way, unit, column, width, totals, keys);
}

// The block's rows, as results' values; from the last to the first, they lie at the other end.
template <class T, class Out>
__device__ __forceinline__ Tile<T, Out>
brought_from(Out* held, const T* data, const Direction& way, int64 width) {
    const int64 top = (int64)blockIdx.x * blockDim.y * HEIGHT;
    const int64 bottom = min(top + (int64)blockDim.y * HEIGHT, way.rows);
    if (way.reverse) return brought(held, data, way.rows - bottom, way.rows - top, width);
    return brought(held, data, top, bottom, width);
}

template <class T, class A, class Out, int OP>
__global__ void __launch_bounds__(256)
scan_narrow_totals(const T* __restrict__ data, const int64* __restrict__ offsets, int64 segments,
                   int64 rows, int64 width, int64 reverse, A* __restrict__ totals,
                   int64* __restrict__ keys) {
    __shared__ __align__(16) unsigned char shared[NARROW_BYTES];
    const Direction way = {offsets, segments, rows, reverse != 0};
    const Turned<Tile<T, Out> > from = {brought_from((Out*)shared, data, way, width), way};
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    total_of<OP, A, 1>(from, way, unit, threadIdx.x, width, totals, keys);
}

// The same of `count` totals: what the last ones of a tile that belong together come to.
template <class A, int OP>
__global__ void __launch_bounds__(256)
scan_above(const A* __restrict__ totals, const int64* __restrict__ keys, int64 count, int64 width,
           A* __restrict__ above, int64* __restrict__ above_keys) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * HEIGHT;
    if (top >= count) return;
    const int64 bottom = min(top + HEIGHT, count);
    const int64 key = keys[bottom - 1];
    if (column == 0) above_keys[unit] = key;
    if (column >= width || key < 0) return;
    int64 row = bottom - 1;
    while (row > top && keys[row - 1] == key) row--;
    A total = Running<OP, A>::none();
    for (; row < bottom; row++) total = Running<OP, A>::join(total, totals[row * width + column]);
    above[unit * width + column] = total;
}

// Adds to every total those before it in its segment; `above` holds that of each tile's end.
template <class A, int OP>
__global__ void __launch_bounds__(256)
scan_through(A* __restrict__ totals, const int64* __restrict__ keys, int64 count, int64 width,
             const A* __restrict__ above, const int64* __restrict__ above_keys) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * HEIGHT;
    if (top >= count || column >= width) return;
    const int64 bottom = min(top + HEIGHT, count);
    int64 key = unit ? above_keys[unit - 1] : -1;
    A total = key >= 0 ? above[(unit - 1) * width + column] : Running<OP, A>::none();
    for (int64 row = top; row < bottom; row++) {
        if (keys[row] < 0) {
            key = -1;
            continue;
        }
        const A here = totals[row * width + column];
        total = keys[row] == key ? Running<OP, A>::join(total, here) : here;
        totals[row * width + column] = total;
        key = keys[row];
    }
}

// Every row's running total, of the rows that are a unit's. `totals` hold what came before each tile
// in the long segment at its top.
template <int OP, class A, int N, class Rows, class Out>
__device__ __forceinline__ void
scan_unit(const Turned<Rows>& data, const Turned<Out>& out, const Direction& way, int64 unit, int64 column,
          int64 width, int64 exclusive, const A* __restrict__ totals) {
    enum { BURST = Rows::BURST };
    const int64 top = unit * HEIGHT;
    if (top >= way.rows) return;
    const int64 bottom = min(top + HEIGHT, way.rows);
    int64 segment = segment_of(way, way.segments, top);
    for (int64 row = top; row < bottom;) {
        const int64 start = way[segment], stop = way[segment + 1];
        const bool is_long = stop - start > LONG;
        const int64 end = is_long ? min(stop, bottom) : stop;
        if (is_long || start >= top) {
            Pack<A, N> total = nothing<OP, A, N>();
            if (start < top) total = Columns<A, N>{totals + column, width}.at(unit - 1);
            for (; row < end; row += BURST) {
                typename Rows::Values got[BURST];
                fetch(data, row, end, got);
#pragma unroll
                for (int i = 0; i < BURST; i++) {
                    if (row + i >= end) continue;
                    const Pack<A, N> before = total;
                    add<OP>(total, got[i]);
                    out.put(row + i, cast<typename Out::Value>(either(exclusive != 0, before, total)));
                }
            }
        }
        row = end;
        if (row < bottom) segment = segment_after(way, way.segments, segment, row);
    }
}

template <class T, class A, class Out, int OP, int N>
__global__ void __launch_bounds__(256, 3)
scan_rows(const T* __restrict__ data, const int64* __restrict__ offsets, int64 segments,
          int64 rows, int64 width, int64 reverse, int64 exclusive, const A* __restrict__ totals,
          Out* __restrict__ out) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = N * ((int64)blockIdx.y * blockDim.x + threadIdx.x);
    if (column >= width) return;
    const Direction way = {offsets, segments, rows, reverse != 0};
    const Turned<Columns<T, N> > from = {{data + column, width}, way};
    const Turned<Results<Out, N> > to = {{out + column, width}, way};
    scan_unit<OP, A, N>(from, to, way, unit, column, width, exclusive, totals);
}

template <class T, class A, class Out, int OP>
__global__ void __launch_bounds__(256, 2)
scan_narrow_rows(const T* __restrict__ data, const int64* __restrict__ offsets, int64 segments,
                 int64 rows, int64 width, int64 reverse, int64 exclusive,
                 const A* __restrict__ totals, Out* __restrict__ out) {
    __shared__ __align__(16) unsigned char shared[NARROW_BYTES];
    const Direction way = {offsets, segments, rows, reverse != 0};
    const Tile<T, Out> tile = brought_from((Out*)shared, data, way, width);
    const Turned<Tile<T, Out> > from = {tile, way};
    const InTile<Out> in_tile = {tile.held, out, tile.top, tile.bottom, tile.width, tile.column};
    const Turned<InTile<Out> > to = {in_tile, way};
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    scan_unit<OP, A, 1>(from, to, way, unit, threadIdx.x, width, exclusive, totals);
    __shared__ int64 first;
    if (threadIdx.x == 0 && threadIdx.y == 0)
        first = first_written(way, segments, (int64)blockIdx.x * blockDim.y * HEIGHT, LONG);
    __syncthreads();
    const int64 from_row = way.reverse ? tile.top : first, stop = way.reverse ? rows - first : tile.bottom;
    if (from_row < stop) in_tile.write_back(from_row, stop);
}

// Of linear recurrences: rows of factors and summands, and of states.
template <class T> struct Effects {
    typedef Effect<T> Value;
    typedef Pack<Effect<T>, 1> Values;
    enum { BURST = 4 };
    const T* factors;
    const T* summands;
    int64 width;

    __device__ __forceinline__ Values at(int64 row) const {
        return {{{factors[row * width], summands[row * width]}}};
    }
};
template <class T> struct States {
    typedef Effect<T> Value;
    typedef Pack<Effect<T>, 1> Values;
    T* data;
    int64 width;

    __device__ __forceinline__ void put(int64 row, const Values& values) const {
        data[row * width] = values.at[0].summand;
    }
};

template <class T>
__global__ void __launch_bounds__(256)
linear_totals(const T* __restrict__ factors, const T* __restrict__ summands,
              const int64* __restrict__ offsets, int64 segments, int64 rows, int64 width,
              int64 reverse, Effect<T>* __restrict__ totals, int64* __restrict__ keys) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const Direction way = {offsets, segments, rows, reverse != 0};
    const Turned<Effects<T> > from = {{factors + column, summands + column, width}, way};
    total_of<LINEAR, Effect<T>, 1>(from, way, unit, column, width, totals, keys);
}

template <class T>
__global__ void __launch_bounds__(256, 3)
linear_rows(const T* __restrict__ factors, const T* __restrict__ summands,
            const int64* __restrict__ offsets, int64 segments, int64 rows, int64 width,
            int64 reverse, const Effect<T>* __restrict__ totals, T* __restrict__ out) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const Direction way = {offsets, segments, rows, reverse != 0};
    const Turned<Effects<T> > from = {{factors + column, summands + column, width}, way};
    const Turned<States<T> > to = {{out + column, width}, way};
    scan_unit<LINEAR, Effect<T>, 1>(from, to, way, unit, column, width, 0, totals);
}
