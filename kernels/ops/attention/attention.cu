// Attention inside every segment. See attention.py.
//
// A block is (32, 8): eight rows of one segment and head, a warp each, against the rows of the
// other side, 32 at a time, a lane each. Products are taken 32 columns at a time out of shared
// memory. No scores are kept: the gradients work them out again, from the logarithm of each
// query's sum. Neither the number of segments times the longest nor a matrix of scores is held.
#include "types.cuh"

enum { LANES = 32, OWN = 8 };
enum { QUERY, KEY, VALUE };

template <class A> struct Shared {
    A mine[OWN][LANES];
    A theirs[LANES][LANES + 1];
};

template <class A> __device__ __forceinline__ A warp_sum(A value) {
    for (int bit = LANES / 2; bit; bit /= 2) value += __shfl_xor_sync(0xffffffffu, value, bit);
    return value;
}
template <class A> __device__ __forceinline__ A warp_max(A value) {
    for (int bit = LANES / 2; bit; bit /= 2) {
        const A other = __shfl_xor_sync(0xffffffffu, value, bit);
        if (other > value) value = other;
    }
    return value;
}
__device__ __forceinline__ float power(float value) { return expf(value); }
__device__ __forceinline__ double power(double value) { return exp(value); }
__device__ __forceinline__ float logarithm(float value) { return logf(value); }
__device__ __forceinline__ double logarithm(double value) { return log(value); }
template <class A> __device__ __forceinline__ A lowest();
template <> __device__ __forceinline__ float lowest<float>() { return __uint_as_float(0xff800000u); }
template <> __device__ __forceinline__ double lowest<double>() { return __longlong_as_double((int64)0xfff0000000000000ull); }

// Columns `from` and on of up to 32 rows, zeros beyond them. All threads of the block take part.
template <class A>
__device__ __forceinline__ void fetch(const A* rows, int64 count, int64 stride, int64 width, int64 from, Shared<A>& at) {
    const int64 column = from + threadIdx.x;
    for (int j = threadIdx.y; j < LANES; j += OWN)
        at.theirs[j][threadIdx.x] = j < count && column < width ? rows[j * stride + column] : (A)0;
}

// The product of the warp's own row with the lane's of the others.
template <class A>
__device__ __forceinline__ A product(const A* own, bool there, const A* others, int64 count, int64 stride, int64 width, Shared<A>& at) {
    A sum = (A)0;
    for (int64 from = 0; from < width; from += LANES) {
        const int64 column = from + threadIdx.x;
        __syncthreads();
        at.mine[threadIdx.y][threadIdx.x] = there && column < width ? own[column] : (A)0;
        fetch(others, count, stride, width, from, at);
        __syncthreads();
        for (int i = 0; i < LANES; i++) sum += at.mine[threadIdx.y][i] * at.theirs[threadIdx.x][i];
    }
    return sum;
}

// Adds the others' rows, each by the weight that its lane has: 32 columns a part, `from` and on.
template <class A, int PARTS>
__device__ __forceinline__ void gather(A weight, const A* others, int64 count, int64 stride, int64 width, int64 from, A (&sums)[PARTS], Shared<A>& at) {
    __syncthreads();
    at.mine[threadIdx.y][threadIdx.x] = weight;
    for (int part = 0; part < PARTS; part++) {
        if (part) __syncthreads();
        fetch(others, count, stride, width, from + part * LANES, at);
        __syncthreads();
        for (int j = 0; j < LANES; j++) sums[part] += at.mine[threadIdx.y][j] * at.theirs[j][threadIdx.x];
    }
}

// Whether query i of n sees key j of m. `align`: 0 all, 1 up to its own number, 2 the last
// query's own is the last key.
__device__ __forceinline__ bool sees(int64 i, int64 n, int64 j, int64 m, int64 align) {
    return align == 0 || j <= i + (align == 2 ? m - n : 0);
}

