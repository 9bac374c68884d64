// Attention inside every segment. See attention.py.
//
// A block processes a tile of rows of one segment and head, and iterates over the rows of the other
// side tile by tile (attention_exact.cuh, attention_rounded.cuh). Scores are not stored: the
// softmax of a query is rescaled online as its maximum grows (as in FlashAttention), and gradients
// recompute scores from the log-sum-exp of each query. If queries are few and their keys many,
// several blocks share the keys, and another kernel joins their results in order: results are
// deterministic. Memory is independent of segments times the longest, and no score matrix is
// stored.
//
// Causal tiles on the diagonal multiply masked values by 0, which turns NaN and infinity into NaN.
// Rows with non-finite results are recomputed from visible rows only.
#include "attention_exact.cuh"
#include "attention_rounded.cuh"

enum { QUERY, KEY };

// The shared memory of the block; attention_cupy.py computes its size.
extern __shared__ __align__(16) unsigned char shared[];

template <class A, int LANES> __device__ __forceinline__ A row_sum(A value) {
#pragma unroll
    for (int bit = LANES / 2; bit; bit /= 2) value += __shfl_xor_sync(0xffffffffu, value, bit);
    return value;
}
template <class A, int LANES> __device__ __forceinline__ A row_max(A value) {
#pragma unroll
    for (int bit = LANES / 2; bit; bit /= 2) {
        const A other = __shfl_xor_sync(0xffffffffu, value, bit);
        if (other > value) value = other;
    }
    return value;
}
template <class A> __device__ __forceinline__ A lowest();
template <> __device__ __forceinline__ float lowest<float>() { return __uint_as_float(0xff800000u); }
template <> __device__ __forceinline__ double lowest<double>() { return __longlong_as_double((int64)0xfff0000000000000ull); }

// Position of a block: its own rows from `first` on, of `count` in a segment, and `others` on the
// other side. `align`: 0 every query sees all keys; 1 keys up to its own index; 2 the last query is
// aligned with the last key.
struct Place {
    int64 head, own, other;  // the segment's first rows
    int first, count, others;
    int64 align;

    __device__ __forceinline__ Place(const int64* own_offsets, const int64* other_offsets, const int64* tiles,
                                     int64 segments, int64 high, int64 align, int64 block)
        : head(blockIdx.y), align(align) {
        const int64 segment = segment_of(tiles, segments, block);
        own = own_offsets[segment];
        other = other_offsets[segment];
        count = (int)(own_offsets[segment + 1] - own);
        others = (int)(other_offsets[segment + 1] - other);
        first = (int)((block - tiles[segment]) * high);
    }

    // The first key that query i does not see, and the first query that sees key i.
    __device__ __forceinline__ int end_of(int i) const {
        if (i >= count) return 0;
        const int64 end = align == 0 ? others : (int64)i + 1 + (align == 2 ? others - count : 0);
        return (int)(end < 0 ? 0 : end < others ? end : others);
    }
    __device__ __forceinline__ int begin_of(int i) const {
        if (i >= count) return others;
        const int64 begin = align == 0 ? 0 : (int64)i - (align == 2 ? count - others : 0);
        return (int)(begin < 0 ? 0 : begin < others ? begin : others);
    }
    template <class T>
    __device__ __forceinline__ HeadRows<T> mine(const T* data, int64 heads, int64 width) const {
        return HeadRows<T>(data, own + first, count - first, heads, head, width);
    }
    template <class T>
    __device__ __forceinline__ HeadRows<T> theirs(const T* data, int64 heads, int64 width) const {
        return HeadRows<T>(data, other, others, heads, head, width);
    }
};

// A block of attention(): a tile of queries, and all visible keys or a part of them, from `begin`
// on. The segment's first result goes to row `base`.
template <class Tiles> struct Part {
    int64 keys, block;
    Place at;
    int64 base;
    int begin;

    __device__ __forceinline__ Part(const int64* q_offsets, const int64* k_offsets, const int64* tiles, int64 segments,
                                    int64 align, const int64* parts, int64 keys, int64 most_rows)
        : keys(keys), block(keys ? segment_of(parts, tiles[segments], blockIdx.x) : blockIdx.x),
          at(q_offsets, k_offsets, tiles, segments, Tiles::OWN, align, block),
          base(keys ? blockIdx.x * most_rows - at.first : at.own),
          begin(keys ? (int)((blockIdx.x - parts[block]) * keys) : 0) {}

    // The first key of the block that query i does not see.
    __device__ __forceinline__ int end_of(int i) const {
        const int end = at.end_of(i);
        return keys && end - begin > keys ? begin + (int)keys : end;
    }
};

