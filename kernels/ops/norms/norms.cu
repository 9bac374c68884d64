// Normalises every row over its features. See norms.py.
#include "last_block.cuh"
#include "row_partition.cuh"

enum { RMS, LAYER };

template <class A, int N, class T> __device__ __forceinline__ Pack<A, N> load(const T* place) {
    return cast<A>(Columns<T, N>{place, 0}.at(0));
}

// An optional weight or bias.
template <class A, int N, class W>
__device__ __forceinline__ Pack<A, N> load_or(const W* place, int64 given, A otherwise) {
    Pack<A, N> values;
#pragma unroll
    for (int n = 0; n < N; n++) values.at[n] = otherwise;
    if (given) values = load<A, N>(place);
    return values;
}

// Mean and 1 / sqrt(mean square + epsilon) of a row, in two passes over it: the second hits the
// cache, and avoids cancellation for a mean far from 0.
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

// A block is (threads of a row, rows): no thread exits before the shuffles are done. A thread has
// every blockDim.x-th group of N values of its row.
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

// The gradient of the rows; also writes the moments of each row for the pass over columns, and
// `counts` zeros.
template <class T, class W, int KIND, int N>
__global__ void __launch_bounds__(256)
norm_grad_rows(const T* __restrict__ grad, const T* __restrict__ data, const W* __restrict__ weight,
               int64 has_weight, int64 rows, int64 width, double epsilon, T* __restrict__ out,
               typename Wide<T>::type* __restrict__ means, typename Wide<T>::type* __restrict__ scales,
               unsigned* __restrict__ arrivals, int64 counts) {
    typedef typename Wide<T>::type A;
    no_arrivals(arrivals, counts);
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

// The gradients of weight and bias, (2, width): the last block sums the partial sums of all blocks,
// (2, blocks, width). A block is (columns, units); a thread has N columns. `arrivals` start at 0.
template <class T, int N>
__global__ void __launch_bounds__(256)
norm_grad_columns(const T* __restrict__ grad, const T* __restrict__ data,
                  const typename Wide<T>::type* __restrict__ means,
                  const typename Wide<T>::type* __restrict__ scales, int64 rows, int64 width,
                  int64 height, int64 dealt, typename Wide<T>::type* __restrict__ parts,
                  unsigned* __restrict__ arrivals, typename Wide<T>::type* __restrict__ out) {
    typedef typename Wide<T>::type A;
    __shared__ Pack<A, N> meeting[256];
    __shared__ bool last;
    const int64 column = N * ((int64)blockIdx.y * blockDim.x + threadIdx.x), blocks = gridDim.x;
    const Share share = share_of(rows, height, dealt);
    const int count = column < width ? share.count : 0;
    enum { BURST = Shared<T, N>::BURST };
    const Shared<T, N> of_grad = {{grad + column, width}, share}, of_data = {{data + column, width}, share};
    Pack<A, N> weight = {}, bias = {};
    for (int i = 0; i < count; i += BURST) {
        Pack<T, N> flow[BURST], x[BURST];
        fetch(of_grad, i, count, flow);
        fetch(of_data, i, count, x);
#pragma unroll
        for (int k = 0; k < BURST; k++) {
            if (i + k >= count) continue;
            const A mean = means[share.row(i + k)], scale = scales[share.row(i + k)];
#pragma unroll
            for (int n = 0; n < N; n++) {
                const A f = (A)flow[k].at[n];
                weight.at[n] += f * ((A)x[k].at[n] - mean) * scale;
                bias.at[n] += f;
            }
        }
    }
    sum_of_units(weight, meeting);
    sum_of_units(bias, meeting);
    const bool writes = threadIdx.y == 0 && column < width;
    if (writes) {
        store(parts + blockIdx.x * width + column, weight);
        store(parts + (blocks + blockIdx.x) * width + column, bias);
    }
    if (!is_last_block(arrivals + blockIdx.y, gridDim.x, last)) return;
    const Columns<A, N> of_parts = {parts + column, width};
    weight = bias = {};
    if (column < width)
        for (int64 block = threadIdx.y; block < blocks; block += blockDim.y) {
            const Pack<A, N> w = of_parts.at(block), b = of_parts.at(blocks + block);
#pragma unroll
            for (int n = 0; n < N; n++) {
                weight.at[n] += w.at[n];
                bias.at[n] += b.at[n];
            }
        }
    sum_of_units(weight, meeting);
    sum_of_units(bias, meeting);
    if (writes) {
        store(out + column, weight);
        store(out + width + column, bias);
    }
}
