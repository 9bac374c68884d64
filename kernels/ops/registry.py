"""Registry of the sequence ops, one line each, in alphabetical order."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lodcli.kernels.runtime.index_arguments import INDEX_ARGUMENTS


@dataclass(frozen=True)
class OpEntry:
    """The module of an op, and its properties.

    Attributes:
        name: as in `lod apply NAME`; its public function is sequence_NAME.
        module: its module in lodcli.kernels.ops.
        summary: what it returns, in one line.
        equation: the same as a formula; x the rows, y the result, n the length of a sequence.
        itemwise: whether batches of whole outermost items can be computed separately, and their
            results concatenated. Only for ops of one tensor.
        pairs: the same for an op of several tensors that are divided at the same items, whose
            levels are equal except for the finest; or, for arithmetic, whose second tensor has one
            row per sequence.
        results: names of its results, if there are several.
        gradient: its gradient, FAMILY.FILE.FUNCTION; sequence_NAME_grad unless the function of
            another op is used. None if it is not differentiable.
        index: its arguments in main memory whose names, not in INDEX_ARGUMENTS, are those of rows
            in other ops.
        options: the options of its example, if generated values would not be valid.
        keeps: its argument whose index, or the upper levels of it, the result has: see `kept`.
        keeps_by: its option on which depends whether the result has the whole index: "stride", which
            is then 1, or "pad_value", which is then given.
        pools: its argument with one sequence per row of the result.
        marks: whether it only moves or picks values, so that its first result keeps times, decimals
            and categories.
        nulls: whether its result keeps the nulls of its first argument.
        tracked: its differentiable arguments in torch, if all of them are rows; empty if there are
            none, or if one is a list of steps or an index.
    """

    name: str
    module: str
    summary: str
    equation: str
    itemwise: bool = False
    pairs: bool = False
    results: tuple[str, ...] = ()
    gradient: str | None = None
    index: tuple[str, ...] = ()
    options: str | None = None
    keeps: str = ""
    keeps_by: str = ""
    pools: str = ""
    marks: bool = False
    nulls: bool = False
    tracked: tuple[str, ...] = ()

    @property
    def package(self) -> str | None:
        """The name and version of the package of a plug-in; None for an op of lod."""
        return None

    @property
    def gpu(self) -> bool:
        """Whether it computes on a GPU."""
        return True

    @property
    def function(self) -> str:
        """The name of its public function."""
        return f"sequence_{self.name}"

    def load(self) -> Callable[..., Any]:
        """Return the function itself; its file is imported only now."""
        return self._load(f"{self.module}.{self.function}")

    def load_gradient(self) -> Callable[..., Any] | None:
        """Return the gradient itself, if there is one."""
        return None if self.gradient is None else self._load(self.gradient)

    def kept(self, options: Mapping[str, Any]) -> str:
        """Return the argument whose index the result has with these options, "" if there is none."""
        value = options.get(self.keeps_by, 1)
        return "" if value is None or (self.keeps_by == "stride" and value != 1) else self.keeps

    def is_index(self, argument: str) -> bool:
        """Return whether an argument is always in main memory, even for rows on a GPU."""
        return argument in INDEX_ARGUMENTS or argument in self.index

    def _load(self, path: str) -> Callable[..., Any]:
        module, _, function = path.rpartition(".")
        found = importlib.import_module(f"lodcli.kernels.ops.{module}")
        return getattr(found, function)  # type: ignore[no-any-return]


# ruff: noqa: E501
# fmt: off
_ENTRIES = (
    OpEntry("add", "elementwise.elementwise", "tensor + other, row by row or one row per sequence", "y[r] = x[r] + z[s]", pairs=True, gradient="elementwise.elementwise_grad.sequence_add_grad", keeps="tensor", tracked=("tensor", "other")),
    OpEntry("argsort", "sorting.sort", "indices that sort each column, as numpy.argsort", "y = argsort x[lo:hi]", itemwise=True),
    OpEntry("attention", "attention.attention", "attention of each query over the keys of its sequence", "y = softmax(scale q k') v", gradient="attention.attention.sequence_attention_grad", keeps="q", tracked=("q", "k", "v")),
    OpEntry("concat", "joining.concat", "the i-th sequences of several tensors joined", "y[i] = x1[i] x2[i] ..", pairs=True, gradient="joining.concat.sequence_concat_grad", marks=True, tracked=("tensors",)),
    OpEntry("conv", "conv.conv", "the rows around each row times a matrix (convolution)", "y[r] = [x[r+a] .. x[r+a+K-1]] W", itemwise=True, gradient="conv.conv_grad.sequence_conv_grad", options="--weight weight.lod.h5 --context-length 3 --context-start -1", keeps="tensor", keeps_by="stride", tracked=("tensor", "weight", "padding")),
    OpEntry("ctc_align", "ids.edit_distance", "CTC paths with repetitions merged and blanks dropped", "y = x[r] where x[r] != x[r-1] and x[r] != blank", itemwise=True, marks=True),
    OpEntry("cumprod", "scan.scan", "the cumulative product of the rows of every sequence", "y[lo+t] = x[lo] * .. * x[lo+t]", itemwise=True, gradient="scan.scan.sequence_cumprod_grad", keeps="tensor", tracked=("tensor",)),
    OpEntry("cumsum", "scan.scan", "the prefix sum of the rows of every sequence", "y[lo+t] = x[lo] + .. + x[lo+t]", itemwise=True, gradient="scan.scan.sequence_cumsum_grad", keeps="tensor", tracked=("tensor",)),
    OpEntry("deduplicate", "sorting.sort", "the sequences without rows equal to the one before, or to any earlier one", "y = x[r] where x[r] != x[r-1]", itemwise=True, marks=True),
    OpEntry("deinterleave", "joining.windows", "the tensors that interleave combined", "y_p[s] = x[p + s k]", gradient="joining.windows.sequence_deinterleave_grad", marks=True, tracked=("tensor",)),
    OpEntry("diff", "shifting.shift", "the difference of every row and an earlier one of its sequence", "y[lo+t] = x[lo+t] - x[lo+t-lag]", itemwise=True, gradient="shifting.shift.sequence_diff_grad", keeps="tensor", keeps_by="pad_value", nulls=True, tracked=("tensor",)),
    OpEntry("div", "elementwise.elementwise", "tensor / other, row by row or one row per sequence", "y[r] = x[r] / z[s]", pairs=True, gradient="elementwise.elementwise_grad.sequence_div_grad", keeps="tensor", tracked=("tensor", "other")),
    OpEntry("dot", "elementwise.elementwise", "the dot product of each sequence with another tensor's", "y[s] = sum x[r] . z[r]", gradient="elementwise.elementwise_grad.sequence_dot_grad", pools="a", tracked=("a", "b")),
    OpEntry("edit_distance", "ids.edit_distance", "the edits from each hypothesis to its reference", "y[s] = levenshtein(x[s], z[s])"),
    OpEntry("enumerate", "ids.ids", "every id with the ids after it, as n-grams", "y[r] = x[r] .. x[r+K-1]", itemwise=True),
    OpEntry("erase", "ids.ids", "the sequences without some ids", "y = x[r] where x[r] not in tokens", itemwise=True, marks=True),
    OpEntry("expand", "joining.expand", "every sequence repeated by the lengths of another tensor", "y = x[s] repeated n[s] times", gradient="joining.expand.sequence_expand_grad", marks=True, tracked=("x",)),
    OpEntry("expand_as", "joining.expand", "one row per sequence, broadcast to all its rows", "y[r] = x[s]", gradient="joining.expand.sequence_expand_as_grad", keeps="y", marks=True, tracked=("x",)),
    OpEntry("first", "pooling.pool", "the first row of every sequence", "y[s] = x[lo]", itemwise=True, gradient="pooling.pool_grad.sequence_first_grad", pools="tensor", marks=True, tracked=("tensor",)),
    OpEntry("from_steps", "ranking.rank_table", "the sequences from their time steps", "y[lo+t] = x[t] of s", gradient="ranking.rank_table.sequence_from_steps_grad", marks=True),
    OpEntry("histogram", "sorting.sort", "how many values of every sequence lie in each bin", "y[s, b] = count of e[b] <= x[r] < e[b+1], or = the last edge", itemwise=True, options="--edges 0,1,2"),
    OpEntry("im2sequence", "conv.im2sequence", "one row for each window of each image", "y = windows of x[s]", gradient="conv.im2sequence.sequence_im2sequence_grad", options="--kernels 2,2", tracked=("images",)),
    OpEntry("interleave", "joining.windows", "the sequences of several tensors in turn", "y[p + s k] = x_p[s]", pairs=True, gradient="joining.windows.sequence_interleave_grad", marks=True, tracked=("tensors",)),
    OpEntry("last", "pooling.pool", "the last row of every sequence", "y[s] = x[hi-1]", itemwise=True, gradient="pooling.pool_grad.sequence_last_grad", pools="tensor", marks=True, tracked=("tensor",)),
    OpEntry("layer_norm", "norms.norms", "every row normalised to mean 0 and variance 1 over its features", "y[r] = (x[r] - mean) / sqrt(var + eps) w + b", itemwise=True, gradient="norms.norms.sequence_layer_norm_grad", keeps="tensor", tracked=("tensor", "weight", "bias")),
    OpEntry("linear_scan", "scan.linear_scan", "the linear recurrence h[t] = a[t] h[t-1] + b[t] along every sequence", "h[lo+t] = a[lo+t] h[lo+t-1] + b[lo+t]", gradient="scan.linear_scan.sequence_linear_scan_grad", keeps="b", tracked=("a", "b", "initial")),
    OpEntry("lod_append", "reshaping.lod_reset", "the same rows with more levels below", "y = x", gradient="reshaping.lod_reset.sequence_lod_reset_grad", options="--lengths 1,1,1", marks=True),
    OpEntry("lod_reset", "reshaping.lod_reset", "the same rows under another index", "y = x", gradient="reshaping.lod_reset.sequence_lod_reset_grad", options="--lengths 2,1", marks=True),
    OpEntry("log_softmax", "softmax.softmax", "the logarithm of softmax", "y = x - log sum exp x", itemwise=True, gradient="softmax.softmax.sequence_log_softmax_grad", keeps="tensor", tracked=("tensor",)),
    OpEntry("mask", "padding.pad", "the mask of valid steps in a padded batch", "y[s,t] = t < n[s]"),
    OpEntry("max", "pooling.pool", "the maximum of every column of every sequence", "y[s] = max x[r]", itemwise=True, gradient="pooling.pool_grad.sequence_max_grad", pools="tensor", marks=True, tracked=("tensor",)),
    OpEntry("max_index", "pooling.pool", "the maxima and their row numbers (argmax)", "y[s] = max x[r], argmax x[r]", results=("values", "rows"), gradient="pooling.pool_grad.sequence_max_grad", pools="tensor", marks=True, tracked=("tensor",)),
    OpEntry("max_sequence_len", "ranking.rank_table", "the length of the longest sequence in a rank table", "y = max n[s]"),
    OpEntry("mean", "pooling.pool", "the mean row of every sequence", "y[s] = sum x[r] / n", itemwise=True, gradient="pooling.pool_grad.sequence_mean_grad", pools="tensor", tracked=("tensor",)),
    OpEntry("merge_by_mask", "ranking.split_by_mask", "the two parts of a mask merged to one batch", "y[s] = a[i] if mask[s] else b[j]", gradient="ranking.split_by_mask.sequence_merge_by_mask_grad", index=("mask",), options="--mask true,false", marks=True, tracked=("true", "false")),
    OpEntry("min", "pooling.pool", "the minimum of every column of every sequence", "y[s] = min x[r]", itemwise=True, gradient="pooling.pool_grad.sequence_min_grad", pools="tensor", marks=True, tracked=("tensor",)),
    OpEntry("min_index", "pooling.pool", "the minima and their row numbers (argmin)", "y[s] = min x[r], argmin x[r]", results=("values", "rows"), gradient="pooling.pool_grad.sequence_min_grad", pools="tensor", marks=True, tracked=("tensor",)),
    OpEntry("mul", "elementwise.elementwise", "tensor * other, row by row or one row per sequence", "y[r] = x[r] z[s]", pairs=True, gradient="elementwise.elementwise_grad.sequence_mul_grad", keeps="tensor", tracked=("tensor", "other")),
    OpEntry("pad", "padding.pad", "a padded batch of the sequences, and their lengths", "y[s,t] = x[lo+t] if t < n, else pad", results=("padded", "lengths"), gradient="padding.pad.sequence_pad_grad", tracked=("tensor",), pools="tensor"),
    OpEntry("rank_table", "ranking.rank_table", "sequences and their lengths, longest first", "y = (s, n[s]) by descending n"),
    OpEntry("reorder_by_rank", "ranking.rank_table", "the outermost items in the order of a rank table", "y[p] = x[table[p]]", gradient="ranking.rank_table.sequence_reorder_by_rank_grad", marks=True, tracked=("tensor",)),
    OpEntry("reshape", "reshaping.reshape", "the values of every sequence in rows of another width", "n[s] = n[s] * D / new_dim", itemwise=True, gradient="reshaping.reshape.sequence_reshape_grad", marks=True, tracked=("tensor",)),
    OpEntry("reverse", "slicing.reverse", "every sequence backwards", "y[lo+t] = x[hi-1-t]", itemwise=True, gradient="slicing.reverse.sequence_reverse_grad", keeps="tensor", marks=True, nulls=True, tracked=("tensor",)),
    OpEntry("rms_norm", "norms.norms", "every row divided by its root mean square", "y[r] = x[r] / sqrt(mean x[r]^2 + eps) w", itemwise=True, gradient="norms.norms.sequence_rms_norm_grad", keeps="tensor", tracked=("tensor", "weight")),
    OpEntry("row_conv", "conv.conv", "every row plus later rows, weighted by column (lookahead convolution)", "y[r] = sum W[k] x[r+k]", itemwise=True, gradient="conv.conv_grad.sequence_row_conv_grad", keeps="tensor", tracked=("tensor", "weight")),
    OpEntry("scatter", "scatter.scatter", "updates added to chosen columns of each sequence's row", "y[s, ids[r]] += u[r]", gradient="scatter.scatter.sequence_scatter_grad", tracked=("x", "updates")),
    OpEntry("searchsorted", "sorting.sort", "insertion points of the values of sequence s in the sorted sequence s", "y[q] = count of x[r] < v[q]"),
    OpEntry("shift", "shifting.shift", "every row replaced by an earlier row of its sequence", "y[lo+t] = x[lo+t-lag]", itemwise=True, gradient="shifting.shift.sequence_shift_grad", keeps="tensor", marks=True, nulls=True, tracked=("tensor",)),
    OpEntry("shrink_memory", "ranking.rank_table", "the states of the sequences active at a step", "y = x[:alive]", gradient="ranking.rank_table.sequence_shrink_memory_grad", options="--table table.lod.h5 --step 1", marks=True),
    OpEntry("slice", "slicing.slice", "a part of every sequence", "y[s] = x[lo+offset : lo+offset+length]", gradient="slicing.slice.sequence_slice_grad", options="--offset 1,0 --length 1,1", marks=True, nulls=True, tracked=("tensor",)),
    OpEntry("softmax", "softmax.softmax", "softmax over the rows of every sequence, by column", "y = exp x / sum exp x", itemwise=True, gradient="softmax.softmax.sequence_softmax_grad", keeps="tensor", tracked=("tensor",)),
    OpEntry("sort", "sorting.sort", "every column of every sequence sorted", "y = sort x[lo:hi]", itemwise=True, gradient="sorting.sort_grad.sequence_sort_grad", keeps="tensor", marks=True, tracked=("tensor",)),
    OpEntry("sort_by_length", "ranking.rank_table", "the sequences of a level, longest first", "y = x[s] by descending n", gradient="ranking.rank_table.sequence_sort_by_length_grad", marks=True, tracked=("tensor",)),
    OpEntry("split_by_mask", "ranking.split_by_mask", "the sequences where a mask is true, and the others", "a = x[mask], b = x[not mask]", results=("true", "false"), gradient="ranking.split_by_mask.sequence_split_by_mask_grad", index=("mask",), options="--mask true,false", marks=True, tracked=("tensor",)),
    OpEntry("sqrt", "pooling.pool", "the sum divided by the square root of the length", "y[s] = sum x[r] / sqrt n", itemwise=True, gradient="pooling.pool_grad.sequence_sqrt_grad", pools="tensor", tracked=("tensor",)),
    OpEntry("sub", "elementwise.elementwise", "tensor - other, row by row or one row per sequence", "y[r] = x[r] - z[s]", pairs=True, gradient="elementwise.elementwise_grad.sequence_sub_grad", keeps="tensor", tracked=("tensor", "other")),
    OpEntry("sum", "pooling.pool", "the sum of the rows of every sequence", "y[s] = sum x[r]", itemwise=True, gradient="pooling.pool_grad.sequence_sum_grad", pools="tensor", tracked=("tensor",)),
    OpEntry("to_steps", "ranking.rank_table", "step t: item t of every sequence longer than t, by rank", "y[t] = x[lo+t] of all n > t", gradient="ranking.rank_table.sequence_to_steps_grad", marks=True),
    OpEntry("topk", "sorting.sort", "the k largest values of every column and their positions", "y[s] = k largest x[r], their positions", results=("values", "places"), gradient="sorting.sort_grad.sequence_topk_grad", index=("k",), options="--k 2", marks=True, tracked=("tensor",)),
    OpEntry("topk_avg_pooling", "pooling.topk_avg_pooling", "averages of the k largest values of every matrix row", "y[r, k] = sum of k largest x[r] / k", gradient="pooling.topk_avg_pooling.sequence_topk_avg_pooling_grad", options="--topks 1,2 --channel-num 1"),
    OpEntry("truncate", "slicing.truncate", "every sequence cut to its first or last items", "y[s] = x[lo : lo+min(n, length)]", itemwise=True, gradient="slicing.truncate.sequence_truncate_grad", marks=True, nulls=True, tracked=("tensor",)),
    OpEntry("unique", "sorting.sort", "the distinct values of every sequence, ascending", "y[s] = set of x[r]", itemwise=True, marks=True),
    OpEntry("unique_counts", "sorting.sort", "the distinct values and their counts", "y[s] = set of x[r], counts", results=("values", "counts"), marks=True),
    OpEntry("unpad", "padding.pad", "the rows of a padded batch without the padding", "y[lo+t] = x[s,t] for t < n[s]", gradient="padding.pad.sequence_unpad_grad", options="--lengths 2,1", tracked=("padded",)),
    OpEntry("windows", "joining.windows", "sliding windows over the items of every sequence", "y[s] = windows of x[lo:hi]", itemwise=True, gradient="joining.windows.sequence_windows_grad", marks=True, nulls=True, tracked=("tensor",)),
)
# fmt: on
OPS: dict[str, OpEntry] = {entry.name: entry for entry in _ENTRIES}