// Writes the sums of a thread, each row times its factor; the segment's first row goes to row
// `base`. Returns whether all are finite.
template <class Tiles, class Out>
__device__ __forceinline__ bool
write(const Tiles& tiles, const Place& at, typename Tiles::A (&sums)[Tiles::ROWS][Tiles::SUMS],
      const typename Tiles::A (&factors)[Tiles::ROWS], int64 heads, int64 width, Out* out, int64 base) {
    enum { GROUP = Tiles::GROUP };
    typename Tiles::A zero = 0;
    const int64 slab = (int64)blockIdx.z * Tiles::WIDE;
#pragma unroll
    for (int r = 0; r < Tiles::ROWS; r++) {
        const int row = at.first + tiles.row(r);
        if (row >= at.count) continue;
        Out* to = out + ((base + row) * heads + at.head) * width;
#pragma unroll
        for (int e = 0; e < Tiles::SUMS; e += GROUP) {
            const int64 column = slab + tiles.result_column(e);
            Pack<Out, GROUP> values;
#pragma unroll
            for (int c = 0; c < GROUP; c++) {
                const typename Tiles::A value = sums[r][e + c] * factors[r];
                zero += value * 0;
                values.at[c] = as<Out, typename Tiles::A>(value);
            }
            if (width % GROUP == 0) {
                if (column < width) store(to + column, values);
            } else {
#pragma unroll
                for (int c = 0; c < GROUP; c++)
                    if (column + c < width) to[column + c] = values.at[c];
            }
        }
    }
    return zero == 0;
}

// Recomputes one row by a warp from visible rows only: slow, and independent of Tiles. A lane has
// every 32nd column of the block's slab.
template <class Tiles, class Out> struct RowAgain {
    typedef typename Tiles::T T;
    typedef typename Tiles::A A;
    enum { MINE = Tiles::WIDE / 32 };

    Out* out;  // the row's first value
    int column, width;
    A sums[MINE];

    __device__ __forceinline__ RowAgain(Out* rows, int64 row, const Place& at, int64 heads, int64 width)
        : out(rows + (row * heads + at.head) * width),
          column((int)(blockIdx.z * Tiles::WIDE + threadIdx.x % 32)), width((int)width), sums() {}

    __device__ __forceinline__ bool is_finite() const {
        A zero = (A)0;
#pragma unroll
        for (int e = 0; e < MINE; e++)
            if (column + 32 * e < width) zero += (A)out[column + 32 * e] * (A)0;
        return __all_sync(0xffffffffu, zero == (A)0);
    }
    __device__ __forceinline__ void multiply(A factor) {
#pragma unroll
        for (int e = 0; e < MINE; e++) sums[e] *= factor;
    }
    __device__ __forceinline__ void add(A weight, const HeadRows<T>& rows, int row) {
        const T* from = rows.first + row * rows.stride;
#pragma unroll
        for (int e = 0; e < MINE; e++)
            if (column + 32 * e < width) sums[e] += weight * (A)from[column + 32 * e];
    }
    __device__ __forceinline__ void write(A factor) const {
#pragma unroll
        for (int e = 0; e < MINE; e++)
            if (column + 32 * e < width) out[column + 32 * e] = as<Out, A>(sums[e] * factor);
    }
};

// Dot product of two rows, by a warp.
template <class A, class T, class Other>
__device__ __forceinline__ A product(const HeadRows<T>& one, int row, const HeadRows<Other>& other, int other_row) {
    A sum = (A)0;
    for (int column = threadIdx.x % 32; column < one.width; column += 32)
        sum += (A)one.first[row * one.stride + column] * (A)other.first[other_row * other.stride + column];
    return row_sum<A, 32>(sum);
}

