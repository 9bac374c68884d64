// Normalising every row over its own features. See norms.py.
#include "row_partition.cuh"

enum { RMS, LAYER };

template <class A, int N, class T> __device__ __forceinline__ Pack<A, N> load(const T* place) {
    return cast<A>(Columns<T, N>{place, 0}.at(0));
}

// A weight or bias that need not be given.
template <class A, int N, class W>
__device__ __forceinline__ Pack<A, N> load_or(const W* place, int64 given, A otherwise) {
    Pack<A, N> values;
#pragma unroll
    for (int n = 0; n < N; n++) values.at[n] = otherwise;
    if (given) values = load<A, N>(place);
    return values;
}

// Mean and 1 / sqrt(mean square + epsilon) of a row, in two passes over it: the second is of the
// cache, and nothing is lost to a mean far from 0.
template <int KIND, int N, class A, class T>
__device__ __forceinline__ void moments(const T* row, int64 width, A epsilon, A& mean, A& scale) {
    A sum = (A)0, squares = (A)0;
    const int64 step = N * blockDim.x;
    if (KIND == LAYER) {
        for (int64 i = N * threadIdx.x; i < width; i += step) {
            const Pack<A, N> x = load<A, N>(row + i);
#pragma unroll
            for (int n = 0; n < N; n++) sum += x.at[n];
        }
        sum = shared_sum(sum);
    }
    mean = KIND == LAYER ? sum / (A)width : (A)0;
    for (int64 i = N * threadIdx.x; i < width; i += step) {
        const Pack<A, N> x = load<A, N>(row + i);
#pragma unroll
        for (int n = 0; n < N; n++) squares += (x.at[n] - mean) * (x.at[n] - mean);
    }
    scale = (A)1 / sqrt(shared_sum(squares) / (A)width + epsilon);
}

// A block is (threads of a row, rows): no thread leaves before the shuffles are done. A thread has
// every blockDim.x-th N values of its row.
template <class T, class W, int KIND, int N>
__global__ void __launch_bounds__(256)
norm_rows(const T* __restrict__ data, const W* __restrict__ weight, int64 has_weight,
          const W* __restrict__ bias, int64 has_bias, int64 rows, int64 width, double epsilon,
          T* __restrict__ out) {
    typedef typename Wide<T>::type A;
    const int64 row = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 size = row < rows ? width : 0;
    A mean, scale;
    moments<KIND, N>(data + row * width, size, (A)epsilon, mean, scale);
    for (int64 i = N * threadIdx.x; i < size; i += N * blockDim.x) {
        Pack<A, N> x = load<A, N>(data + row * width + i);
        const Pack<A, N> w = load_or<A, N>(weight + i, has_weight, (A)1);
        const Pack<A, N> b = load_or<A, N>(bias + i, has_bias, (A)0);
#pragma unroll
        for (int n = 0; n < N; n++)
            x.at[n] = (x.at[n] - mean) * scale * w.at[n] + (KIND == LAYER ? b.at[n] : (A)0);
        store(out + row * width + i, cast<T>(x));
    }
}

// The gradient for the rows, and the moments of each for the pass over the columns.
template <class T, class W, int KIND, int N>
__global__ void __launch_bounds__(256)
norm_grad_rows(const T* __restrict__ grad, const T* __restrict__ data, const W* __restrict__ weight,
               int64 has_weight, int64 rows, int64 width, double epsilon, T* __restrict__ out,
               typename Wide<T>::type* __restrict__ means, typename Wide<T>::type* __restrict__ scales) {
    typedef typename Wide<T>::type A;
    const int64 row = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 size = row < rows ? width : 0, step = N * blockDim.x;
    const T *of_data = data + row * width, *of_grad = grad + row * width;
    A mean, scale, first = (A)0, second = (A)0;
    moments<KIND, N>(of_data, size, (A)epsilon, mean, scale);
    for (int64 i = N * threadIdx.x; i < size; i += step) {
        const Pack<A, N> x = load<A, N>(of_data + i), flow = load<A, N>(of_grad + i);
        const Pack<A, N> w = load_or<A, N>(weight + i, has_weight, (A)1);
#pragma unroll
        for (int n = 0; n < N; n++) {
            const A part = flow.at[n] * w.at[n];
            first += part;
            second += part * (x.at[n] - mean) * scale;
        }
    }
    first = KIND == LAYER ? shared_sum(first) / (A)width : (A)0;
    second = shared_sum(second) / (A)width;
    for (int64 i = N * threadIdx.x; i < size; i += step) {
        Pack<A, N> x = load<A, N>(of_data + i);
        const Pack<A, N> flow = load<A, N>(of_grad + i), w = load_or<A, N>(weight + i, has_weight, (A)1);
#pragma unroll
        for (int n = 0; n < N; n++)
            x.at[n] = scale * (flow.at[n] * w.at[n] - first - (x.at[n] - mean) * scale * second);
        store(out + row * width + i, cast<T>(x));
    }
    if (threadIdx.x == 0 && row < rows) {
        means[row] = mean;
        scales[row] = scale;
    }
}

// What a unit's share of the rows adds to the gradients of weight and bias: (2, units, width). A
// block is (columns, units); a thread has N columns.
template <class T, int N>
__global__ void __launch_bounds__(256)
norm_grad_columns(const T* __restrict__ grad, const T* __restrict__ data,
                  const typename Wide<T>::type* __restrict__ means,
                  const typename Wide<T>::type* __restrict__ scales, int64 rows, int64 width,
                  int64 height, int64 dealt, typename Wide<T>::type* __restrict__ parts) {
    typedef typename Wide<T>::type A;
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 units = (int64)gridDim.x * blockDim.y;
    const int64 column = N * ((int64)blockIdx.y * blockDim.x + threadIdx.x);
    if (column >= width) return;
    const Share share = share_of(rows, height, dealt);
    enum { BURST = Shared<T, N>::BURST };
    const Shared<T, N> of_grad = {{grad + column, width}, share}, of_data = {{data + column, width}, share};
    Pack<A, N> weight, bias;
#pragma unroll
    for (int n = 0; n < N; n++) weight.at[n] = bias.at[n] = (A)0;
    for (int i = 0; i < share.count; i += BURST) {
        Pack<T, N> flow[BURST], x[BURST];
        fetch(of_grad, i, share.count, flow);
        fetch(of_data, i, share.count, x);
#pragma unroll
        for (int k = 0; k < BURST; k++) {
            if (i + k >= share.count) continue;
            const A mean = means[share.row(i + k)], scale = scales[share.row(i + k)];
#pragma unroll
            for (int n = 0; n < N; n++) {
                const A f = (A)flow[k].at[n];
                weight.at[n] += f * ((A)x[k].at[n] - mean) * scale;
                bias.at[n] += f;
            }
        }
    }
    store(parts + unit * width + column, weight);
    store(parts + (units + unit) * width + column, bias);
}
