// Updates added to chosen columns of each segment's row. See scatter.py.
#include "first_row.cuh"

// The first update of each tile with an invalid id; negative ids are large when unsigned.
__global__ void __launch_bounds__(256)
scatter_outside(const int64* __restrict__ ids, int64 columns, int64 count, int64 height, int64* __restrict__ firsts) {
    __shared__ uint64 first;
    first_of_tile(count, height, firsts, first, [=](int64 place) { return (uint64)ids[place] >= (uint64)columns; });
}

// One thread per update. If several go to one position, the order of floating-point sums is
// undefined.
template <class T>
__global__ void __launch_bounds__(256)
scatter_add(const int64* __restrict__ ids, const T* __restrict__ updates,
            const int64* __restrict__ offsets, int64 segments, int64 count, int64 columns,
            T* __restrict__ out) {
    const int64 place = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= count) return;
    const int64 segment = segment_of(offsets, segments, place);
    atomicAdd(out + segment * columns + ids[place], updates[place]);
}

// The gathered values, copied as words of W.
template <class W>
__global__ void __launch_bounds__(256)
scatter_take(const W* __restrict__ rows, const int64* __restrict__ ids,
             const int64* __restrict__ offsets, int64 segments, int64 count, int64 columns,
             W* __restrict__ out) {
    const int64 place = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= count) return;
    out[place] = rows[segment_of(offsets, segments, place) * columns + ids[place]];
}