// Recomputes the non-finite results of a block of attention(), from the same arguments. Its
// position is computed again, because keeping it during attention() would cost registers.
template <class Tiles, class Out>
__device__ __forceinline__ void
attend_again(const typename Tiles::T* q, const typename Tiles::T* k, const typename Tiles::T* v, const int64* q_offsets,
             const int64* k_offsets, const int64* tiles, int64 segments, int64 heads, int64 width, int64 value_width,
             double scale_, int64 align, const int64* parts, int64 keys, int64 most_rows, Out* out) {
    typedef typename Tiles::A A;
    const Part<Tiles> part(q_offsets, k_offsets, tiles, segments, align, parts, keys, most_rows);
    const Place& at = part.at;
    const HeadRows<typename Tiles::T> own = at.mine(q, heads, width), others = at.theirs(k, heads, width);
    const HeadRows<typename Tiles::T> values = at.theirs(v, heads, value_width);
    const A scale = (A)scale_ * Tiles::unit();
#pragma unroll 1
    for (int row = threadIdx.x / 32; row < Tiles::OWN && row < own.count; row += Tiles::THREADS / 32) {
        RowAgain<Tiles, Out> again(out, part.base + at.first + row, at, heads, value_width);
        if (again.is_finite()) continue;
        const int end = part.end_of(at.first + row);
        A top = lowest<A>(), total = (A)0;
        // Once the sum of exponentials is NaN, all sums stay NaN.
#pragma unroll 1
        for (int key = part.begin; key < end && total == total; key++) {
            const A score = product<A>(own, row, others, key) * scale;
            if (score > top) {
                const A factor = Tiles::power(top - score);
                total *= factor;
                again.multiply(factor);
                top = score;
            }
            const A power = Tiles::power(score - (top == lowest<A>() ? (A)0 : top));
            total += power;
            again.add(power, values, key);
        }
        again.write(end <= part.begin ? (A)0 : (A)1 / total);
    }
}

// The result, and the log-sum-exp of each query. The grid is (tiles of queries, heads, slabs of
// columns); `tiles` are the offsets of the tiles of each segment. With `parts`, the offsets of each
// tile's parts of `keys` keys, it is (parts, ..), and the results of part p, over its keys only, go
// to row p * `most_rows` and following.
template <class Tiles, class Out>
__global__ void __launch_bounds__(Tiles::THREADS, Tiles::BLOCKS)
attention(const typename Tiles::T* __restrict__ q, const typename Tiles::T* __restrict__ k,
          const typename Tiles::T* __restrict__ v, const int64* __restrict__ q_offsets,
          const int64* __restrict__ k_offsets, const int64* __restrict__ tiles, int64 segments,
          int64 heads, int64 width, int64 value_width, double scale_, int64 align,
          const int64* __restrict__ parts, int64 keys, int64 most_rows,
          Out* __restrict__ out, typename Tiles::A* __restrict__ logs) {
    typedef typename Tiles::A A;
    const Part<Tiles> part(q_offsets, k_offsets, tiles, segments, align, parts, keys, most_rows);
    const Place& at = part.at;
    const int begin = part.begin;
    const HeadRows<typename Tiles::T> own[2] = {at.mine(q, heads, width), at.mine(q, heads, width)};
    const HeadRows<typename Tiles::T> others[2] = {at.theirs(k, heads, width), at.theirs(v, heads, value_width)};
    const A scale = (A)scale_ * Tiles::unit();
    Tiles tile(shared, own);
    int ends[Tiles::ROWS];
    A top[Tiles::ROWS], sum[Tiles::ROWS] = {}, sums[Tiles::ROWS][Tiles::SUMS] = {};
#pragma unroll
    for (int r = 0; r < Tiles::ROWS; r++) {
        ends[r] = part.end_of(at.first + tile.row(r));
        top[r] = lowest<A>();
    }
    // No query of the block sees more.
    const int last = at.first + Tiles::OWN < at.count ? at.first + Tiles::OWN : at.count;
    const int end = part.end_of(last - 1);
    tile.begin(others, begin);
#pragma unroll 1
    for (int first = begin; first < end; first += Tiles::OTHERS) {
        tile.turn(others, first + Tiles::OTHERS, first + Tiles::OTHERS < end);
        A s[Tiles::ROWS][Tiles::COLUMNS];
        tile.template scores<0>(s, own, others, first);
#pragma unroll
        for (int r = 0; r < Tiles::ROWS; r++) {
            A here = lowest<A>();
#pragma unroll
            for (int c = 0; c < Tiles::COLUMNS; c++) {
                s[r][c] *= scale;
                if (first + tile.column(c) < ends[r] && s[r][c] > here) here = s[r][c];
            }
            const A before = top[r];
            here = row_max<A, Tiles::ROW_LANES>(here);
            if (here > before) top[r] = here;
            const A factor = before == top[r] ? (A)1 : Tiles::power(before - top[r]);
            // While all scores are -inf, exponentials are 0, not NaN: greater scores may follow.
            const A less = top[r] == lowest<A>() ? (A)0 : top[r];
            sum[r] *= factor;
#pragma unroll
            for (int c = 0; c < Tiles::COLUMNS; c++) {
                s[r][c] = first + tile.column(c) < ends[r] ? Tiles::power(s[r][c] - less) : (A)0;
                sum[r] += s[r][c];
            }
#pragma unroll
            for (int e = 0; e < Tiles::SUMS; e++) sums[r][e] *= factor;
        }
        tile.template gather<1>(s, others, first, (int)(blockIdx.z * Tiles::WIDE), sums);
    }
#pragma unroll
    for (int r = 0; r < Tiles::ROWS; r++) {
        const A total = row_sum<A, Tiles::ROW_LANES>(sum[r]);
        const int row = at.first + tile.row(r);
        if (row < at.count && tile.column(0) == 0 && blockIdx.z == 0)
            logs[(part.base + row) * heads + at.head] = top[r] + Tiles::logarithm(total);
        // NaN where all scores are -inf; 0 where there are none.
        sum[r] = total == (A)0 && ends[r] <= begin ? (A)0 : (A)1 / total;
    }
    const bool finite = write(tile, at, sums, sum, heads, value_width, out, part.base);
    if (align && __syncthreads_or(!finite))
        attend_again<Tiles>(q, k, v, q_offsets, k_offsets, tiles, segments, heads, width, value_width, scale_,
                            align, parts, keys, most_rows, out);
}

