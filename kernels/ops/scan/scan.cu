// Prefix sums. See scan.py.
//
// Rows are split into tiles of equal height, as in pool.cu. A segment no longer than a tile is
// computed by the unit in whose tile it begins: one pass over memory. For longer ones a previous
// pass computes, per tile, the total of its last rows whose segment continues below. These totals
// are scanned tile by tile, and the last pass walks down each tile starting from the carry. Values
// are combined in row order within a tile, then tile by tile: a product may overflow where a
// sequential one would not.
#include "narrow.cuh"

enum { SUM, PRODUCT, LINEAR };
enum { LONG = HEIGHT };

// For products; sums treat the two parts as separate columns.
template <class A> struct Complex { A real, imaginary; };
template <class A> __device__ __forceinline__ Complex<A> times(Complex<A> a, Complex<A> b) {
    return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}
template <class A> __device__ __forceinline__ Complex<A> plus(Complex<A> a, Complex<A> b) {
    return {a.real + b.real, a.imaginary + b.imaginary};
}
// Effect of a row on a state h: factor h + summand. See linear_scan.py.
template <class A> struct Effect {
    A factor, summand;
};
template <class A> struct Number {
    __device__ __forceinline__ static A of(int value) { return (A)value; }
};
template <class A> struct Number<Complex<A> > {
    __device__ __forceinline__ static Complex<A> of(int value) { return {(A)value, (A)0}; }
};

// The operator that joins two totals, and its identity.
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

// Rows and offsets in order, or from last to first.
struct Direction {
    const int64* offsets;
    int64 segments, rows;
    bool reverse;

    __device__ __forceinline__ int64 operator[](int64 segment) const {
        return reverse ? rows - offsets[segments - segment] : offsets[segment];
    }
    __device__ __forceinline__ int64 number(int64 segment) const {
        return reverse ? segments - 1 - segment : segment;
    }
    // The position of a row in memory.
    __device__ __forceinline__ int64 place(int64 row) const { return reverse ? rows - 1 - row : row; }
};
template <class Rows> struct Turned {
    typedef typename Rows::Values Values;
    enum { BURST = Rows::BURST };
    Rows rows;
    Direction way;

    __device__ __forceinline__ Values at(int64 row) const { return rows.at(way.place(row)); }
};
template <class Results> struct TurnedResults {
    typedef typename Results::Value Value;
    typedef typename Results::Values Values;
    Results results;
    Direction way;

    __device__ __forceinline__ void put(int64 row, const Values& values) const {
        results.put(way.place(row), values);
    }
};

// Differences for the first row of a segment, and additional outputs per row: none, unless rows or
// results define them.
template <class Rows, class Values>
__device__ __forceinline__ void begin(const Rows& rows, Values& values, int64 segment) {}
template <class Out, class Values>
__device__ __forceinline__ void put(const Out& out, int64 row, const typename Out::Values& total,
                                    const Values& values, int64 segment, bool is_last) {
    out.put(row, total);
}

// The first values of a total are not joined to its identity: 1 times a complex infinity is NaN.
template <int OP, class A, class T, int N>
__device__ __forceinline__ void add(Pack<A, N>& total, const Pack<T, N>& values, bool is_first) {
#pragma unroll
    for (int n = 0; n < N; n++)
        total.at[n] = is_first ? (A)values.at[n] : Running<OP, A>::join(total.at[n], (A)values.at[n]);
}
template <int OP, class A, int N> __device__ __forceinline__ Pack<A, N> nothing() {
    Pack<A, N> total;
#pragma unroll
    for (int n = 0; n < N; n++) total.at[n] = Running<OP, A>::none();
    return total;
}

