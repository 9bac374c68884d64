// Edit distances, and labels of CTC paths. See edit_distance.py.
#include "kept_rows.cuh"

// One block per pair. The Wagner-Fischer table is processed by anti-diagonals, each of which
// depends only on the two before it. These three are stored in `scratch`, by column.
template <class T>
__global__ void __launch_bounds__(128)
edit_distance(const T* __restrict__ hyps, const int64* __restrict__ hyp_offsets,
              const T* __restrict__ refs, const int64* __restrict__ ref_offsets, int* scratch,
              int64* __restrict__ out) {
    const int64 pair = blockIdx.x;
    const T *hyp = hyps + hyp_offsets[pair], *ref = refs + ref_offsets[pair];
    const int64 n = hyp_offsets[pair + 1] - hyp_offsets[pair];
    const int64 m = ref_offsets[pair + 1] - ref_offsets[pair];
    int* last = scratch + 3 * (ref_offsets[pair] + pair);
    int *before = last + m + 1, *here = before + m + 1;
    for (int64 sum = 0; sum <= n + m; sum++) {
        for (int64 j = max((int64)0, sum - n) + threadIdx.x; j <= min(sum, m); j += blockDim.x) {
            const int64 i = sum - j;
            if (i == 0 || j == 0) {
                here[j] = (int)sum;
            } else {
                const int changed = last[j - 1] + (hyp[i - 1] != ref[j - 1]);
                here[j] = min(changed, min(before[j - 1], before[j]) + 1);
            }
        }
        __syncthreads();
        int* free = last;
        last = before;
        before = here;
        here = free;
    }
    if (threadIdx.x == 0) out[pair] = before[m];
}

// Marks the ids that are labels: not blank and, if `merged`, different from the previous id of the
// segment.
template <class W>
__global__ void __launch_bounds__(256)
ctc_kept(const W* __restrict__ ids, const int64* __restrict__ offsets, int64 segments, int64 rows,
         int64 height, uint64 low, uint64 high, int64 has_blank, int64 merged, bool* __restrict__ kept,
         Kept* __restrict__ tiles) {
    __shared__ Warps warps;
    mark_rows(rows, height, tiles, warps, [=](int64 row) {
        const W id = ids[row];
        bool label = !has_blank || id != word_of<W>(low, high);
        if (label && merged && row && id == ids[row - 1])
            label = offsets[segment_of(offsets, segments, row)] == row;
        return kept[row] = label;
    });
}