// Joins the results of parts of the keys to the result and log-sum-exp of each query, weighted by
// their sums of exponentials. The grid is (queries, heads).
template <class Tiles, class Out>
__global__ void __launch_bounds__(128)
attention_joined(const typename Tiles::A* __restrict__ results, const typename Tiles::A* __restrict__ part_logs,
                 const int64* __restrict__ q_offsets, const int64* __restrict__ tiles,
                 const int64* __restrict__ parts, int64 segments, int64 heads, int64 width, int64 most_rows,
                 Out* __restrict__ out, typename Tiles::A* __restrict__ logs) {
    typedef typename Tiles::A A;
    const int64 row = blockIdx.x, head = blockIdx.y, segment = segment_of(q_offsets, segments, row);
    const int64 place = row - q_offsets[segment], tile = tiles[segment] + place / Tiles::OWN;
    const int64 first = (parts[tile] * most_rows + place % Tiles::OWN) * heads + head, apart = most_rows * heads;
    const int64 count = parts[tile + 1] - parts[tile];
    A top = lowest<A>(), total = (A)0;
    for (int64 part = 0; part < count; part++) {
        const A log = part_logs[first + part * apart];
        if (log > top) top = log;
    }
    // The log-sum-exp is minimal for a part with no visible key, or only scores of -inf: its
    // results, 0 or NaN, count only if all parts are like that.
    const auto share = [&](int64 part) {
        const A log = part_logs[first + part * apart];
        return log == lowest<A>() ? (A)0 : Tiles::power(log - top);
    };
    for (int64 part = 0; part < count; part++) total += share(part);
    if (threadIdx.x == 0) logs[row * heads + head] = top + Tiles::logarithm(total);
    const A factor = total == (A)0 ? (A)1 : (A)1 / total;
    for (int64 column = threadIdx.x; column < width; column += blockDim.x) {
        A sum = (A)0;
#pragma unroll 4
        for (int64 part = 0; part < count; part++) {
            const A weight = total == (A)0 ? (A)1 : share(part);
            if (weight != (A)0) sum += weight * results[(first + part * apart) * width + column];
        }
        out[(row * heads + head) * width + column] = as<Out, A>(sum * factor);
    }
}