// The result, and of each query the logarithm of its sum of powers. The grid is (tiles of eight
// queries, heads, slabs of columns); `tiles` are the offsets of those of each segment.
template <class A, int PARTS>
__global__ void __launch_bounds__(256, 2)
attention(const A* __restrict__ q, const A* __restrict__ k, const A* __restrict__ v,
          const int64* __restrict__ q_offsets, const int64* __restrict__ k_offsets,
          const int64* __restrict__ tiles, int64 segments, int64 heads, int64 width,
          int64 value_width, double scale, int64 align, A* __restrict__ out,
          A* __restrict__ logs) {
    __shared__ Shared<A> at;
    const int64 segment = segment_of(tiles, segments, blockIdx.x), head = blockIdx.y;
    const int64 n = q_offsets[segment + 1] - q_offsets[segment];
    const int64 m = k_offsets[segment + 1] - k_offsets[segment];
    const int64 i = ((int64)blockIdx.x - tiles[segment]) * OWN + threadIdx.y;
    const int64 query = q_offsets[segment] + i, from = (int64)blockIdx.z * PARTS * LANES;
    const A* own = q + (query * heads + head) * width;
    A top = lowest<A>(), sum = (A)0, sums[PARTS] = {};
    for (int64 j = 0; j < m; j += LANES) {
        // No query of the block sees more: the same for all of its threads.
        if (!sees(i - threadIdx.y + OWN - 1, n, j, m, align)) break;
        const int64 key = k_offsets[segment] + j, count = m - j;
        const A score = product(own, i < n, k + (key * heads + head) * width, count, heads * width, width, at) * (A)scale;
        const bool seen = i < n && threadIdx.x < count && sees(i, n, j + threadIdx.x, m, align);
        const A before = top, here = warp_max(seen ? score : lowest<A>());
        if (here > top) top = here;
        const A weight = seen ? power(score - top) : (A)0;
        const A factor = before == top ? (A)1 : power(before - top);
        sum = sum * factor + warp_sum(weight);
        for (int part = 0; part < PARTS; part++) sums[part] *= factor;
        gather<A, PARTS>(weight, v + (key * heads + head) * value_width, count, heads * value_width, value_width, from, sums, at);
    }
    if (i >= n) return;
    for (int part = 0; part < PARTS; part++) {
        const int64 column = from + part * LANES + threadIdx.x;
        if (column < value_width)
            out[(query * heads + head) * value_width + column] = sum == (A)0 ? (A)0 : sums[part] / sum;
    }
    if (threadIdx.x == 0 && blockIdx.z == 0) logs[query * heads + head] = top + logarithm(sum);
}

// A gradient: for the queries, each of eight against the keys; for keys and values, each of eight
// keys against the queries. `own` and `others` give the scores, `own_flow` and `other_flow` (one
// of them the values, the other the gradient of the result) those of the weights; `gathered` are
// rows of the others' side that are added up. `deltas` are, of each query, result times gradient.
template <class A, int PARTS, int OF>
__global__ void __launch_bounds__(256, 2)
attention_grad(const A* __restrict__ own, const A* __restrict__ others,
               const A* __restrict__ own_flow, const A* __restrict__ other_flow,
               const A* __restrict__ gathered, const int64* __restrict__ own_offsets,
               const int64* __restrict__ other_offsets, const int64* __restrict__ tiles,
               int64 segments, int64 heads, int64 width, int64 value_width, int64 gathered_width,
               double scale, int64 align, const A* __restrict__ logs,
               const A* __restrict__ deltas, A* __restrict__ out) {
    __shared__ Shared<A> at;
    const int64 segment = segment_of(tiles, segments, blockIdx.x), head = blockIdx.y;
    const int64 n = own_offsets[segment + 1] - own_offsets[segment];
    const int64 m = other_offsets[segment + 1] - other_offsets[segment];
    const int64 i = ((int64)blockIdx.x - tiles[segment]) * OWN + threadIdx.y;
    const int64 row = own_offsets[segment] + i, from = (int64)blockIdx.z * PARTS * LANES;
    A sums[PARTS] = {};
    for (int64 j = 0; j < m; j += LANES) {
        const int64 first = other_offsets[segment] + j, count = m - j;
        const A score = product(own + (row * heads + head) * width, i < n, others + (first * heads + head) * width, count, heads * width, width, at) * (A)scale;
        const bool pair = i < n && threadIdx.x < count;
        const bool seen = pair && (OF == QUERY ? sees(i, n, j + threadIdx.x, m, align)
                                               : sees(j + threadIdx.x, m, i, n, align));
        const int64 query = (OF == QUERY ? row : first + threadIdx.x) * heads + head;
        A weight = seen ? power(score - logs[query]) : (A)0;
        if (OF != VALUE) {
            const A flow = product(own_flow + (row * heads + head) * value_width, i < n, other_flow + (first * heads + head) * value_width, count, heads * value_width, value_width, at);
            weight = seen ? weight * (flow - deltas[query]) * (A)scale : (A)0;
        }
        gather<A, PARTS>(weight, gathered + (first * heads + head) * gathered_width, count, heads * gathered_width, gathered_width, from, sums, at);
    }
    if (i >= n) return;
    for (int part = 0; part < PARTS; part++) {
        const int64 column = from + part * LANES + threadIdx.x;
        if (column < gathered_width) out[(row * heads + head) * gathered_width + column] = sums[part];
    }
}