// The total of the last rows of a unit's tile, if their segment is long and continues below; `keys`
// are these segments, -1 for none.
template <int OP, class A, int N, class Rows>
__device__ __forceinline__ void
total_of(const Rows& data, const Direction& way, int64 unit, int64 column, int64 width,
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
    const int64 first = max(start, top);
    for (int64 row = first; row < bottom; row += BURST) {
        typename Rows::Values got[BURST];
        fetch(data, row, bottom, got);
#pragma unroll
        for (int i = 0; i < BURST; i++) {
            if (row + i >= bottom) continue;
            if (row + i == start) begin(data, got[i], segment);
            add<OP>(total, got[i], row + i == first);
        }
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

// The block's rows, as values of results; in reverse they are stored at the other end.
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

// The same for `count` totals: the total of the last ones of a tile in the same segment.
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

// Adds to every total the previous ones of its segment; `above` holds the carry of each tile.
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

// The prefix sums of a unit's rows. `totals` hold the carry into each tile for the long segment at
// its top.
template <int OP, class A, int N, class Rows, class Out>
__device__ __forceinline__ void
scan_unit(const Rows& data, const Out& out, const Direction& way, int64 unit, int64 column, int64 width,
          int64 exclusive, const A* __restrict__ totals) {
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
                    if (row + i == start) begin(data, got[i], segment);
                    add<OP>(total, got[i], row + i == start);
                    put(out, row + i, cast<typename Out::Value>(either(exclusive != 0, before, total)),
                        got[i], segment, row + i + 1 == stop);
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
          int64 rows, int64 width, int64 reverse, const A* __restrict__ totals, int64 exclusive,
          Out* __restrict__ out) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = N * ((int64)blockIdx.y * blockDim.x + threadIdx.x);
    if (column >= width) return;
    const Direction way = {offsets, segments, rows, reverse != 0};
    const Turned<Columns<T, N> > from = {{data + column, width}, way};
    const TurnedResults<Results<Out, N> > to = {{out + column, width}, way};
    scan_unit<OP, A, N>(from, to, way, unit, column, width, exclusive, totals);
}

template <class T, class A, class Out, int OP>
__global__ void __launch_bounds__(256, 2)
scan_narrow_rows(const T* __restrict__ data, const int64* __restrict__ offsets, int64 segments,
                 int64 rows, int64 width, int64 reverse, const A* __restrict__ totals,
                 int64 exclusive, Out* __restrict__ out) {
    __shared__ __align__(16) unsigned char shared[NARROW_BYTES];
    const Direction way = {offsets, segments, rows, reverse != 0};
    const Tile<T, Out> tile = brought_from((Out*)shared, data, way, width);
    const Turned<Tile<T, Out> > from = {tile, way};
    const InTile<Out> in_tile = {tile.held, out, tile.top, tile.bottom, tile.width, tile.column};
    const TurnedResults<InTile<Out> > to = {in_tile, way};
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    scan_unit<OP, A, 1>(from, to, way, unit, threadIdx.x, width, exclusive, totals);
    __shared__ int64 first;
    if (threadIdx.x == 0 && threadIdx.y == 0)
        first = first_written(way, segments, (int64)blockIdx.x * blockDim.y * HEIGHT, LONG);
    __syncthreads();
    const int64 from_row = way.reverse ? tile.top : first, stop = way.reverse ? rows - first : tile.bottom;
    if (from_row < stop) in_tile.write_back(from_row, stop);
}

// -- gradients of products -----------------------------------------------------------------

// The product of rows, the product without the first 0, and the number of zeros (2 for more).
struct Products {
    double all, others;
    int64 zeros;
};
template <> struct Running<PRODUCT, Products> {
    __device__ __forceinline__ static Products none() { return {1, 1, 0}; }
    __device__ __forceinline__ static Products join(Products above, Products below) {
        const double others = above.zeros ? above.others * below.all : above.all * below.others;
        return {above.all * below.all, others, min(above.zeros + below.zeros, (int64)2)};
    }
};
template <class T> struct Factors {
    typedef Pack<Products, 1> Values;
    enum { BURST = 4 };
    const T* data;
    int64 width;

    __device__ __forceinline__ Values at(int64 row) const {
        const double x = (double)data[row * width];
        return {{{x, x == 0 ? 1 : x, x == 0}}};
    }
};
// Both products times the gradient, and whether the row is the first 0 of its segment.
struct Weighted {
    typedef Products Value;
    typedef Pack<Products, 1> Values;
    const double* upstream;
    Complex<double>* pairs;
    bool* first;
    int64 width, exclusive;
    Direction way;
};
__device__ __forceinline__ void
put(const Weighted& out, int64 row, const Pack<Products, 1>& total, const Pack<Products, 1>& values,
    int64 segment, bool is_last) {
    const int64 place = out.way.place(row) * out.width;
    const double flow = out.upstream[place];
    out.pairs[place] = {flow * total.at[0].all, flow * total.at[0].others};
    out.first[place] = values.at[0].zeros && total.at[0].zeros == (out.exclusive ? 0 : 1);
}

template <class T>
__global__ void __launch_bounds__(256)
cumprod_totals(const T* __restrict__ data, const int64* __restrict__ offsets, int64 segments,
               int64 rows, int64 width, int64 reverse, Products* __restrict__ totals,
               int64* __restrict__ keys) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const Direction way = {offsets, segments, rows, reverse != 0};
    const Turned<Factors<T> > from = {{data + column, width}, way};
    total_of<PRODUCT, Products, 1>(from, way, unit, column, width, totals, keys);
}

