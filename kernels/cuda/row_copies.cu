// Copies whole rows as words of W. See row_copies.py.
#include "row_partition.cuh"

// Run k of the result, rows to[k] - first .. of it, comes from rows start[k], start[k] + step, ..
// of the data; `step` is 1, -1 or 0. A block is (words, units); a unit walks down the rows of a
// tile and looks up its run once. Tiles cover the `rows` of all runs, concatenated; `place` is the
// position of run k in the result (the same, unless there are gaps between runs).
template <class W>
__global__ void __launch_bounds__(256)
move_runs(const W* __restrict__ data, const int64* __restrict__ start, int64 step,
          const int64* __restrict__ walk, const int64* __restrict__ place, int64 runs, int64 rows,
          int64 words, int64 height, W* __restrict__ out) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 word = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * height;
    if (top >= rows || word >= words) return;
    const int64 bottom = min(top + height, rows);
    int64 run = segment_of(walk, runs, top);
    for (int64 row = top; row < bottom;) {
        const int64 begin = walk[run], end = min(walk[run + 1], bottom);
        int64 from = start[run] + (row - begin) * step, to = place[run] + row - begin;
        // Several loads are in flight before the first is used.
#pragma unroll 4
        for (; row < end; row++, from += step, to++)
            out[to * words + word] = data[from * words + word];
        if (row < bottom) run = segment_after(walk, runs, run, row);
    }
}

// Inputs and their interleaved rows: segment 0 of every input, then segment 1 of every input, and
// so on. `table` has the addresses of the inputs' rows, then of their offsets; BACK copies to the
// inputs. A block is (words, units); the third axis of the grid is the input.
template <class W, int BACK>
__global__ void __launch_bounds__(256)
concat_rows(const int64* __restrict__ table, int64 inputs, int64 segments, int64 words, int64 height,
            int64 dealt, W* all) {
    enum { BURST = 4 };
    const int64* const* index = (const int64* const*)(table + inputs);
    const int64 word = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    if (word >= words) return;
    for (int64 input = blockIdx.z; input < inputs; input += gridDim.z) {
        const int64* walk = index[input];
        W* part = (W*)table[input] + word;
        // Otherwise, from compute capability 10.0 on, accesses are generic: the address is from a table.
        __builtin_assume(__isGlobal(part));
        const Share share = share_of(walk[segments], height, dealt);
        int64 segment = share.count ? segment_of(walk, segments, share.first) : 0;
        for (int i = 0; i < share.count;) {
            segment = segment_after(walk, segments, segment, share.row(i));
            int64 place = word - walk[segment] * words;
            for (int64 k = 0; k < inputs; k++) place += index[k][segment + (k < input)] * words;
            const int64 left = walk[segment + 1] - share.row(i);
            const int stop = (int)min((int64)share.count, i + (left + share.step - 1) / share.step);
            const W* from = BACK ? all + place : part;
            W* to = BACK ? part : all + place;
            for (; i < stop; i += BURST) {
                W got[BURST];
#pragma unroll
                for (int k = 0; k < BURST; k++)
                    if (i + k < stop) got[k] = from[share.row(i + k) * words];
#pragma unroll
                for (int k = 0; k < BURST; k++)
                    if (i + k < stop) to[share.row(i + k) * words] = got[k];
            }
            i = stop;
        }
    }
}

// A padded batch (segments, steps): the first rows of each segment, then `fill`: one row if
// `whole`, else a value of the bytes `low` and `high`, repeated.
template <class W>
__global__ void __launch_bounds__(256)
move_pad(const W* __restrict__ data, const int64* __restrict__ offsets, int64 rows, int64 steps,
         int64 words, int64 height, const W* __restrict__ fill, int64 whole,
         uint64 low, uint64 high, W* __restrict__ out) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 word = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * height;
    if (top >= rows || word >= words) return;
    const int64 bottom = min(top + height, rows);
    const W pad = whole ? fill[word] : word_at<W>(low, high, word);
    int64 segment = top / steps, step = top - segment * steps;
    int64 start = offsets[segment], length = offsets[segment + 1] - start;
    for (int64 row = top; row < bottom; row++) {
        out[row * words + word] = step < length ? data[(start + step) * words + word] : pad;
        if (++step == steps && row + 1 < bottom) {
            step = 0;
            segment++;
            start = offsets[segment];
            length = offsets[segment + 1] - start;
        }
    }
}

// The same for rows of a few bytes. Rows are assigned to the units of a block cyclically, not in
// tiles, so that accesses are coalesced.
template <class W>
__global__ void __launch_bounds__(256)
move_narrow_runs(const W* __restrict__ data, const int64* __restrict__ start, int64 step,
                 const int64* __restrict__ walk, const int64* __restrict__ place, int64 runs,
                 int64 rows, int64 words, int64 height, W* __restrict__ out) {
    const int64 word = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = (int64)blockIdx.x * blockDim.y * height;
    int64 row = top + threadIdx.y;
    if (row >= rows || word >= words) return;
    const int64 bottom = min(top + (int64)blockDim.y * height, rows);
    int64 run = segment_of(walk, runs, row);
    for (; row < bottom; row += blockDim.y) {
        run = segment_after(walk, runs, run, row);
        const int64 within = row - walk[run];
        out[(place[run] + within) * words + word] = data[(start[run] + within * step) * words + word];
    }
}

template <class W>
__global__ void __launch_bounds__(256)
move_narrow_pad(const W* __restrict__ data, const int64* __restrict__ offsets, int64 rows, int64 steps,
                int64 words, int64 height, const W* __restrict__ fill, int64 whole,
                uint64 low, uint64 high, W* __restrict__ out) {
    const int64 word = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = (int64)blockIdx.x * blockDim.y * height;
    int64 row = top + threadIdx.y;
    if (row >= rows || word >= words) return;
    const int64 bottom = min(top + (int64)blockDim.y * height, rows);
    // Divided once: a 64-bit division takes about a hundred instructions.
    int64 segment = row / steps, step = row - segment * steps;
    const int across = steps > blockDim.y ? 0 : (int)(blockDim.y / (unsigned)steps);
    const int along = (int)(blockDim.y - across * steps);
    const W pad = whole ? fill[word] : word_at<W>(low, high, word);
    for (; row < bottom; row += blockDim.y) {
        const int64 from = offsets[segment] + step;
        out[row * words + word] = from < offsets[segment + 1] ? data[from * words + word] : pad;
        segment += across;
        step += along;
        if (step >= steps) {
            step -= steps;
            segment++;
        }
    }
}

// The rows of segments from a padded batch (segments, steps), zeros for truncated rows.
template <class W>
__global__ void __launch_bounds__(256)
move_unpad(const W* __restrict__ box, const int64* __restrict__ offsets, int64 segments, int64 rows,
           int64 steps, int64 words, int64 height, int64 dealt, W* __restrict__ out) {
    const int64 word = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const Share share = share_of(rows, height, dealt);
    if (!share.count || word >= words) return;
    int64 segment = segment_of(offsets, segments, share.first);
#pragma unroll 4
    for (int i = 0; i < share.count; i++) {
        const int64 row = share.row(i);
        segment = segment_after(offsets, segments, segment, row);
        const int64 step = row - offsets[segment];
        out[row * words + word] = step < steps ? box[(segment * steps + step) * words + word] : W();
    }
}