// Recomputes the non-finite gradients of a block of attention_grad(), from the same arguments.
template <class Tiles, int OF, class Out>
__device__ __forceinline__ void
differentiate_again(const typename Tiles::T* own_rows, const typename Tiles::T* own_values,
                    const typename Tiles::T* other_rows, const typename Tiles::T* other_values,
                    const int64* own_offsets, const int64* other_offsets, const int64* tiles, int64 segments, int64 heads,
                    int64 width, int64 value_width, double scale_, int64 align, const Out* result,
                    const typename Tiles::A* logs, const typename Tiles::A* deltas, Out* out, Out* out_values) {
    typedef typename Tiles::A A;
    typedef HeadRows<typename Tiles::T> Rows;
    const Place at(own_offsets, other_offsets, tiles, segments, Tiles::OWN, align, blockIdx.x);
    const Rows own[2] = {at.mine(own_rows, heads, width), at.mine(own_values, heads, value_width)};
    const Rows others[2] = {at.theirs(other_rows, heads, width), at.theirs(other_values, heads, value_width)};
    const HeadRows<Out> results = at.mine(result, heads, value_width);
    const A scale = (A)scale_ * Tiles::unit();
#pragma unroll 1
    for (int row = threadIdx.x / 32; row < Tiles::OWN && row < own[0].count; row += Tiles::THREADS / 32) {
        const int64 place = at.own + at.first + row;
        RowAgain<Tiles, Out> again(out, place, at, heads, width);
        RowAgain<Tiles, Out> values(out_values, place, at, heads, OF == KEY ? value_width : 0);
        if (again.is_finite() && values.is_finite()) continue;
        const int begin = OF == KEY ? at.begin_of(at.first + row) : 0;
        const int end = OF == KEY ? at.others : at.end_of(at.first + row);
        const A own_delta = OF == KEY ? (A)0 : product<A>(own[1], row, results, row);
#pragma unroll 1
        for (int other = begin; other < end; other++) {
            const int64 query = (OF == KEY ? at.other + other : place) * heads + at.head;
            const A power = Tiles::power(product<A>(own[0], row, others[0], other) * scale - logs[query]);
            const A flow = product<A>(own[1], row, others[1], other);
            const A change = power * (flow - (OF == KEY ? deltas[query] : own_delta));
            if constexpr (OF == KEY) values.add(power, others[1], other);
            again.add(change, others[0], other);
            // Once a factor is NaN, all sums stay NaN.
            if (OF == KEY ? power != power : change != change) break;
        }
        again.write((A)scale_);
        if constexpr (OF == KEY) values.write((A)1);
    }
}

