// Arithmetic with one row a row, or one a segment. See ops/elementwise.py.
#include "types.cuh"

enum { ADD, SUB, MUL, DIV };

template <int OP, class A> __device__ __forceinline__ A combined(A x, A z) {
    if (OP == ADD) return plus(x, z);
    if (OP == SUB) return minus(x, z);
    if (OP == MUL) return times(x, z);
    return x / z;
}

// A block is (columns, units); a unit walks down the rows of a tile and looks up its segment once.
// Without offsets, row r goes with row r of the values. These are `value_width` wide: as the
// rows, or 1 for one value that goes to a whole row.
template <class T, class Z, class A, class Out, int OP>
__global__ void __launch_bounds__(256)
binary(const T* __restrict__ data, const Z* __restrict__ values, const int64* __restrict__ offsets,
       int64 segments, int64 rows, int64 width, int64 value_width, int64 height,
       Out* __restrict__ out) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * height;
    if (top >= rows || column >= width) return;
    const int64 bottom = min(top + height, rows);
    const int64 value_column = value_width == 1 ? 0 : column;
    int64 segment = segments ? segment_of(offsets, segments, top) : top - 1;
    int64 stop = top;
    A value = A();
    for (int64 row = top; row < bottom; row++) {
        if (row >= stop) {
            if (segments) {
                segment = segment_after(offsets, segments, segment, row);
                stop = offsets[segment + 1];
            } else {
                segment++;
                stop = row + 1;
            }
            value = (A)values[segment * value_width + value_column];
        }
        const int64 place = row * width + column;
        out[place] = as<Out, A>(combined<OP, A>((A)data[place], value));
    }
}

// Gradients of a product or a quotient: for the rows, and what each row adds to that of its value.
template <class A, int OP>
__global__ void __launch_bounds__(256)
binary_grad(const A* __restrict__ data, const A* __restrict__ values,
            const int64* __restrict__ offsets, int64 segments, int64 rows, int64 width,
            int64 value_width, int64 height, const A* __restrict__ grad, A* __restrict__ for_data,
            A* __restrict__ for_value) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * height;
    if (top >= rows || column >= width) return;
    const int64 bottom = min(top + height, rows);
    const int64 value_column = value_width == 1 ? 0 : column;
    int64 segment = segments ? segment_of(offsets, segments, top) : top - 1;
    int64 stop = top;
    A value = A();
    for (int64 row = top; row < bottom; row++) {
        if (row >= stop) {
            if (segments) {
                segment = segment_after(offsets, segments, segment, row);
                stop = offsets[segment + 1];
            } else {
                segment++;
                stop = row + 1;
            }
            value = values[segment * value_width + value_column];
        }
        const int64 place = row * width + column;
        const A flow = grad[place];
        for_data[place] = OP == MUL ? flow * value : flow / value;
        for_value[place] = OP == MUL ? flow * data[place] : -flow * data[place] / (value * value);
    }
}
