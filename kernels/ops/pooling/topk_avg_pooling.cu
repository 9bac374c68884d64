// Averages of the largest values in the rows of matrices: see topk_avg_pooling.py. `order` are the
// positions of the values of each row, largest first.
#include "types.cuh"

// One average per thread, out (rows, channels, count).
template <class A>
__global__ void __launch_bounds__(256)
topk_averages(const A* __restrict__ values, const int64* __restrict__ order,
              const int64* __restrict__ offsets, const int64* __restrict__ row_offsets,
              const int64* __restrict__ column_offsets, int64 segments,
              const int64* __restrict__ topks, int64 count, int64 channels, int64 size,
              A* __restrict__ out) {
    const int64 place = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= size) return;
    const int64 row = place / (channels * count), channel = place / count % channels;
    const int64 segment = segment_of(row_offsets, segments, row);
    const int64 rows = row_offsets[segment + 1] - row_offsets[segment];
    const int64 columns = column_offsets[segment + 1] - column_offsets[segment];
    const int64 k = topks[place % count];
    const int64* largest = order + offsets[segment] + (channel * rows + row - row_offsets[segment]) * columns;
    A sum = columns ? values[largest[0]] : (A)0;
    for (int64 m = 1; m < min(k, columns); m++) sum += values[largest[m]];
    out[place] = sum / (A)k;
}

// One gradient value per thread: the m-th largest is part of every sum of more than m values.
template <class A>
__global__ void __launch_bounds__(256)
topk_averages_grad(const A* __restrict__ grad, const int64* __restrict__ order,
                   const int64* __restrict__ offsets, const int64* __restrict__ row_offsets,
                   const int64* __restrict__ column_offsets, int64 segments,
                   const int64* __restrict__ topks, int64 count, int64 channels, int64 size,
                   A* __restrict__ out) {
    const int64 place = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= size) return;
    const int64 segment = segment_of(offsets, segments, place), within = place - offsets[segment];
    const int64 rows = row_offsets[segment + 1] - row_offsets[segment];
    const int64 columns = column_offsets[segment + 1] - column_offsets[segment];
    const int64 cell = within / columns, m = within - cell * columns, channel = cell / rows;
    const int64 row = row_offsets[segment] + cell - channel * rows;
    const A* shares = grad + (row * channels + channel) * count;
    A sum = (A)0;
    for (int64 j = 0; j < count; j++)
        if (m < topks[j]) sum += shares[j] / (A)topks[j];
    out[order[place]] = sum;
}
