"""Faults planted in the GPU kernels, to verify that the tests on the CPU find them."""

from __future__ import annotations

from dataclasses import dataclass

OPS = "tests/kernels/ops/"
BARRIER = "__syncthreads();"


@dataclass(frozen=True)
class Mutant:
    """One injected fault.

    Attributes:
        kind: the kind of fault.
        old, new: text that occurs once in all sources of kernels, and its replacement.
        tests: the test file that must fail.
        checked: the checks that kernels are compiled with: "races", or "1" for bounds.
    """

    kind: str
    old: str
    new: str
    tests: str
    checked: str = "races"

    @property
    def of_ops(self) -> bool:
        """Whether the tests are those of ops, whose rows are moved to the GPU."""
        return self.tests.startswith(OPS)


def _no_barrier(before: str, after: str, tests: str) -> Mutant:
    return Mutant("no barrier", before + BARRIER + after, before + after, tests)


SOFTMAX = OPS + "softmax/test_softmax.py"
WIDTHS = "tests/cuda/test_widths.py"
SCAN = OPS + "scan/test_scan.py"
LINEAR = OPS + "scan/test_linear_scan.py"
POOL = OPS + "pooling/test_pool.py"
CRC = "tests/cuda/test_crc32c.py"
ATTENTION = "tests/cuda/test_attention.py"
DISTANCE = OPS + "ids/test_distance.py"
RNN = "tests/cuda/test_rnn.py"
PERSISTENT = "tests/cuda/test_persistent.py"
HALVES = "tests/cuda/test_rnn_halves.py"
CLUSTERS = "tests/cuda/test_clusters.py"
SCATTER = OPS + "scatter/test_scatter.py"
ORDER = OPS + "sorting/test_order.py"
EXPAND = OPS + "joining/test_expand.py"
WINDOWS = OPS + "joining/test_windows.py"
SHIFT = OPS + "shifting/test_shift.py"
CONCAT = OPS + "joining/test_concat.py"
SORTING = "tests/cuda/test_sorting.py"
FIRST_ROW = "tests/cuda/test_first_row.py"
KEPT, CONV = "tests/cuda/test_kept_rows.py", "tests/cuda/test_conv.py"
GRADIENTS = "tests/cuda/test_gradients.py"

