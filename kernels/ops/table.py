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
        module: its file in kernels/ops/, or the full name of a module elsewhere.
        function: its public function there.
        summary: what comes back, in one line.
        equation: the same as a formula; x the rows, y the result, n a sequence's length.
    """

    module: str
    function: str
    summary: str
    equation: str

    def load(self) -> Callable[..., Any]:
        """Return the function itself; its file is imported only now."""
        full = self.module if "." in self.module else f"lodcli.kernels.ops.{self.module}"
        module = importlib.import_module(full)
        return getattr(module, self.function)  # type: ignore[no-any-return]


# ruff: noqa: E501
# fmt: off
OPS: dict[str, OpEntry] = {
    "add": OpEntry("elementwise", "sequence_add", "tensor + other, row by row or one row a sequence", "y[r] = x[r] + z[s]"),
    "attention": OpEntry("attention", "sequence_attention", "attention of each query over the keys of its sequence", "y = softmax(scale q k') v"),
    "concat": OpEntry("concat", "sequence_concat", "the i-th sequences of several tensors joined", "y[i] = x1[i] x2[i] .."),
    "conv": OpEntry("conv", "sequence_conv", "the rows around each row times a matrix", "y[r] = [x[r+a] .. x[r+a+K-1]] W"),
    "ctc_align": OpEntry("distance", "ctc_align", "CTC paths with repetitions merged and blanks dropped", "y = x[r] != x[r-1] and x[r] != blank"),
    "deinterleave": OpEntry("windows", "sequence_deinterleave", "the tensors that interleave took turns with", "y_p[s] = x[p + s k]"),
    "div": OpEntry("elementwise", "sequence_div", "tensor / other, row by row or one row a sequence", "y[r] = x[r] / z[s]"),
    "dot": OpEntry("elementwise", "sequence_dot", "the dot product of each sequence with another tensor's", "y[s] = sum x[r] . z[r]"),
    "edit_distance": OpEntry("distance", "edit_distance", "the edits from each hypothesis to its reference", "y[s] = levenshtein(x[s], z[s])"),
    "enumerate": OpEntry("ids", "sequence_enumerate", "every id with those that follow it", "y[r] = x[r] .. x[r+K-1]"),
    "erase": OpEntry("ids", "sequence_erase", "the sequences without some ids", "y = x[r] not in tokens"),
    "expand": OpEntry("expand", "sequence_expand", "every sequence as often as another tensor's lengths say", "y = x[s] repeated n[s] times"),
    "expand_as": OpEntry("expand", "sequence_expand_as", "one row a sequence, brought to all its rows", "y[r] = x[s]"),
    "first": OpEntry("pool", "sequence_first", "the first row of every sequence", "y[s] = x[lo]"),
    "from_steps": OpEntry("lodcli.kernels.rank", "from_step_array", "the sequences of such steps again", "y[lo+t] = x[t] of s"),
    "im2sequence": OpEntry("im2sequence", "im2sequence", "one row for each window of each picture", "y = windows of x[s]"),
    "interleave": OpEntry("windows", "sequence_interleave", "the sequences of several tensors in turn", "y[p + s k] = x_p[s]"),
    "last": OpEntry("pool", "sequence_last", "the last row of every sequence", "y[s] = x[hi-1]"),
    "lod_append": OpEntry("lod_reset", "lod_append", "the same rows with more levels below", "y = x"),
    "lod_reset": OpEntry("lod_reset", "lod_reset", "the same rows under another index", "y = x"),
    "log_softmax": OpEntry("softmax", "sequence_log_softmax", "the logarithm of softmax", "y = x - log sum exp x"),
    "mask": OpEntry("pad", "sequence_mask", "where a padded box holds rows", "y[s,t] = t < n[s]"),
    "max": OpEntry("pool", "sequence_max", "the greatest value of every column of every sequence", "y[s] = max x[r]"),
    "max_index": OpEntry("pool", "sequence_max_index", "the greatest values and the rows they stand in", "y[s] = max x[r], argmax x[r]"),
    "max_sequence_len": OpEntry("lodcli.kernels.rank", "max_sequence_len", "the longest length of a rank table", "y = max n[s]"),
    "mean": OpEntry("pool", "sequence_mean", "the mean row of every sequence", "y[s] = sum x[r] / n"),
    "merge_by_mask": OpEntry("lodcli.kernels.split", "merge_by_mask", "the two parts of a mask as one batch again", "y[s] = a[i] if mask[s] else b[j]"),
    "min": OpEntry("pool", "sequence_min", "the least value of every column of every sequence", "y[s] = min x[r]"),
    "min_index": OpEntry("pool", "sequence_min_index", "the least values and the rows they stand in", "y[s] = min x[r], argmin x[r]"),
    "mul": OpEntry("elementwise", "sequence_mul", "tensor * other, row by row or one row a sequence", "y[r] = x[r] z[s]"),
    "pad": OpEntry("pad", "sequence_pad", "the sequences side by side in a padded box, and their lengths", "y[s,t] = x[lo+t] if t < n, else pad"),
    "rank_table": OpEntry("lodcli.kernels.rank", "rank_table", "sequences and their lengths, longest first", "y = (s, n[s]) by descending n"),
    "reorder_by_rank": OpEntry("lodcli.kernels.rank", "reorder_by_rank", "the outermost items in the order of a rank table", "y[p] = x[table[p]]"),
    "reshape": OpEntry("reshape", "sequence_reshape", "the values of every sequence in rows of another width", "n[s] = n[s] * D / new_dim"),
    "reverse": OpEntry("reverse", "sequence_reverse", "every sequence backwards", "y[lo+t] = x[hi-1-t]"),
    "row_conv": OpEntry("conv", "row_conv", "every row plus those that follow, weighted by column", "y[r] = sum W[k] x[r+k]"),
    "scatter": OpEntry("scatter", "sequence_scatter", "updates added to chosen columns of each sequence's row", "y[s, ids[r]] += u[r]"),
    "shrink_memory": OpEntry("lodcli.kernels.rank", "shrink_memory", "the states of the sequences alive at a step", "y = x[:alive]"),
    "slice": OpEntry("slice", "sequence_slice", "a part of every sequence", "y[s] = x[lo+offset : lo+offset+length]"),
    "softmax": OpEntry("softmax", "sequence_softmax", "softmax over the rows of every sequence, by column", "y = exp x / sum exp x"),
    "sort_by_length": OpEntry("lodcli.kernels.rank", "sort_by_length", "the sequences of a level, longest first", "y = x[s] by descending n"),
    "split_by_mask": OpEntry("lodcli.kernels.split", "split_by_mask", "the sequences where a mask is true, and the others", "a = x[mask], b = x[not mask]"),
    "sqrt": OpEntry("pool", "sequence_sqrt", "the sum over the root of the length", "y[s] = sum x[r] / sqrt n"),
    "sub": OpEntry("elementwise", "sequence_sub", "tensor - other, row by row or one row a sequence", "y[r] = x[r] - z[s]"),
    "sum": OpEntry("pool", "sequence_sum", "the sum of the rows of every sequence", "y[s] = sum x[r]"),
    "to_steps": OpEntry("lodcli.kernels.rank", "to_step_array", "step t: item t of every sequence longer than t, by rank", "y[t] = x[lo+t] of all n > t"),
    "topk_avg_pooling": OpEntry("topk_avg_pooling", "sequence_topk_avg_pooling", "averages of the k largest values of every matrix row", "y[r, k] = sum of k largest x[r] / k"),
    "unpad": OpEntry("pad", "sequence_unpad", "the rows of a padded box without the padding", "y[lo+t] = x[s,t] for t < n[s]"),
    "windows": OpEntry("windows", "sequence_windows", "every sequence as windows over its items", "y[s, w] = x[lo+w stride ..+length]"),
}
# fmt: on
