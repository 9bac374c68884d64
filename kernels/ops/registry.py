"""Every sequence op by name: one line an op, in alphabetical order."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OpEntry:
    """Where an op is found, and what it does.

    Attributes:
        module: its module in lodcli.kernels.ops.
        function: its public function there.
        summary: what comes back, in one line.
        equation: the same as a formula; x the rows, y the result, n a sequence's length.
        itemwise: whether whole outermost items may be worked on in parts: the result of a
            batch is that of its parts, one after another. Only for ops of one tensor.
        results: what its results are called, where there are several.
        gradient: its gradient, where that bears another name: FAMILY.FILE.FUNCTION.
        options: those of its example, where numbers made up for what it needs mean nothing.
    """

    module: str
    function: str
    summary: str
    equation: str
    itemwise: bool = False
    results: tuple[str, ...] = ()
    gradient: str | None = None
    options: str | None = None

    def load(self) -> Callable[..., Any]:
        """Return the function itself; its file is imported only now."""
        module = importlib.import_module(f"lodcli.kernels.ops.{self.module}")
        return getattr(module, self.function)  # type: ignore[no-any-return]


# Parameters of ops that describe an index, or choose: they lie in main memory wherever the rows
# are.
IN_MAIN_MEMORY = frozenset(
    (
        *("edges", "k", "length", "lengths", "mask", "offset", "offsets", "pad_value", "table"),
        *("tokens", "topks"),
    )
)

# ruff: noqa: E501
# fmt: off
OPS: dict[str, OpEntry] = {
    "add": OpEntry("elementwise.elementwise", "sequence_add", "tensor + other, row by row or one row a sequence", "y[r] = x[r] + z[s]"),
    "argsort": OpEntry("sorting.sort", "sequence_argsort", "the places every sorted column takes its values from", "y = argsort x[lo:hi]", itemwise=True),
    "attention": OpEntry("attention.attention", "sequence_attention", "attention of each query over the keys of its sequence", "y = softmax(scale q k') v"),
    "concat": OpEntry("joining.concat", "sequence_concat", "the i-th sequences of several tensors joined", "y[i] = x1[i] x2[i] .."),
    "conv": OpEntry("conv.conv", "sequence_conv", "the rows around each row times a matrix", "y[r] = [x[r+a] .. x[r+a+K-1]] W", itemwise=True, options="--weight weight.lod.h5 --context-length 3 --context-start -1"),
    "ctc_align": OpEntry("ids.edit_distance", "ctc_align", "CTC paths with repetitions merged and blanks dropped", "y = x[r] != x[r-1] and x[r] != blank", itemwise=True),
    "cumprod": OpEntry("scan.scan", "sequence_cumprod", "the product of every row and those before it", "y[lo+t] = x[lo] * .. * x[lo+t]", itemwise=True),
    "cumsum": OpEntry("scan.scan", "sequence_cumsum", "the sum of every row and those before it", "y[lo+t] = x[lo] + .. + x[lo+t]", itemwise=True),
    "deduplicate": OpEntry("sorting.sort", "sequence_deduplicate", "the sequences without rows that repeat an earlier one", "y = x[r] != x[r-1]", itemwise=True),
    "deinterleave": OpEntry("joining.windows", "sequence_deinterleave", "the tensors that interleave took turns with", "y_p[s] = x[p + s k]", gradient="joining.windows.sequence_interleave"),
    "div": OpEntry("elementwise.elementwise", "sequence_div", "tensor / other, row by row or one row a sequence", "y[r] = x[r] / z[s]"),
    "dot": OpEntry("elementwise.elementwise", "sequence_dot", "the dot product of each sequence with another tensor's", "y[s] = sum x[r] . z[r]"),
    "edit_distance": OpEntry("ids.edit_distance", "edit_distance", "the edits from each hypothesis to its reference", "y[s] = levenshtein(x[s], z[s])"),
    "enumerate": OpEntry("ids.ids", "sequence_enumerate", "every id with those that follow it", "y[r] = x[r] .. x[r+K-1]", itemwise=True),
    "erase": OpEntry("ids.ids", "sequence_erase", "the sequences without some ids", "y = x[r] not in tokens", itemwise=True),
    "expand": OpEntry("joining.expand", "sequence_expand", "every sequence as often as another tensor's lengths say", "y = x[s] repeated n[s] times"),
    "expand_as": OpEntry("joining.expand", "sequence_expand_as", "one row a sequence, brought to all its rows", "y[r] = x[s]"),
    "first": OpEntry("pooling.pool", "sequence_first", "the first row of every sequence", "y[s] = x[lo]", itemwise=True),
    "from_steps": OpEntry("ranking.rank_table", "from_step_array", "the sequences of such steps again", "y[lo+t] = x[t] of s", gradient="ranking.rank_table.to_step_array"),
    "histogram": OpEntry("sorting.sort", "sequence_histogram", "how many values of every sequence lie in each bin", "y[s, b] = count of e[b] <= x[r] < e[b+1]", itemwise=True, options="--edges 0,1,2"),
    "im2sequence": OpEntry("conv.im2sequence", "im2sequence", "one row for each window of each picture", "y = windows of x[s]", options="--kernels 2,2"),
    "interleave": OpEntry("joining.windows", "sequence_interleave", "the sequences of several tensors in turn", "y[p + s k] = x_p[s]", gradient="joining.windows.sequence_deinterleave"),
    "last": OpEntry("pooling.pool", "sequence_last", "the last row of every sequence", "y[s] = x[hi-1]", itemwise=True),
    "layer_norm": OpEntry("norms.norms", "sequence_layer_norm", "every row with mean 0 and variance 1 over its features", "y[r] = (x[r] - mean) / sqrt(var + eps) w + b", itemwise=True),
    "lod_append": OpEntry("reshaping.lod_reset", "lod_append", "the same rows with more levels below", "y = x", gradient="reshaping.lod_reset.lod_reset", options="--lengths 1,1,1"),
    "lod_reset": OpEntry("reshaping.lod_reset", "lod_reset", "the same rows under another index", "y = x", gradient="reshaping.lod_reset.lod_reset", options="--lengths 2,1"),
    "log_softmax": OpEntry("softmax.softmax", "sequence_log_softmax", "the logarithm of softmax", "y = x - log sum exp x", itemwise=True),
    "mask": OpEntry("padding.pad", "sequence_mask", "where a padded box holds rows", "y[s,t] = t < n[s]"),
    "max": OpEntry("pooling.pool", "sequence_max", "the greatest value of every column of every sequence", "y[s] = max x[r]", itemwise=True, gradient="pooling.pool_grad.sequence_max_grad"),
    "max_index": OpEntry("pooling.pool", "sequence_max_index", "the greatest values and the rows they stand in", "y[s] = max x[r], argmax x[r]", results=("values", "rows"), gradient="pooling.pool_grad.sequence_max_grad"),
    "max_sequence_len": OpEntry("ranking.rank_table", "max_sequence_len", "the longest length of a rank table", "y = max n[s]"),
    "mean": OpEntry("pooling.pool", "sequence_mean", "the mean row of every sequence", "y[s] = sum x[r] / n", itemwise=True),
    "merge_by_mask": OpEntry("ranking.split_by_mask", "merge_by_mask", "the two parts of a mask as one batch again", "y[s] = a[i] if mask[s] else b[j]", options="--mask true,false"),
    "min": OpEntry("pooling.pool", "sequence_min", "the least value of every column of every sequence", "y[s] = min x[r]", itemwise=True, gradient="pooling.pool_grad.sequence_max_grad"),
    "min_index": OpEntry("pooling.pool", "sequence_min_index", "the least values and the rows they stand in", "y[s] = min x[r], argmin x[r]", results=("values", "rows"), gradient="pooling.pool_grad.sequence_max_grad"),
    "mul": OpEntry("elementwise.elementwise", "sequence_mul", "tensor * other, row by row or one row a sequence", "y[r] = x[r] z[s]"),
    "pad": OpEntry("padding.pad", "sequence_pad", "the sequences side by side in a padded box, and their lengths", "y[s,t] = x[lo+t] if t < n, else pad", results=("padded", "lengths")),
    "rank_table": OpEntry("ranking.rank_table", "rank_table", "sequences and their lengths, longest first", "y = (s, n[s]) by descending n"),
    "reorder_by_rank": OpEntry("ranking.rank_table", "reorder_by_rank", "the outermost items in the order of a rank table", "y[p] = x[table[p]]"),
    "reshape": OpEntry("reshaping.reshape", "sequence_reshape", "the values of every sequence in rows of another width", "n[s] = n[s] * D / new_dim", itemwise=True),
    "reverse": OpEntry("slicing.reverse", "sequence_reverse", "every sequence backwards", "y[lo+t] = x[hi-1-t]", itemwise=True),
    "rms_norm": OpEntry("norms.norms", "sequence_rms_norm", "every row over its root mean square", "y[r] = x[r] / sqrt(mean x[r]^2 + eps) w", itemwise=True),
    "row_conv": OpEntry("conv.conv", "row_conv", "every row plus those that follow, weighted by column", "y[r] = sum W[k] x[r+k]", itemwise=True),
    "scatter": OpEntry("scatter.scatter", "sequence_scatter", "updates added to chosen columns of each sequence's row", "y[s, ids[r]] += u[r]"),
    "searchsorted": OpEntry("sorting.sort", "sequence_searchsorted", "where values go in the sorted sequence of the same number", "y[q] = count of x[r] < v[q]"),
    "shrink_memory": OpEntry("ranking.rank_table", "shrink_memory", "the states of the sequences alive at a step", "y = x[:alive]", options="--table table.lod.h5 --step 1"),
    "slice": OpEntry("slicing.slice", "sequence_slice", "a part of every sequence", "y[s] = x[lo+offset : lo+offset+length]", options="--offset 1,0 --length 1,1"),
    "softmax": OpEntry("softmax.softmax", "sequence_softmax", "softmax over the rows of every sequence, by column", "y = exp x / sum exp x", itemwise=True),
    "sort": OpEntry("sorting.sort", "sequence_sort", "every column of every sequence in order", "y = sort x[lo:hi]", itemwise=True),
    "sort_by_length": OpEntry("ranking.rank_table", "sort_by_length", "the sequences of a level, longest first", "y = x[s] by descending n", gradient="ranking.rank_table.reorder_by_rank_gradient"),
    "split_by_mask": OpEntry("ranking.split_by_mask", "split_by_mask", "the sequences where a mask is true, and the others", "a = x[mask], b = x[not mask]", results=("true", "false"), options="--mask true,false"),
    "sqrt": OpEntry("pooling.pool", "sequence_sqrt", "the sum over the root of the length", "y[s] = sum x[r] / sqrt n", itemwise=True),
    "sub": OpEntry("elementwise.elementwise", "sequence_sub", "tensor - other, row by row or one row a sequence", "y[r] = x[r] - z[s]"),
    "sum": OpEntry("pooling.pool", "sequence_sum", "the sum of the rows of every sequence", "y[s] = sum x[r]", itemwise=True),
    "to_steps": OpEntry("ranking.rank_table", "to_step_array", "step t: item t of every sequence longer than t, by rank", "y[t] = x[lo+t] of all n > t", gradient="ranking.rank_table.from_step_array"),
    "topk": OpEntry("sorting.sort", "sequence_topk", "the k largest values of every column and their places", "y[s] = k largest x[r], their places", results=("values", "places"), options="--k 2"),
    "topk_avg_pooling": OpEntry("pooling.topk_avg_pooling", "sequence_topk_avg_pooling", "averages of the k largest values of every matrix row", "y[r, k] = sum of k largest x[r] / k", options="--topks 1,2 --channel-num 1"),
    "truncate": OpEntry("slicing.truncate", "sequence_truncate", "every sequence cut to its first or last items", "y[s] = x[lo : lo+min(n, length)]", itemwise=True),
    "unique": OpEntry("sorting.sort", "sequence_unique", "the different values of every sequence, ascending", "y[s] = set of x[r]", itemwise=True),
    "unique_counts": OpEntry("sorting.sort", "sequence_unique_counts", "the different values and how often each is there", "y[s] = set of x[r], counts", results=("values", "counts")),
    "unpad": OpEntry("padding.pad", "sequence_unpad", "the rows of a padded box without the padding", "y[lo+t] = x[s,t] for t < n[s]", options="--lengths 2,1"),
    "windows": OpEntry("joining.windows", "sequence_windows", "every sequence as windows over its items", "y[s, w] = x[lo+w stride ..+length]", itemwise=True),
}
# fmt: on
