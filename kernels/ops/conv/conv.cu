// Convolutions over the rows of each segment. See conv.py.
#include "last_block.cuh"

// The context of each computed row: (rows, length, width), for a matrix product. Rows `first_row`
// and following are written; `kept` are the offsets of the computed rows, every stride-th one of
// each segment. A block is (columns, units); a unit walks down the rows of a tile. Resets the
// counts of arrivals for conv_grad_rows.
template <class T>
__global__ void __launch_bounds__(256, 2)
conv_context(const T* __restrict__ data, const int64* __restrict__ offsets,
             const int64* __restrict__ kept, int64 segments, int64 first_row, int64 rows,
             int64 width, int64 length, int64 start, int64 stride, int64 height,
             const T* __restrict__ padding, int64 has_padding, T* __restrict__ out,
             unsigned* __restrict__ arrivals, int64 counts) {
    no_arrivals(arrivals, counts);
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = first_row + unit * height;
    if (top >= first_row + rows || column >= width) return;
    const int64 bottom = min(top + height, first_row + rows);
    const int64 up = start < 0 ? -start : 0;
    int64 segment = segment_of(kept, segments, top);
    for (int64 row = top; row < bottom; row++) {
        segment = segment_after(kept, segments, segment, row);
        const int64 begin = offsets[segment], last = offsets[segment + 1] - 1;
        int64 source = begin + stride * (row - kept[segment]) + start;
        T* to = out + (row - first_row) * length * width + column;
        for (int64 k = 0; k < length; k++, source++, to += width) {
            if (source >= begin && source <= last) *to = data[source * width + column];
            else if (!has_padding) *to = T();
            else *to = padding[(source < begin ? up - (begin - source) : up + source - last - 1) * width + column];
        }
    }
}

// The gradient of the rows: each gathers the gradients of the contexts that contain it.
template <class T>
__device__ __forceinline__ void
grad_of_rows(const T* __restrict__ grad, const int64* __restrict__ offsets, const int64* __restrict__ kept,
             int64 segments, int64 rows, int64 width, int64 column, int64 length, int64 start,
             int64 stride, int64 height, T* __restrict__ out) {
    const int64 top = ((int64)blockIdx.x * blockDim.y + threadIdx.y) * height;
    if (top >= rows || column >= width) return;
    const int64 bottom = min(top + height, rows);
    int64 segment = segment_of(offsets, segments, top);
    for (int64 row = top; row < bottom; row++) {
        segment = segment_after(offsets, segments, segment, row);
        const int64 count = kept[segment + 1] - kept[segment];
        T sum = T();
        for (int64 k = 0; k < length; k++) {
            const int64 ahead = row - offsets[segment] - start - k;
            if (ahead < 0 || ahead % stride || ahead / stride >= count) continue;
            sum += grad[((kept[segment] + ahead / stride) * length + k) * width + column];
        }
        out[row * width + column] = sum;
    }
}

// Contribution of the segments of a tile to the gradient of a padding row.
template <class T>
__device__ __forceinline__ T
grad_of_padding(const T* __restrict__ grad, const int64* __restrict__ offsets, const int64* __restrict__ kept,
                int64 top, int64 bottom, int64 row, int64 width, int64 column, int64 length, int64 start,
                int64 stride) {
    const int64 up = start < 0 ? -start : 0;
    T sum = T();
    for (int64 segment = top; segment < bottom; segment++) {
        const int64 count = kept[segment + 1] - kept[segment];
        // Position of the padding row relative to the segment's first row.
        const int64 at = row < up ? row - up : offsets[segment + 1] - offsets[segment] + row - up;
        for (int64 k = 0; k < length; k++) {
            const int64 ahead = at - start - k;
            if (ahead < 0 || ahead % stride || ahead / stride >= count) continue;
            sum += grad[((kept[segment] + ahead / stride) * length + k) * width + column];
        }
    }
    return sum;
}