MUTANTS = (
    _no_barrier("[threadIdx.x] = mine;\n    ", "", WIDTHS),
    _no_barrier("meeting[warp][threadIdx.x].at[n]);\n    ", "", WIDTHS),
    _no_barrier("listed.many[threadIdx.y] = 0;\n    ", "", WIDTHS),
    _no_barrier("segments, rows, listed);\n    ", "", WIDTHS),
    _no_barrier("as<H, T>(got[i]);\n    }\n    ", "", SOFTMAX),
    _no_barrier("of_x.top, HEIGHT);\n    ", "", SOFTMAX),
    _no_barrier("HEIGHT, LONG);\n    ", "", SCAN),
    _no_barrier("tables[k] = constants[k];\n    ", "", CRC),
    _no_barrier("found[thread / 32] = crc;\n    ", "", CRC),
    _no_barrier("Number::word(right_next + e);\n        ", "", RNN),
    _no_barrier(
        "Number::multiply_add(sums[m][n], a[m], pair);\n            }\n        }\n        ", "", RNN
    ),
    _no_barrier("", "\n            const T *left = stages", ATTENTION),
    _no_barrier("", "\n            const T* right = stages", ATTENTION),
    _no_barrier("settle<2 * OTHERS>(next);\n        ", "", ATTENTION),
    Mutant(
        "not awaited",
        "copies_done();\n        settle<2 * OTHERS>(next);",
        "settle<2 * OTHERS>(next);",
        ATTENTION,
    ),
    Mutant("one buffer", "stage ^= 1;\n            if (from + DEEP", "if (from + DEEP", ATTENTION),
    Mutant("one buffer", "next = free;", "", ATTENTION),
    Mutant(
        "wrong lane",
        "lane % 8 + lane / 16 * 8) * ACROSS + lane / 8 % 2 * 4",
        "lane % 16) * ACROSS + lane / 16 * 4",
        ATTENTION,
    ),
    Mutant("not rescaled", "sums[r][e] *= factor;", "", ATTENTION),
    Mutant(
        "half a row", "row_sum<A, Tiles::ROW_LANES>(sum[r])", "row_sum<A, 2>(sum[r])", ATTENTION
    ),
    Mutant("wrong row", "(int64)i + 1 + (align", "(int64)i + (align", ATTENTION),
    Mutant("wrong part", "end - begin > keys ? begin", "false ? begin", ATTENTION),
    Mutant("wrong part", "part < count; part++) total", "part < 1; part++) total", ATTENTION),
    Mutant("wrong share", "? (A)0 : Tiles::power(log - top);", "? (A)0 : (A)1;", ATTENTION),
    Mutant("wrong row", "- at.first : at.own)", ": at.own)", ATTENTION),
    Mutant(
        "no barrier",
        "align && __syncthreads_or(!finite))\n        attend_again",
        "align)\n        attend_again",
        ATTENTION,
    ),
    Mutant(
        "not again",
        "align && __syncthreads_or(!finite))\n        differentiate_again",
        "false)\n        differentiate_again",
        ATTENTION,
    ),
    Mutant("wrong part", "total += power;\n            again", "again", ATTENTION),
    Mutant(
        "beyond the end",
        "row + i < rows.count && column + j < rows.width;",
        "column + j < rows.width;",
        ATTENTION,
        "1",
    ),
    _no_barrier("before[j]) + 1);\n            }\n        }\n        ", "", DISTANCE),
    _no_barrier("= right_next[e];\n        ", "", RNN),
    _no_barrier("sums[i][j] += a[i] * b[j];\n        }\n        ", "", RNN),
    _no_barrier("copies_wait<STAGES - 1>();\n            ", "", PERSISTENT),
    _no_barrier("columns + side) = row;\n            }\n        ", "", PERSISTENT),
    _no_barrier(
        "{made[n][m][2], made[n][m][3]};\n                }\n            }\n        ",
        "",
        PERSISTENT,
    ),
    _no_barrier("reverse = order.reverse;\n        ", "", PERSISTENT),
    _no_barrier("order.lengths[slice.first + i];\n        }\n        ", "", PERSISTENT),
    Mutant("not awaited", "copies_wait<STAGES - 1>()", "copies_wait<STAGES>()", PERSISTENT),
    Mutant("not awaited", "copies_wait<STAGES - 2>()", "copies_wait<STAGES>()", PERSISTENT),
    Mutant(
        "wrong step", "ask(i, place, unit, step + 1);", "ask(i, place, unit, step);", PERSISTENT
    ),
    Mutant("not kept", "kept[s * units] = state[s];", "", PERSISTENT),
    Mutant(
        "wrong lane",
        "(lane & 7)) * stride + k / VALUES + (lane >> 3) * 4",
        "(lane >> 2)) * stride + k / VALUES + (lane & 3) * 4",
        PERSISTENT,
    ),
    _no_barrier("awaited += blocks;\n        ", "", PERSISTENT),
    _no_barrier("__nanosleep(20);\n        }\n        ", "", PERSISTENT),
    Mutant("no acquire", "arrivals(arrived)", "*(volatile unsigned*)arrived", PERSISTENT),
    Mutant("no release", "arrive(arrived);", "atomicAdd(arrived, 1u);", PERSISTENT),
    Mutant("no meeting", "if (blocks == 1)", "if (blocks < 3)", PERSISTENT),
    Mutant("no meeting", "if (step + 1 < steps) passing.meet();", "", PERSISTENT),
    Mutant("no meeting", "});\n            passing.meet();", "});", PERSISTENT),
    Mutant("no meeting", "});\n        passing.meet();", "});", PERSISTENT),
    Mutant("leaves early", "awaited) < 0)", "awaited) < -1)", PERSISTENT),
    Mutant("no meeting", "if (SIZE > 1) cluster_meet();", "", CLUSTERS),
    Mutant("no meeting", "; else cluster_meet();", "; else __syncthreads();", CLUSTERS),
    Mutant("no barrier", "if (SIZE == 1) __syncthreads();", "if (SIZE == 1) {}", CLUSTERS),
    Mutant("one buffer", "tiles + (step & 1) * tile", "tiles", CLUSTERS),
    Mutant("wrong part", "rank < SIZE; rank++", "rank < SIZE - 1; rank++", CLUSTERS),
    Mutant("not awaited", "depth);\n        copies_done();", "depth);", CLUSTERS),
    Mutant("one buffer", "NARROW ? (step & 1) * HIGH * columns : 0", "0", HALVES),
    Mutant("wrong row", "size % 2 == 0 && (uint64)run.projected", "(uint64)run.projected", HALVES),
    Mutant(
        "wrong row",
        "pairs = size % 2 == 0 && (uint64)run.projected % 4 == 0",
        "pairs = size % 2 == 0",
        HALVES,
    ),
    Mutant("half a row", "else if (place % 2 == 0) copy", "else if (place % 4 == 0) copy", HALVES),
    Mutant("one buffer", "(step & 1) * sequences + sequence", "sequence", PERSISTENT),
    Mutant("one buffer", "chunk + STAGES - 1, chunks", "chunk + STAGES, chunks", PERSISTENT),
    Mutant("not atomic", "atomicAdd(&many[of_block], 1)", "many[of_block]++", WIDTHS),
    Mutant(
        "not atomic",
        "atomicAdd(out + segment * columns + ids[place], updates[place]);",
        "out[segment * columns + ids[place]] += updates[place];",
        SCATTER,
    ),
    Mutant("not atomic", "atomicXor(out + block, crc);", "out[block] ^= crc;", CRC),
    Mutant("half a warp", "lanes < 32; lanes += lanes", "lanes < 16; lanes += lanes", WIDTHS),
    Mutant("beyond the end", "if (row + i < stop) got[i]", "got[i]", POOL, "1"),
    Mutant(
        "beyond the end",
        "bottom = min(top + HEIGHT, rows);\n    if (has_long",
        "bottom = top + HEIGHT;\n    if (has_long",
        POOL,
        "1",
    ),
    Mutant(
        "wrong part", "last = 2 * (last >> SHIFT);", "last = 2 * (last >> SHIFT) - 1;", POOL, "1"
    ),
    Mutant("wrong row", "step -= steps;\n            segment++", "step -= steps", WIDTHS, "1"),
    Mutant("wrong order", "if (size > infinity)", "if (size >= infinity)", ORDER, "1"),
    Mutant("wrong row", "(row - begin) * step, to", "(row - begin), to", EXPAND, "1"),
    Mutant("wrong row", "(right && there == rank)", "right", ORDER, "1"),
    Mutant("wrong row", "segments, row)] != row;", "segments, row)] != -1;", ORDER, "1"),
    _no_barrier("first = (uint64)rows;\n    ", "", FIRST_ROW),
    Mutant("wrong row", "atomicMin(&first", "atomicMax(&first", FIRST_ROW, "1"),
    _no_barrier("warps.kept[threadIdx.x / 32] = mine;\n    ", "", KEPT),
    _no_barrier("chunk.words[row / 32] = word;\n        }\n        ", "", KEPT),
    _no_barrier("from, last) + 1;\n            }\n        }\n        ", "", KEPT),
    _no_barrier("above.last = first + last;\n        ", "", KEPT),
    Mutant("wrong part", "tile < blockIdx.x;", "tile + 1 < blockIdx.x;", KEPT, "1"),
    Mutant(
        "wrong row",
        "segment_of(offsets, segments + 1, top - 1) + 1",
        "segment_of(offsets, segments + 1, top)",
        KEPT,
        "1",
    ),
    Mutant("wrong row", "last < 0 ? above.last : first + last", "first + last", KEPT, "1"),
    Mutant("wrong row", "taken.at[n] == row ? given", "taken.at[n] >= 0 ? given", GRADIENTS, "1"),
    Mutant("wrong row", "== offsets[segment + 1])\n                of", "< 0) of", GRADIENTS, "1"),
    Mutant("not zero", "blockDim.y) arrivals[i] = 0;", "blockDim.y) arrivals[i] = 1;", CONV, "1"),
    Mutant("wrong part", "takes_part; block += blockDim.y", "takes_part; block++", CONV, "1"),
    Mutant("wrong part", "blocks = gridDim.x - tiled", "blocks = gridDim.x", CONV, "1"),
    Mutant("wrong row", "[segment + (k < input)]", "[segment]", CONCAT, "1"),
    Mutant("wrong row", "is_last ? of.before(segment) : ", "", LINEAR, "1"),
    Mutant("wrong row", "out.exclusive ? 0 : 1", "1", SCAN, "1"),
    Mutant("wrong row", "starts[i] <= row; i++", "starts[i] < row; i++", WINDOWS, "1"),
    Mutant("wrong row", "there ? row - lag : row);", "row - lag);", SHIFT, "1"),
    Mutant("wrong row", "(lag > 0 ? lag : 0);", "lag;", SHIFT, "1"),
    Mutant("wrong row", "there = from >= offsets[segment] &&", "there =", SHIFT, "1"),
    Mutant("half a row", "enum { WIDE = 4 };", "enum { WIDE = 2 };", PERSISTENT, "1"),
    _no_barrier("bool& last) {\n    ", "", WIDTHS),
    _no_barrier("half = (left + 1) / 2;\n        ", "", WIDTHS),
    Mutant("no acquire", "arrived(count) == blocks", "atomicAdd(count, 1u) + 1 == blocks", WIDTHS),
    _no_barrier("to[k] += low;\n            }\n        }\n        ", "", SORTING),
    Mutant("not stable", "(right && other == rank[k])", "(false && other == rank[k])", SORTING),
    Mutant(
        "one block more",
        "offsets[last] < top + height ? offsets[last + 1] : top + height",
        "top + height",
        SORTING,
    ),
    Mutant(
        "wrong row",
        "segment >= segments || offsets[segment] < offsets[segment + 1]",
        "segment >= segments",
        POOL,
    ),
    Mutant("half a value", "byte & 8 ? high : low", "low", WIDTHS, "1"),
    Mutant("wrong row", "if (i >= high) break;", "", WIDTHS, "1"),
    Mutant("wrong row", "i + (left + share.step - 1) / share.step", "i + left", WIDTHS, "1"),
)
