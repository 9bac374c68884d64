// The rows around each row. See conv.py.
#include "types.cuh"

// What surrounds each row that is computed: (rows, length, width), for a matrix product. Rows
// `first_row` and on are written; `kept` are the offsets of those computed, every stride-th one
// of each segment. A block is (columns, units); a unit walks down the rows of a tile.
template <class T>
__global__ void __launch_bounds__(256, 2)
conv_context(const T* __restrict__ data, const int64* __restrict__ offsets,
             const int64* __restrict__ kept, int64 segments, int64 first_row, int64 rows,
             int64 width, int64 length, int64 start, int64 stride, int64 height,
             const T* __restrict__ padding, int64 has_padding, T* __restrict__ out) {
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

// The gradient for the rows: each gathers what it gave to the contexts that it is in.
template <class T>
__global__ void __launch_bounds__(256, 2)
conv_grad_rows(const T* __restrict__ grad, const int64* __restrict__ offsets,
               const int64* __restrict__ kept, int64 segments, int64 rows, int64 width,
               int64 length, int64 start, int64 stride, int64 height, T* __restrict__ out) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * height;
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

// What a tile of segments adds to the gradient of the padding: (units, extra, width).
template <class T>
__global__ void __launch_bounds__(256, 2)
conv_grad_padding(const T* __restrict__ grad, const int64* __restrict__ offsets,
                  const int64* __restrict__ kept, int64 segments, int64 extra, int64 width,
                  int64 length, int64 start, int64 stride, int64 height, T* __restrict__ parts) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * height, up = start < 0 ? -start : 0;
    if (top >= segments || column >= width) return;
    const int64 bottom = min(top + height, segments);
    for (int64 row = 0; row < extra; row++) {
        T sum = T();
        for (int64 segment = top; segment < bottom; segment++) {
            const int64 count = kept[segment + 1] - kept[segment];
            // Where the padding row lies, seen from the segment's first row.
            const int64 at = row < up ? row - up
                                      : offsets[segment + 1] - offsets[segment] + row - up;
            for (int64 k = 0; k < length; k++) {
                const int64 ahead = at - start - k;
                if (ahead < 0 || ahead % stride || ahead / stride >= count) continue;
                sum += grad[((kept[segment] + ahead / stride) * length + k) * width + column];
            }
        }
        parts[(unit * extra + row) * width + column] = sum;
    }
}

// Every row plus those that follow (step 1) or come before (step -1), weighted by column.
template <class T>
__global__ void __launch_bounds__(256, 2)
row_conv(const T* __restrict__ data, const int64* __restrict__ offsets, int64 segments, int64 rows,
         int64 width, const T* __restrict__ weight, int64 length, int64 step, int64 height,
         T* __restrict__ out) {
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

// What a tile of rows adds to the gradient of the weight: (units, length, width).
template <class T>
__global__ void __launch_bounds__(256, 2)
row_conv_grad_weight(const T* __restrict__ grad, const T* __restrict__ data,
                     const int64* __restrict__ offsets, int64 segments, int64 rows, int64 width,
                     int64 length, int64 height, T* __restrict__ parts) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * height;
    if (top >= rows || column >= width) return;
    const int64 bottom = min(top + height, rows);
    const int64 first = segment_of(offsets, segments, top);
    for (int64 k = 0; k < length; k++) {
        T sum = T();
        int64 segment = first;
        for (int64 row = top; row < bottom; row++) {
            segment = segment_after(offsets, segments, segment, row);
            if (k >= offsets[segment + 1] - row) continue;
            sum += grad[row * width + column] * data[(row + k) * width + column];
        }
        parts[(unit * length + k) * width + column] = sum;
    }
}
