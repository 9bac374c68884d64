// Keys that CuPy sorts, and operations on sorted rows: see sort_cupy.py. A thread has a row, and
// iterates over its columns.
#include "first_row.cuh"
#include "kept_rows.cuh"

enum { UNSIGNED, SIGNED, FLOATING };
// NEGATED: ascending, as if floating-point numbers were negated. NaN is still last.
enum { ASCENDING, DESCENDING, NEGATED };
enum { COLUMNS = 16 };  // columns of a block at a time, which are strided where keys are written

// Calls a function for every column of the thread; columns may exceed the grid.
template <class Each> __device__ __forceinline__ void each_column(int64 columns, Each each) {
    for (int64 first = (int64)blockIdx.y * COLUMNS; first < columns; first += (int64)gridDim.y * COLUMNS)
        for (int64 column = first; column < min(first + COLUMNS, columns); column++) each(column);
}

// An unsigned number with the same order: NaN last, -0.0 equal to 0.0. `infinity` are its bits.
template <class W, int KIND> __device__ __forceinline__ W rank_of(W bits, W infinity) {
    const W sign = (W)((W)1 << (8 * sizeof(W) - 1));
    if (KIND == UNSIGNED) return bits;
    if (KIND == SIGNED) return bits ^ sign;
    const W size = bits & (W)~sign;
    if (size > infinity) return (W)~(W)0;
    if (!size) return sign;
    // For negative numbers greater bits are a smaller number.
    return bits & sign ? (W)~bits : (W)(bits | sign);
}

// The same for values in a sort order.
template <class W, int KIND> __device__ __forceinline__ W rank_in(W bits, W infinity, int64 order) {
    if (order == NEGATED) bits ^= (W)((W)1 << (8 * sizeof(W) - 1));
    const W rank = rank_of<W, KIND>(bits, infinity);
    return order == DESCENDING ? (W)~rank : rank;
}

