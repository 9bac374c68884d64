// Keys that CuPy sorts: see sort_cupy.py. A thread has a row, and walks along its columns.
#include "types.cuh"

enum { UNSIGNED, SIGNED, FLOATING };
enum { COLUMNS = 16 };  // of a block at a time, which lie apart where keys are written

// Calls for every column of the thread; the grid need not hold all of them.
template <class Each> __device__ __forceinline__ void each_column(int64 columns, Each each) {
    for (int64 first = (int64)blockIdx.y * COLUMNS; first < columns; first += (int64)gridDim.y * COLUMNS)
        for (int64 column = first; column < min(first + COLUMNS, columns); column++) each(column);
}

// An unsigned number of the same order: NaN last, -0.0 equal to 0.0. `infinity` are its bits.
template <class W, int KIND> __device__ __forceinline__ W rank_of(W bits, W infinity) {
    const W sign = (W)((W)1 << (8 * sizeof(W) - 1));
    if (KIND == UNSIGNED) return bits;
    if (KIND == SIGNED) return bits ^ sign;
    const W size = bits & (W)~sign;
    if (size > infinity) return (W)~(W)0;
    if (!size) return sign;
    // Of negative numbers the greater bits are the smaller number.
    return bits & sign ? (W)~bits : (W)(bits | sign);
}

// Keys (columns, rows) of values (rows, columns): the rank of each, below the number of its column
// and segment if `shift`, the bits of a rank, is not 0.
template <class W, class K, int KIND>
__global__ void __launch_bounds__(256)
sort_keys(const W* __restrict__ values, const int64* __restrict__ offsets, int64 segments, int64 rows,
          int64 columns, uint64 infinity, int64 descending, int64 shift, int64 stride,
          K* __restrict__ keys) {
    const int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const int64 segment = shift ? segment_of(offsets, segments, row) : 0;
    each_column(columns, [=](int64 column) {
        W rank = rank_of<W, KIND>(values[row * columns + column], (W)infinity);
        if (descending) rank = (W)~rank;
        const K owner = (K)(column * segments + segment);
        keys[column * stride + row] = shift ? (K)((owner << shift) | (K)rank) : (K)rank;
    });
}

// The number of column and segment of each key.
template <class K>
__global__ void __launch_bounds__(256)
sort_owners(const int64* __restrict__ offsets, int64 segments, int64 rows, int64 columns, int64 stride,
            K* __restrict__ owners) {
    const int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const int64 segment = segment_of(offsets, segments, row);
    each_column(columns, [=](int64 column) {
        owners[column * stride + row] = (K)(column * segments + segment);
    });
}

// Rows (rows, columns) from the order of all keys (columns, rows).
__global__ void __launch_bounds__(256)
sort_places(const int64* __restrict__ order, int64 rows, int64 columns, int64* __restrict__ places) {
    const int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    each_column(columns, [=](int64 column) {
        places[row * columns + column] = order[column * rows + row] - column * rows;
    });
}