// Gradients: either of the queries of a block, from `own` q and upstream gradient and the others' k
// and v; or of its keys and values, from `own` k and v and the others' q and upstream gradient.
// `deltas` are, per query, the dot product of result and gradient: written by the kernel of the
// queries, read by that of the keys.
template <class Tiles, class Out, int OF>
__global__ void __launch_bounds__(Tiles::THREADS, Tiles::BLOCKS)
attention_grad(const typename Tiles::T* __restrict__ own_rows, const typename Tiles::T* __restrict__ own_values,
               const typename Tiles::T* __restrict__ other_rows, const typename Tiles::T* __restrict__ other_values,
               const int64* __restrict__ own_offsets, const int64* __restrict__ other_offsets,
               const int64* __restrict__ tiles, int64 segments, int64 heads, int64 width,
               int64 value_width, double scale_, int64 align, const Out* __restrict__ result,
               const typename Tiles::A* __restrict__ logs, typename Tiles::A* __restrict__ deltas,
               Out* __restrict__ out, Out* __restrict__ out_values) {
    typedef typename Tiles::A A;
    const Place at(own_offsets, other_offsets, tiles, segments, Tiles::OWN, align, blockIdx.x);
    const HeadRows<typename Tiles::T> own[2] = {at.mine(own_rows, heads, width), at.mine(own_values, heads, value_width)};
    const HeadRows<typename Tiles::T> others[2] = {at.theirs(other_rows, heads, width), at.theirs(other_values, heads, value_width)};
    const A scale = (A)scale_ * Tiles::unit();
    const int slab = (int)(blockIdx.z * Tiles::WIDE);
    Tiles tile(shared, own);
    int begins[Tiles::ROWS], ends[Tiles::ROWS];
    A own_log[Tiles::ROWS], own_delta[Tiles::ROWS], factors[Tiles::ROWS], ones[Tiles::ROWS];
    A sums[Tiles::ROWS][Tiles::SUMS] = {}, value_sums[OF == KEY ? Tiles::ROWS : 1][Tiles::SUMS] = {};
#pragma unroll
    for (int r = 0; r < Tiles::ROWS; r++) {
        const int row = at.first + tile.row(r);
        begins[r] = OF == KEY ? at.begin_of(row) : 0;
        ends[r] = OF == KEY ? at.others : at.end_of(row);
        const bool there = OF == QUERY && row < at.count;
        own_log[r] = there ? logs[(at.own + row) * heads + at.head] : (A)0;
        own_delta[r] = (A)0;
        factors[r] = (A)scale_;
        ones[r] = (A)1;
        if constexpr (OF == QUERY) {
            const int64 place = (at.own + row) * heads + at.head;
            const typename Tiles::T* flow = own_values + place * value_width;
            for (int64 c = threadIdx.x % Tiles::ROW_LANES; there && c < value_width; c += Tiles::ROW_LANES)
                own_delta[r] += (A)flow[c] * (A)result[place * value_width + c];
            own_delta[r] = row_sum<A, Tiles::ROW_LANES>(own_delta[r]);
            if (there && tile.column(0) == 0 && slab == 0) deltas[place] = own_delta[r];
        }
    }
    const int last = at.first + Tiles::OWN < at.count ? at.first + Tiles::OWN : at.count;
    const int end = OF == KEY ? at.others : at.end_of(last - 1);
    const int begin = OF == KEY ? at.begin_of(at.first) / Tiles::OTHERS * Tiles::OTHERS : 0;
    tile.begin(others, begin);
#pragma unroll 1
    for (int first = begin; first < end; first += Tiles::OTHERS) {
        tile.turn(others, first + Tiles::OTHERS, first + Tiles::OTHERS < end);
        A s[Tiles::ROWS][Tiles::COLUMNS], flow[Tiles::ROWS][Tiles::COLUMNS];
        tile.template scores<0>(s, own, others, first);
        A log[Tiles::COLUMNS], delta[Tiles::COLUMNS];
#pragma unroll
        for (int c = 0; c < Tiles::COLUMNS; c++) {
            const int column = first + tile.column(c);
            const bool there = OF == KEY && column < at.others;
            log[c] = there ? logs[(at.other + column) * heads + at.head] : (A)0;
            delta[c] = there ? deltas[(at.other + column) * heads + at.head] : (A)0;
        }
#pragma unroll
        for (int r = 0; r < Tiles::ROWS; r++)
#pragma unroll
            for (int c = 0; c < Tiles::COLUMNS; c++) {
                const int column = first + tile.column(c);
                s[r][c] = column >= begins[r] && column < ends[r]
                    ? Tiles::power(s[r][c] * scale - (OF == KEY ? log[c] : own_log[r])) : (A)0;
            }
        if constexpr (OF == KEY) tile.template gather<1>(s, others, first, slab, value_sums);
        tile.template scores<1>(flow, own, others, first);
#pragma unroll
        for (int r = 0; r < Tiles::ROWS; r++)
#pragma unroll
            for (int c = 0; c < Tiles::COLUMNS; c++) s[r][c] *= flow[r][c] - (OF == KEY ? delta[c] : own_delta[r]);
        tile.template gather<0>(s, others, first, slab, sums);
    }
    bool finite = write(tile, at, sums, factors, heads, width, out, at.own);
    if constexpr (OF == KEY) finite &= write(tile, at, value_sums, ones, heads, value_width, out_values, at.own);
    if (align && __syncthreads_or(!finite))
        differentiate_again<Tiles, OF>(own_rows, own_values, other_rows, other_values, own_offsets, other_offsets, tiles,
                                       segments, heads, width, value_width, scale_, align, result, logs, deltas, out,
                                       out_values);
}