// Keys (columns, rows) of values (rows, columns): the rank of each, below the number of its column
// and segment if `shift`, the bits of a rank, is not 0.
template <class W, class K, int KIND>
__global__ void __launch_bounds__(256)
sort_keys(const W* __restrict__ values, const int64* __restrict__ offsets, int64 segments, int64 rows,
          int64 columns, uint64 infinity, int64 order, int64 shift, int64 stride,
          K* __restrict__ keys) {
    const int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const int64 segment = shift ? segment_of(offsets, segments, row) : 0;
    each_column(columns, [=](int64 column) {
        const W rank = rank_in<W, KIND>(values[row * columns + column], (W)infinity, order);
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

enum { VALUES = 2048, SORTERS = 512, EACH = VALUES / SORTERS, RUN = 32 };

// The order of segments of at most `longest` rows, each column separately, (rows, columns). A block
// has the segments that begin in `height` rows, and 1 << shift of their columns, at most VALUES
// values. Values are sorted in shared memory: runs of RUN by counting ranks, then pairs of runs are
// merged by binary search. The sort is stable.
template <class W, int KIND>
__global__ void __launch_bounds__(SORTERS, 2)
sort_short(const W* __restrict__ values, const int64* __restrict__ offsets, int64 segments, int64 rows,
           int64 columns, uint64 infinity, int64 order, int64 longest, int64 height, int64 shift,
           int64* __restrict__ out) {
    __shared__ W ranks[VALUES];
    __shared__ unsigned short places[VALUES];
    const unsigned across = 1u << shift, groups = (unsigned)((columns + across - 1) >> shift);
    const int64 top = (int64)(blockIdx.x / groups) * height;
    const int column = (int)(threadIdx.x & (across - 1));
    const int64 at = (int64)(blockIdx.x % groups << shift) + column;
    // A segment belongs to the block in which it begins.
    const int64 first_segment = segment_of(offsets, segments, top);
    const int64 from = offsets[first_segment] < top ? offsets[first_segment + 1] : top;
    int64 stop = rows;
    if (top + height < rows) {
        const int64 last = segment_after(offsets, segments, first_segment, top + height);
        stop = offsets[last] < top + height ? offsets[last + 1] : top + height;
    }
    const int count = at < columns ? (int)(stop - from) : 0;
    int begins[EACH], ends[EACH];
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const int row = (int)((threadIdx.x + k * SORTERS) >> shift);
        begins[k] = ends[k] = row;
        if (row >= count) continue;
        const int64 of = segment_after(offsets, segments, first_segment, from + row);
        begins[k] = (int)(offsets[of] - from);
        ends[k] = (int)(offsets[of + 1] - from);
        ranks[(row << shift) + column] =
            rank_in<W, KIND>(values[(from + row) * columns + at], (W)infinity, order);
        places[(row << shift) + column] = (unsigned short)row;
    }
    for (int run = RUN; run < 2 * longest || run == RUN; run *= 2) {
        __syncthreads();
        W rank[EACH];
        unsigned short place[EACH];
        int to[EACH];
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            const int row = (int)((threadIdx.x + k * SORTERS) >> shift);
            if (row >= count) continue;
            rank[k] = ranks[(row << shift) + column];
            place[k] = places[(row << shift) + column];
            const int within = row - begins[k], first = row - (within & (run - 1));
            if (run == RUN) {
                to[k] = first;
                for (int i = first; i < min(first + RUN, ends[k]); i++) {
                    const W other = ranks[(i << shift) + column];
                    to[k] += other < rank[k] || (other == rank[k] && i < row);
                }
            } else {
                // In the other half of the run, equal values come first only if they are in the
                // right half.
                const int half = run / 2, right = within & half;
                int low = min(first + half - right, ends[k]), high = min(low + half, ends[k]);
                to[k] = row - right - low;
                while (low < high) {
                    const int middle = (low + high) / 2;
                    const W other = ranks[(middle << shift) + column];
                    if (other < rank[k] || (right && other == rank[k])) low = middle + 1; else high = middle;
                }
                to[k] += low;
            }
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < EACH; k++) {
            if ((int)((threadIdx.x + k * SORTERS) >> shift) >= count) continue;
            ranks[(to[k] << shift) + column] = rank[k];
            places[(to[k] << shift) + column] = place[k];
        }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const int row = (int)((threadIdx.x + k * SORTERS) >> shift);
        if (row < count) out[(from + row) * columns + at] = from + places[(row << shift) + column];
    }
}

// The first of the ordered rows of each segment, as many as in `bounds`: their positions, (n,
// columns), and optionally their values.
template <class W>
__global__ void __launch_bounds__(256)
sort_best(const W* __restrict__ data, const int64* __restrict__ order, const int64* __restrict__ offsets,
          const int64* __restrict__ bounds, int64 segments, int64 rows, int64 columns, int64 has_values,
          W* __restrict__ values, int64* __restrict__ places) {
    const int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const int64 segment = segment_of(bounds, segments, row);
    const int64 first = offsets[segment], from = first + row - bounds[segment];
    each_column(columns, [=](int64 column) {
        const int64 found = order[from * columns + column];
        if (has_values) values[row * columns + column] = data[found * columns + column];
        places[row * columns + column] = found - first;
    });
}

// Scatters the gradient of the first of the ordered rows, (n, columns), to the rows they came from,
// (rows, columns); zero elsewhere.
template <class W>
__global__ void __launch_bounds__(256)
sort_back(const W* __restrict__ best, const int64* __restrict__ order, const int64* __restrict__ offsets,
          const int64* __restrict__ bounds, int64 segments, int64 rows, int64 columns, W* __restrict__ out) {
    const int64 row = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const int64 segment = segment_of(offsets, segments, row);
    const int64 from = bounds[segment] + row - offsets[segment];
    const bool taken = from < bounds[segment + 1];
    each_column(columns, [=](int64 column) {
        const W value = taken ? best[from * columns + column] : W();
        out[order[row * columns + column] * columns + column] = value;
    });
}

// Marks the rows that differ from the previous one, in value or segment: in the given order, or if
// `ordered` in an `order` within segments. The mark is written at the position in that order, or if
// `ordered` is 2 at the original row; tiles are those of the order.
template <class W, int KIND>
__global__ void __launch_bounds__(256)
sort_differs(const W* __restrict__ values, const int64* __restrict__ order, int64 ordered,
             const int64* __restrict__ offsets, int64 segments, int64 rows, int64 columns, uint64 infinity,
             int64 height, bool* __restrict__ kept, Kept* __restrict__ tiles) {
    __shared__ Warps warps;
    mark_rows(rows, height, tiles, warps, [=](int64 row) {
        const int64 here = ordered ? order[row] : row;
        bool differs = offsets[segment_of(offsets, segments, row)] == row;
        if (!differs) {
            const W *place = values + here * columns, *before = values + (ordered ? order[row - 1] : row - 1) * columns;
            for (int64 column = 0; column < columns && !differs; column++)
                differs = rank_of<W, KIND>(place[column], (W)infinity) != rank_of<W, KIND>(before[column], (W)infinity);
        }
        return kept[ordered == 2 ? here : row] = differs;
    });
}

// The first row of each run of equal ones, and its length: those rows of `order` are kept. Each one
// writes the length of the previous run.
template <class W>
__global__ void __launch_bounds__(256)
sort_runs(const W* __restrict__ values, const int64* __restrict__ order, const bool* __restrict__ kept,
          const Kept* __restrict__ tiles, const int64* __restrict__ offsets, int64 segments, int64 rows,
          int64 height, int64* __restrict__ bounds, W* __restrict__ out, int64* __restrict__ counts) {
    const auto place = [=](const Chunk& chunk, int64 first, int count, Kept above) {
        for (int row = threadIdx.x; row <= count; row += KEPT_THREADS) {
            const bool is_end = first + row == rows;
            if (!is_end && (row == count || !chunk.keeps(row))) continue;
            const int64 run = above.count + (row < CHUNK ? chunk.before(row) : chunk.count);
            const int last = chunk.last(row);
            if (!is_end) out[run] = values[order[first + row]];
            if (run) counts[run - 1] = first + row - (last < 0 ? above.last : first + last);
        }
    };
    __shared__ Chunk marks;
    place_rows(kept, tiles, offsets, segments, rows, height, bounds, marks, place);
}

// The first row of each tile that is smaller than the previous one of its segment.
template <class W, int KIND>
__global__ void __launch_bounds__(256)
sort_falls(const W* __restrict__ values, const int64* __restrict__ offsets, int64 segments, uint64 infinity,
           int64 rows, int64 height, int64* __restrict__ firsts) {
    __shared__ uint64 first;
    first_of_tile(rows, height, firsts, first, [=](int64 row) {
        return row && rank_of<W, KIND>(values[row], (W)infinity) < rank_of<W, KIND>(values[row - 1], (W)infinity) &&
               offsets[segment_of(offsets, segments, row)] != row;
    });
}

// The insertion points of values in the corresponding sorted segment: left or right of equal
// values.
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

// Histogram (segments, bins) of values between edges: the last bin includes its upper edge.
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