// Both gradients. Blocks after the `tiled` ones of the rows process `part_height` segments per
// unit; the last of these blocks sums their results, (blocks, extra, width). Arrivals start at 0.
template <class T>
__global__ void __launch_bounds__(256, 2)
conv_grad_rows(const T* __restrict__ grad, const int64* __restrict__ offsets,
               const int64* __restrict__ kept, int64 segments, int64 rows, int64 width,
               int64 length, int64 start, int64 stride, int64 height, T* __restrict__ out, int64 tiled,
               int64 extra, int64 part_height, T* __restrict__ parts, unsigned* __restrict__ arrivals,
               T* __restrict__ of_padding) {
    __shared__ Pack<T, 1> meeting[256];
    __shared__ bool last;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    if (blockIdx.x < tiled)
        return grad_of_rows(grad, offsets, kept, segments, rows, width, column, length, start, stride, height, out);
    const int64 block = blockIdx.x - tiled, blocks = gridDim.x - tiled;
    const int64 top = min((block * blockDim.y + threadIdx.y) * part_height, segments);
    const int64 bottom = column < width ? min(top + part_height, segments) : top;
    for (int64 row = 0; row < extra; row++) {
        Pack<T, 1> sum = {
            {grad_of_padding(grad, offsets, kept, top, bottom, row, width, column, length, start, stride)}};
        sum_of_units(sum, meeting);
        if (threadIdx.y == 0 && column < width) parts[(block * extra + row) * width + column] = sum.at[0];
    }
    if (!is_last_block(arrivals + blockIdx.y, (unsigned)blocks, last)) return;
    sum_of_blocks(parts, blocks, extra * width, column, width, extra, column < width, meeting, of_padding);
}

// Every row plus the following (step 1) or previous (step -1) ones, weighted by column. Resets the
// counts of arrivals for row_conv_grad_weight.
template <class T>
__global__ void __launch_bounds__(256, 2)
row_conv(const T* __restrict__ data, const int64* __restrict__ offsets, int64 segments, int64 rows,
         int64 width, const T* __restrict__ weight, int64 length, int64 step, int64 height,
         T* __restrict__ out, unsigned* __restrict__ arrivals, int64 counts) {
    no_arrivals(arrivals, counts);
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * height;
    if (top >= rows || column >= width) return;
    const int64 bottom = min(top + height, rows);
    int64 segment = segment_of(offsets, segments, top);
    for (int64 row = top; row < bottom; row++) {
        segment = segment_after(offsets, segments, segment, row);
        const int64 left = step > 0 ? offsets[segment + 1] - row : row - offsets[segment] + 1;
        T sum = T();
        for (int64 k = 0; k < min(length, left); k++)
            sum += weight[k * width + column] * data[(row + k * step) * width + column];
        out[row * width + column] = sum;
    }
}

// The gradient of the weight, (length, width): the last block sums the partial sums of all blocks,
// (blocks, length, width). Arrivals start at 0.
template <class T>
__global__ void __launch_bounds__(256, 2)
row_conv_grad_weight(const T* __restrict__ grad, const T* __restrict__ data,
                     const int64* __restrict__ offsets, int64 segments, int64 rows, int64 width,
                     int64 length, int64 height, T* __restrict__ parts, unsigned* __restrict__ arrivals,
                     T* __restrict__ out) {
    enum { AT_ONCE = 8 };
    __shared__ Pack<T, 1> meeting[256];
    __shared__ bool last;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = min(((int64)blockIdx.x * blockDim.y + threadIdx.y) * height, rows);
    const int64 bottom = column < width ? min(top + height, rows) : top;
    const int64 topmost = top < bottom ? segment_of(offsets, segments, top) : 0;
    for (int64 first = 0; first < length; first += AT_ONCE) {
        Pack<T, 1> sums[AT_ONCE] = {};
        int64 segment = topmost;
        for (int64 row = top; row < bottom; row++) {
            segment = segment_after(offsets, segments, segment, row);
            const int64 count = min(length, offsets[segment + 1] - row) - first;
            const T flow = grad[row * width + column];
#pragma unroll
            for (int i = 0; i < AT_ONCE; i++)
                if (i < count) sums[i].at[0] += flow * data[(row + first + i) * width + column];
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (first + i >= length) break;
            sum_of_units(sums[i], meeting);
            const int64 place = (blockIdx.x * length + first + i) * width + column;
            if (threadIdx.y == 0 && column < width) parts[place] = sums[i].at[0];
        }
    }
    if (!is_last_block(arrivals + blockIdx.y, gridDim.x, last)) return;
    sum_of_blocks(parts, (int64)gridDim.x, length * width, column, width, length, column < width, meeting, out);
}
