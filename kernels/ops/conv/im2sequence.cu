// Windows of images (n, channels, height, width), `below` and `beside` each other. See im2sequence.py.
#include "types.cuh"

// Words of W of the windows, (n, below, beside, channels, high, wide); a thread has one.
template <class W>
__global__ void __launch_bounds__(256)
windows(const W* __restrict__ images, int64 size, int64 channels, int64 height, int64 width, int64 below,
        int64 beside, int64 high, int64 wide, int64 stride_down, int64 stride_right, int64 up, int64 left,
        W* __restrict__ out) {
    const int64 place = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= size) return;
    const int64 columns = channels * high * wide, window = place / columns;
    const unsigned column = (unsigned)(place - window * columns), row = column / (unsigned)wide;
    const int64 image = window / (below * beside);
    const unsigned within = (unsigned)(window - image * below * beside);
    const int64 y = within / (unsigned)beside * stride_down + row % (unsigned)high - up;
    const int64 x = within % (unsigned)beside * stride_right + column % (unsigned)wide - left;
    const int64 channel = image * channels + row / (unsigned)high;
    const bool inside = y >= 0 && y < height && x >= 0 && x < width;
    out[place] = inside ? images[(channel * height + y) * width + x] : W();
}

// The gradient of a value of the images: what went to the windows that it lies in, added up in the order
// of its places there. A value has `parts` numbers, of which a thread has one.
template <class T>
__global__ void __launch_bounds__(256)
windows_grad(const T* __restrict__ rows, int64 size, int64 channels, int64 height, int64 width,
             int64 below, int64 beside, int64 high, int64 wide, int64 stride_down, int64 stride_right,
             int64 up, int64 left, int64 parts, T* __restrict__ out) {
    typedef typename Wide<T>::type A;
    const int64 place = (int64)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= size) return;
    const int64 value = place / parts, line = value / width, column = value - line * width + left;
    const int64 plane = line / height, image = plane / channels;
    const int64 row = line - plane * height + up, channel = plane - image * channels;
    T sum = as<T, A>((A)0);
    // From the last window that has the value to the first, whose places for it ascend by a stride.
    for (int64 y = min(row / stride_down, below - 1); y >= 0; y--) {
        const int64 i = row - y * stride_down;
        if (i >= high) break;
        for (int64 x = min(column / stride_right, beside - 1); x >= 0; x--) {
            const int64 j = column - x * stride_right;
            if (j >= wide) break;
            const int64 window = (image * below + y) * beside + x;
            const int64 from = ((window * channels + channel) * high + i) * wide + j;
            sum = as<T, A>(plus((A)sum, (A)rows[from * parts + place - value * parts]));
        }
    }
    out[place] = sum;
}
