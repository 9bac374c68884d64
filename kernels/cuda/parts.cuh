// What tiles of equal height leave of segments that reach beyond them.
#pragma once
#include "types.cuh"

// Rows of a tile, which a unit walks: enough to make the parts few, few enough to make the units
// many. Of a tile come two parts, so it must be more than two for them to become fewer.
enum { SHIFT = 6, HEIGHT = 1 << SHIFT };

// Joins parts like rows, tile by tile, until all of a segment lie in one tile; `depth` reductions
// after the rows. A block is (columns, units).
//
//   parts, keys    of each tile below two parts and their segments, -1 for none
//   none           what parts are joined to, by join(part, below)
//   finish         takes what is done: (segment, column, part)
//   carry          (2 * units, width) parts of what is not, and `carry_keys` their segments
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
        // Where the segment's parts lie: the first and the last of them.
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