template <class T>
__global__ void __launch_bounds__(256, 2)
cumprod_rows(const T* __restrict__ data, const int64* __restrict__ offsets, int64 segments,
             int64 rows, int64 width, int64 reverse, const Products* __restrict__ totals,
             int64 exclusive, const double* __restrict__ upstream,
             Complex<double>* __restrict__ pairs, bool* __restrict__ first) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const Direction way = {offsets, segments, rows, reverse != 0};
    const Turned<Factors<T> > from = {{data + column, width}, way};
    const Weighted to = {upstream + column, pairs + column, first + column, width, exclusive, way};
    scan_unit<PRODUCT, Products, 1>(from, to, way, unit, column, width, exclusive, totals);
}

// The result from the sums of the pairs. See scan.py.
template <class T> struct Quotients {
    typedef Complex<double> Value;
    typedef Pack<Complex<double>, 1> Values;
    const T* data;
    const bool* first;
    T* out;
    int64 width;

    __device__ __forceinline__ void put(int64 row, const Values& values) const {
        const double x = (double)data[row * width];
        const Complex<double> sum = values.at[0];
        const double found = first[row * width] ? sum.imaginary : x == 0 ? 0 : sum.real / x;
        out[row * width] = as<T, double>(found);
    }
};

template <class T>
__global__ void __launch_bounds__(256, 2)
cumprod_grad(const Complex<double>* __restrict__ pairs, const int64* __restrict__ offsets,
             int64 segments, int64 rows, int64 width, int64 reverse,
             const Complex<double>* __restrict__ totals, int64 exclusive,
             const T* __restrict__ data, const bool* __restrict__ first, T* __restrict__ out) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const Direction way = {offsets, segments, rows, reverse != 0};
    const Turned<Columns<Complex<double>, 1> > from = {{pairs + column, width}, way};
    const TurnedResults<Quotients<T> > to = {{data + column, first + column, out + column, width}, way};
    scan_unit<SUM, Complex<double>, 1>(from, to, way, unit, column, width, exclusive, totals);
}

// -- linear recurrences ------------------------------------------------------------------

__device__ __forceinline__ float conjugate(float value) { return value; }
__device__ __forceinline__ double conjugate(double value) { return value; }
template <class A> __device__ __forceinline__ Complex<A> conjugate(Complex<A> value) {
    return {value.real, -value.imaginary};
}

// A column of the input of a recurrence: rows of factors, `step` values apart (0: one for all
// rows), and of summands; initial states per segment if has_initial.
template <class T> struct Recurrence {
    const T* factors;
    int64 step;
    const T* summands;
    const T* initial;
    bool has_initial;
    int64 width;
    Direction way;

    __device__ __forceinline__ T factor(int64 row) const { return factors[way.place(row) * step]; }
    __device__ __forceinline__ T summand(int64 row) const { return summands[way.place(row) * width]; }
    __device__ __forceinline__ T* of_segment(T* rows, int64 segment) const {
        return rows + way.number(segment) * width;
    }
    __device__ __forceinline__ T before(int64 segment) const {
        return has_initial ? *of_segment((T*)initial, segment) : Number<T>::of(0);
    }
};
template <class T> struct Effects {
    typedef Pack<Effect<T>, 1> Values;
    enum { BURST = 4 };
    Recurrence<T> of;

    __device__ __forceinline__ Values at(int64 row) const { return {{{of.factor(row), of.summand(row)}}}; }
};
// The factor of a first row applies to an initial state only.
template <class T>
__device__ __forceinline__ void begin(const Effects<T>& rows, Pack<Effect<T>, 1>& values, int64 segment) {
    Effect<T>& first = values.at[0];
    if (rows.of.has_initial) first.summand = plus(first.summand, times(first.factor, rows.of.before(segment)));
    first.factor = Number<T>::of(0);
}
template <class T> struct States {
    typedef Effect<T> Value;
    typedef Pack<Effect<T>, 1> Values;
    T* data;
    int64 width;

    __device__ __forceinline__ void put(int64 row, const Values& values) const {
        data[row * width] = values.at[0].summand;
    }
};

// Rows are Effects, or Backward below.
template <class T, template <class> class Rows>
__global__ void __launch_bounds__(256)
linear_totals(const T* __restrict__ factors, int64 step, const T* __restrict__ summands,
              const T* __restrict__ initial, int64 has_initial, const int64* __restrict__ offsets,
              int64 segments, int64 rows, int64 width, int64 reverse, Effect<T>* __restrict__ totals,
              int64* __restrict__ keys) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const Direction way = {offsets, segments, rows, reverse != 0};
    const Rows<T> from = {{factors + column, step, summands + column, initial + column,
                           has_initial != 0, width, way}};
    total_of<LINEAR, Effect<T>, 1>(from, way, unit, column, width, totals, keys);
}

