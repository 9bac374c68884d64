// Partial results of tiles of equal height, for segments that extend beyond a tile.
#pragma once
#include "types.cuh"

// Rows of a tile, which a unit walks: enough to make few parts, few enough to have many units. A
// tile produces two parts, so it must have more than two rows for the reduction to shrink.
enum { SHIFT = 6, HEIGHT = 1 << SHIFT };

// Reduces parts like rows, tile by tile, until all parts of a segment are in one tile; `depth` is
// the number of previous reductions. A block is (columns, units).
//
//   parts, keys    two parts per tile of the previous pass, and their segments, -1 for none
//   none           initial value, combined by join(part, next)
//   finish         called with complete results: (segment, column, part)
//   carry          (2 * units, width) incomplete parts, and `carry_keys` their segments
template <class Part, class Join, class Finish>
__device__ __forceinline__ void
join_parts(const Part* __restrict__ parts, const int64* __restrict__ keys,
           const int64* __restrict__ offsets, int64 count, int64 width, int64 depth, Part none,
           Join join, Finish finish, Part* __restrict__ carry, int64* __restrict__ carry_keys) {
    const int64 unit = (int64)blockIdx.x * blockDim.y + threadIdx.y;
    const int64 column = (int64)blockIdx.y * blockDim.x + threadIdx.x;
    const int64 top = unit * HEIGHT;
    if (top >= count) return;
    const int64 bottom = min(top + HEIGHT, count);
    if (column == 0) carry_keys[2 * unit] = carry_keys[2 * unit + 1] = -1;
    if (column >= width) return;
    for (int64 row = top; row < bottom;) {
        const int64 segment = keys[row];
        if (segment < 0) {
            row++;
            continue;
        }
        // The first and last position of the segment's parts.
        int64 first = offsets[segment], last = offsets[segment + 1] - 1;
        for (int64 level = 0; level < depth; level++) {
            first = 2 * (first >> SHIFT) + 1;
            last = 2 * (last >> SHIFT);
        }
        Part part = none;
        for (; row < bottom && row <= last; row++)
            if (keys[row] == segment) join(part, parts[row * width + column]);
        if (first >= top && last < bottom) {
            finish(segment, column, part);
        } else {
            const int64 slot = 2 * unit + (first >= top);
            carry[slot * width + column] = part;
            if (column == 0) carry_keys[slot] = segment;
        }
    }
}
