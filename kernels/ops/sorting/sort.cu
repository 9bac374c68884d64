// Keys that CuPy sorts, and what is made of sorted rows: see sort_cupy.py. A thread has a row, and walks
// along its columns.
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

// The first of the ordered rows (n, columns) of each segment: as many as `bounds` has, and their places.
__global__ void __launch_bounds__(256)
sort_best(const int64* __restrict__ order, const int64* __restrict__ offsets, const int64* __restrict__ bounds,
          int64 segments, int64 rows, int64 columns, int64* __restrict__ best, int64* __restrict__ places) {
    const int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const int64 segment = segment_of(bounds, segments, row);
    const int64 first = offsets[segment], from = first + row - bounds[segment];
    each_column(columns, [=](int64 column) {
        const int64 found = order[from * columns + column];
        best[row * columns + column] = found;
        places[row * columns + column] = found - first;
    });
}

// Which rows differ from the one before, in a value or in the segment.
template <class W, int KIND>
__global__ void __launch_bounds__(256)
sort_differs(const W* __restrict__ values, const int64* __restrict__ offsets, int64 segments, int64 rows,
             int64 columns, uint64 infinity, bool* __restrict__ out) {
    const int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    bool differs = offsets[segment_of(offsets, segments, row)] == row;
    for (int64 column = 0; column < columns && !differs; column++) {
        const W* place = values + row * columns + column;
        differs = rank_of<W, KIND>(*place, (W)infinity) != rank_of<W, KIND>(*(place - columns), (W)infinity);
    }
    out[row] = differs;
}

// The first row that is smaller than the one before in its segment; `first` is any number that is greater.
template <class W, int KIND>
__global__ void __launch_bounds__(256)
sort_falls(const W* __restrict__ values, const int64* __restrict__ offsets, int64 segments, int64 rows,
           uint64 infinity, uint64* __restrict__ first) {
    const int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row == 0 || row >= rows) return;
    if (rank_of<W, KIND>(values[row], (W)infinity) >= rank_of<W, KIND>(values[row - 1], (W)infinity)) return;
    if (offsets[segment_of(offsets, segments, row)] != row) atomicMin(first, (uint64)row);
}

// Where values go in the sorted segment of the same number: left or right of those that are equal.
template <class W, int KIND>
__global__ void __launch_bounds__(256)
sort_search(const W* __restrict__ sorted, const int64* __restrict__ offsets, const W* __restrict__ values,
            const int64* __restrict__ bounds, int64 segments, int64 rows, uint64 infinity, int64 right,
            int64* __restrict__ out) {
    const int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const int64 segment = segment_of(bounds, segments, row), first = offsets[segment];
    const W rank = rank_of<W, KIND>(values[row], (W)infinity);
    int64 low = first, high = offsets[segment + 1];
    while (low < high) {
        const int64 middle = low + ((high - low) >> 1);
        const W there = rank_of<W, KIND>(sorted[middle], (W)infinity);
        if (there < rank || (right && there == rank)) low = middle + 1; else high = middle;
    }
    out[row] = low - first;
}

// Counts (segments, bins) of values between edges: the last bin has its upper edge as well.
template <class T>
__global__ void __launch_bounds__(256)
sort_bins(const T* __restrict__ values, const int64* __restrict__ offsets, int64 segments, int64 rows,
          const T* __restrict__ edges, int64 bins, uint64* __restrict__ counts) {
    const int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const T value = values[row];
    if (!(value >= edges[0] && value <= edges[bins])) return;
    int64 low = 0, high = bins;
    while (high - low > 1) {
        const int64 middle = low + ((high - low) >> 1);
        if (edges[middle] <= value) low = middle; else high = middle;
    }
    atomicAdd(counts + segment_of(offsets, segments, row) * bins + low, (uint64)1);
}