template <class T>
__global__ void __launch_bounds__(256, 3)
linear_rows(const T* __restrict__ factors, int64 step, const T* __restrict__ summands,
            const T* __restrict__ initial, int64 has_initial, const int64* __restrict__ offsets,
            int64 segments, int64 rows, int64 width, int64 reverse,
            const Effect<T>* __restrict__ totals, T* __restrict__ out) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= width) return;
    const Direction way = {offsets, segments, rows, reverse != 0};
    const Effects<T> from = {{factors + column, step, summands + column, initial + column,
                              has_initial != 0, width, way}};
    const TurnedResults<States<T> > to = {{out + column, width}, way};
    scan_unit<LINEAR, Effect<T>, 1>(from, to, way, unit, column, width, 0, totals);
}

// The gradient of the summands is the recurrence in reverse, with the factors of the next row:
// `way` is the direction of the gradient.
template <class T> struct Backward {
    typedef Pack<Effect<T>, 1> Values;
    enum { BURST = 4 };
    Recurrence<T> of;

    __device__ __forceinline__ Values at(int64 row) const {
        return {{{conjugate(of.factor(max(row - 1, (int64)0))), of.summand(row)}}};
    }
};
template <class T>
__device__ __forceinline__ void begin(const Backward<T>& rows, Pack<Effect<T>, 1>& values, int64 segment) {
    values.at[0].factor = Number<T>::of(0);
}
// With the previous state of each row, which the gradient of its factor needs.
template <class T> struct Arriving {
    Effect<T> effect;
    T before;

    __device__ __forceinline__ operator Effect<T>() const { return effect; }
};
template <class T> struct BackwardOfStates {
    typedef Pack<Arriving<T>, 1> Values;
    enum { BURST = 4 };
    Backward<T> rows;
    const T* states;

    __device__ __forceinline__ Values at(int64 row) const {
        const Recurrence<T>& of = rows.of;
        const int64 before = min(row + 1, of.way.rows - 1);
        return {{{rows.at(row).at[0], states[of.way.place(before) * of.width]}}};
    }
};
template <class T>
__device__ __forceinline__ void
begin(const BackwardOfStates<T>& rows, Pack<Arriving<T>, 1>& values, int64 segment) {
    values.at[0].effect.factor = Number<T>::of(0);
}
template <class T> struct Gradients {
    typedef Effect<T> Value;
    typedef Pack<Effect<T>, 1> Values;
    Recurrence<T> of;
    T* factors;
    T* summands;
    T* initial;
};
template <class T>
__device__ __forceinline__ void
put(const Gradients<T>& out, int64 row, const Pack<Effect<T>, 1>& total,
    const Pack<Arriving<T>, 1>& values, int64 segment, bool is_last) {
    const Recurrence<T>& of = out.of;
    const int64 place = of.way.place(row) * of.width;
    const T flow = total.at[0].summand;
    const T before = is_last ? of.before(segment) : values.at[0].before;
    out.summands[place] = flow;
    out.factors[place] = times(flow, conjugate(before));
    if (is_last && of.has_initial)
        *of.of_segment(out.initial, segment) = times(conjugate(of.factor(row)), flow);
}

// The gradient of the initial states of empty segments: blocks after the `tiled` ones of the rows,
// EMPTY segments per unit.
enum { EMPTY = 8 };

template <class T>
__global__ void __launch_bounds__(256, 2)
linear_grad_rows(const T* __restrict__ factors, int64 step, const T* __restrict__ upstream,
                 const T* __restrict__ initial, int64 has_initial,
                 const int64* __restrict__ offsets, int64 segments, int64 rows, int64 width,
                 int64 reverse, const Effect<T>* __restrict__ totals, const T* __restrict__ states,
                 T* __restrict__ of_factors, T* __restrict__ of_summands, T* __restrict__ of_initial,
                 int64 tiled) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= width) return;
    if (blockIdx.x >= tiled) {
        const int64 first = ((int64)blockIdx.x - tiled) * blockDim.y * EMPTY + threadIdx.y;
        for (int i = 0; i < EMPTY; i++) {
            const int64 segment = first + i * blockDim.y;
            if (segment < segments && offsets[segment] == offsets[segment + 1])
                of_initial[segment * width + column] = Number<T>::of(0);
        }
        return;
    }
    const Direction way = {offsets, segments, rows, reverse != 0};
    const Recurrence<T> of = {factors + column, step, upstream + column, initial + column,
                              has_initial != 0, width, way};
    const BackwardOfStates<T> from = {{of}, states + column};
    const Gradients<T> to = {of, of_factors + column, of_summands + column, of_initial + column};
    scan_unit<LINEAR, Effect<T>, 1>(from, to, way, unit, column, width, 0, totals);
}
