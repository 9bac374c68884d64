// Running totals. See ops/scan.py.
//
// Rows are cut into tiles of equal height. The first pass leaves of each tile the total of those
// rows at its end whose segment goes on below: most rows of short segments are not read for it.
// These totals are added up in the same way, tile by tile, and a last pass walks down each tile
// from the total above it. Inside a tile values meet in the order of the rows; across tiles, tile
// by tile: a product may overflow where one from left to right would come back into range.
#include "types.cuh"

enum { SUM, PRODUCT };
enum { SHIFT = 6, HEIGHT = 1 << SHIFT };

// For products; sums take the two parts as columns of their own.
template <class A> struct Complex { A real, imaginary; };
template <class A> __device__ __forceinline__ Complex<A> times(Complex<A> a, Complex<A> b) {
    return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}
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

// Where a row lies in memory: reading backwards, the last one comes first.
__device__ __forceinline__ int64 placed(int64 row, int64 rows, int64 reverse) {
    return reverse ? rows - 1 - row : row;
}

// A block is (columns, units). `keys` are the segments that the totals of each tile belong to,
// -1 where the last segment of a tile ends with it.
template <class T, class A, int OP>
__global__ void __launch_bounds__(256)
scan_totals(const T* __restrict__ data, const int64* __restrict__ offsets, int64 segments,
            int64 rows, int64 width, int64 reverse, A* __restrict__ totals,
            int64* __restrict__ keys) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * HEIGHT;
    if (top >= rows) return;
    const int64 bottom = min(top + HEIGHT, rows);
    const int64 segment = segment_of(offsets, segments, bottom - 1);
    const bool goes_on = offsets[segment + 1] > bottom;
    if (column == 0) keys[unit] = goes_on ? segment : -1;
    if (column >= width || !goes_on) return;
    A total = Running<OP, A>::none();
    for (int64 row = max(offsets[segment], top); row < bottom; row++)
        total = Running<OP, A>::join(total, (A)data[placed(row, rows, reverse) * width + column]);
    totals[unit * width + column] = total;
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

// Every row's running total; `totals` hold what came before each tile in the segment at its top.
template <class T, class A, class Out, int OP>
__global__ void __launch_bounds__(256)
scan_rows(const T* __restrict__ data, const int64* __restrict__ offsets, int64 segments,
          int64 rows, int64 width, int64 reverse, int64 exclusive, const A* __restrict__ totals,
          Out* __restrict__ out) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * HEIGHT;
    if (top >= rows || column >= width) return;
    const int64 bottom = min(top + HEIGHT, rows);
    int64 segment = segment_of(offsets, segments, top);
    int64 stop = offsets[segment + 1];
    A total = Running<OP, A>::none();
    if (offsets[segment] < top) total = totals[(unit - 1) * width + column];
    for (int64 row = top; row < bottom; row++) {
        if (row >= stop) {
            segment = segment_after(offsets, segments, segment, row);
            stop = offsets[segment + 1];
            total = Running<OP, A>::none();
        }
        const int64 place = placed(row, rows, reverse) * width + column;
        const A before = total;
        total = Running<OP, A>::join(total, (A)data[place]);
        out[place] = as<Out, A>(exclusive ? before : total);
    }
}
