// Normalising every row over its own features. See ops/norms.py.
#include "types.cuh"

enum { RMS, LAYER };

// The sum over the threads that share a row: 1, 2, 4 .. or 32 neighbours.
template <class A> __device__ __forceinline__ A shared_sum(A value) {
    for (int bit = (int)blockDim.x >> 1; bit; bit >>= 1) value += __shfl_xor_sync(0xffffffffu, value, bit);
    return value;
}

// Mean and 1 / sqrt(mean square + epsilon) of a row, in two passes over it: the second is of the
// cache, and nothing is lost to a mean far from 0.
template <class A, int KIND>
__device__ __forceinline__ void moments(const A* row, int64 width, A epsilon, A& mean, A& scale) {
    A sum = (A)0, squares = (A)0;
    if (KIND == LAYER) {
        for (int64 i = threadIdx.x; i < width; i += blockDim.x) sum += row[i];
        sum = shared_sum(sum);
    }
    mean = KIND == LAYER ? sum / (A)width : (A)0;
    for (int64 i = threadIdx.x; i < width; i += blockDim.x) squares += (row[i] - mean) * (row[i] - mean);
    scale = (A)1 / sqrt(shared_sum(squares) / (A)width + epsilon);
}

// A block is (threads of a row, rows): no thread leaves before the shuffles are done.
template <class A, int KIND>
__global__ void __launch_bounds__(256)
norm_rows(const A* __restrict__ data, const A* __restrict__ weight, const A* __restrict__ bias,
          int64 rows, int64 width, double epsilon, A* __restrict__ out) {
    const int64 row = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 size = row < rows ? width : 0;
    A mean, scale;
    moments<A, KIND>(data + row * width, size, (A)epsilon, mean, scale);
    for (int64 i = threadIdx.x; i < size; i += blockDim.x) {
        const A value = (data[row * width + i] - mean) * scale * weight[i];
        out[row * width + i] = KIND == LAYER ? value + bias[i] : value;
    }
}

// The gradient for the rows, and the moments of each for the pass over the columns.
template <class A, int KIND>
__global__ void __launch_bounds__(256)
norm_grad_rows(const A* __restrict__ grad, const A* __restrict__ data,
               const A* __restrict__ weight, int64 rows, int64 width, double epsilon,
               A* __restrict__ out, A* __restrict__ means, A* __restrict__ scales) {
    const int64 row = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 size = row < rows ? width : 0;
    const A *x = data + row * width, *flow = grad + row * width;
    A mean, scale, first = (A)0, second = (A)0;
    moments<A, KIND>(x, size, (A)epsilon, mean, scale);
    for (int64 i = threadIdx.x; i < size; i += blockDim.x) {
        const A part = flow[i] * weight[i];
        first += part;
        second += part * (x[i] - mean) * scale;
    }
    first = KIND == LAYER ? shared_sum(first) / (A)width : (A)0;
    second = shared_sum(second) / (A)width;
    for (int64 i = threadIdx.x; i < size; i += blockDim.x)
        out[row * width + i] = scale * (flow[i] * weight[i] - first - (x[i] - mean) * scale * second);
    if (threadIdx.x == 0 && row < rows) {
        means[row] = mean;
        scales[row] = scale;
    }
}

// What a tile of rows adds to the gradients of weight and bias: (2, units, width). A block is
// (columns, units).
template <class A>
__global__ void __launch_bounds__(256)
norm_grad_columns(const A* __restrict__ grad, const A* __restrict__ data,
                  const A* __restrict__ means, const A* __restrict__ scales, int64 rows,
                  int64 width, int64 height, int64 units, A* __restrict__ parts) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * height;
    if (top >= rows || column >= width) return;
    const int64 bottom = min(top + height, rows);
    A weight = (A)0, bias = (A)0;
    for (int64 row = top; row < bottom; row++) {
        const A flow = grad[row * width + column];
        weight += flow * (data[row * width + column] - means[row]) * scales[row];
        bias += flow;
    }
    parts[unit * width + column] = weight;
    parts[(units + unit) * width + column] = bias;
}
