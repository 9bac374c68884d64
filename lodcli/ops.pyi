# Made by `python -m tests.make_stubs` of the module beside it: change that one.
from lodcli.kernels.ops.attention.attention import sequence_attention as sequence_attention
from lodcli.kernels.ops.attention.attention import (
    sequence_attention_grad as sequence_attention_grad,
)
from lodcli.kernels.ops.conv.conv import sequence_conv as sequence_conv
from lodcli.kernels.ops.conv.conv import sequence_row_conv as sequence_row_conv
from lodcli.kernels.ops.conv.conv_grad import sequence_conv_grad as sequence_conv_grad
from lodcli.kernels.ops.conv.conv_grad import sequence_row_conv_grad as sequence_row_conv_grad
from lodcli.kernels.ops.conv.im2sequence import sequence_im2sequence as sequence_im2sequence
from lodcli.kernels.ops.conv.im2sequence import (
    sequence_im2sequence_grad as sequence_im2sequence_grad,
)
from lodcli.kernels.ops.elementwise.elementwise import sequence_add as sequence_add
from lodcli.kernels.ops.elementwise.elementwise import sequence_div as sequence_div
from lodcli.kernels.ops.elementwise.elementwise import sequence_dot as sequence_dot
from lodcli.kernels.ops.elementwise.elementwise import sequence_mul as sequence_mul
from lodcli.kernels.ops.elementwise.elementwise import sequence_sub as sequence_sub
from lodcli.kernels.ops.elementwise.elementwise_grad import sequence_add_grad as sequence_add_grad
from lodcli.kernels.ops.elementwise.elementwise_grad import sequence_div_grad as sequence_div_grad
from lodcli.kernels.ops.elementwise.elementwise_grad import sequence_dot_grad as sequence_dot_grad
from lodcli.kernels.ops.elementwise.elementwise_grad import sequence_mul_grad as sequence_mul_grad
from lodcli.kernels.ops.elementwise.elementwise_grad import sequence_sub_grad as sequence_sub_grad
from lodcli.kernels.ops.ids.edit_distance import sequence_ctc_align as sequence_ctc_align
from lodcli.kernels.ops.ids.edit_distance import sequence_edit_distance as sequence_edit_distance
from lodcli.kernels.ops.ids.ids import sequence_enumerate as sequence_enumerate
from lodcli.kernels.ops.ids.ids import sequence_erase as sequence_erase
from lodcli.kernels.ops.joining.concat import sequence_concat as sequence_concat
from lodcli.kernels.ops.joining.concat import sequence_concat_grad as sequence_concat_grad
from lodcli.kernels.ops.joining.expand import sequence_expand as sequence_expand
from lodcli.kernels.ops.joining.expand import sequence_expand_as as sequence_expand_as
from lodcli.kernels.ops.joining.expand import sequence_expand_as_grad as sequence_expand_as_grad
from lodcli.kernels.ops.joining.expand import sequence_expand_grad as sequence_expand_grad
from lodcli.kernels.ops.joining.windows import sequence_deinterleave as sequence_deinterleave
from lodcli.kernels.ops.joining.windows import (
    sequence_deinterleave_grad as sequence_deinterleave_grad,
)
from lodcli.kernels.ops.joining.windows import sequence_interleave as sequence_interleave
from lodcli.kernels.ops.joining.windows import sequence_interleave_grad as sequence_interleave_grad
from lodcli.kernels.ops.joining.windows import sequence_windows as sequence_windows
from lodcli.kernels.ops.joining.windows import sequence_windows_grad as sequence_windows_grad
from lodcli.kernels.ops.norms.norms import sequence_layer_norm as sequence_layer_norm
from lodcli.kernels.ops.norms.norms import sequence_layer_norm_grad as sequence_layer_norm_grad
from lodcli.kernels.ops.norms.norms import sequence_rms_norm as sequence_rms_norm
from lodcli.kernels.ops.norms.norms import sequence_rms_norm_grad as sequence_rms_norm_grad
from lodcli.kernels.ops.padding.pad import sequence_mask as sequence_mask
from lodcli.kernels.ops.padding.pad import sequence_pad as sequence_pad
from lodcli.kernels.ops.padding.pad import sequence_pad_grad as sequence_pad_grad
from lodcli.kernels.ops.padding.pad import sequence_unpad as sequence_unpad
from lodcli.kernels.ops.padding.pad import sequence_unpad_grad as sequence_unpad_grad
from lodcli.kernels.ops.plugins import Op as Op
from lodcli.kernels.ops.plugins import find_op as find_op
from lodcli.kernels.ops.pooling.pool import sequence_first as sequence_first
from lodcli.kernels.ops.pooling.pool import sequence_last as sequence_last
from lodcli.kernels.ops.pooling.pool import sequence_max as sequence_max
from lodcli.kernels.ops.pooling.pool import sequence_max_index as sequence_max_index
from lodcli.kernels.ops.pooling.pool import sequence_mean as sequence_mean
from lodcli.kernels.ops.pooling.pool import sequence_min as sequence_min
from lodcli.kernels.ops.pooling.pool import sequence_min_index as sequence_min_index
from lodcli.kernels.ops.pooling.pool import sequence_sqrt as sequence_sqrt
from lodcli.kernels.ops.pooling.pool import sequence_sum as sequence_sum
from lodcli.kernels.ops.pooling.pool_grad import sequence_first_grad as sequence_first_grad
from lodcli.kernels.ops.pooling.pool_grad import sequence_last_grad as sequence_last_grad
from lodcli.kernels.ops.pooling.pool_grad import sequence_max_grad as sequence_max_grad
from lodcli.kernels.ops.pooling.pool_grad import sequence_mean_grad as sequence_mean_grad
from lodcli.kernels.ops.pooling.pool_grad import sequence_min_grad as sequence_min_grad
from lodcli.kernels.ops.pooling.pool_grad import sequence_sqrt_grad as sequence_sqrt_grad
from lodcli.kernels.ops.pooling.pool_grad import sequence_sum_grad as sequence_sum_grad
from lodcli.kernels.ops.pooling.topk_avg_pooling import (
    sequence_topk_avg_pooling as sequence_topk_avg_pooling,
)
from lodcli.kernels.ops.pooling.topk_avg_pooling import (
    sequence_topk_avg_pooling_grad as sequence_topk_avg_pooling_grad,
)
from lodcli.kernels.ops.ranking.rank_table import sequence_from_steps as sequence_from_steps
from lodcli.kernels.ops.ranking.rank_table import (
    sequence_from_steps_grad as sequence_from_steps_grad,
)
from lodcli.kernels.ops.ranking.rank_table import (
    sequence_max_sequence_len as sequence_max_sequence_len,
)
from lodcli.kernels.ops.ranking.rank_table import sequence_rank_table as sequence_rank_table
from lodcli.kernels.ops.ranking.rank_table import (
    sequence_reorder_by_rank as sequence_reorder_by_rank,
)
from lodcli.kernels.ops.ranking.rank_table import (
    sequence_reorder_by_rank_grad as sequence_reorder_by_rank_grad,
)
from lodcli.kernels.ops.ranking.rank_table import sequence_shrink_memory as sequence_shrink_memory
from lodcli.kernels.ops.ranking.rank_table import (
    sequence_shrink_memory_grad as sequence_shrink_memory_grad,
)
from lodcli.kernels.ops.ranking.rank_table import sequence_sort_by_length as sequence_sort_by_length
from lodcli.kernels.ops.ranking.rank_table import (
    sequence_sort_by_length_grad as sequence_sort_by_length_grad,
)
from lodcli.kernels.ops.ranking.rank_table import sequence_to_steps as sequence_to_steps
from lodcli.kernels.ops.ranking.rank_table import sequence_to_steps_grad as sequence_to_steps_grad
from lodcli.kernels.ops.ranking.split_by_mask import (
    sequence_merge_by_mask as sequence_merge_by_mask,
)
from lodcli.kernels.ops.ranking.split_by_mask import (
    sequence_merge_by_mask_grad as sequence_merge_by_mask_grad,
)
from lodcli.kernels.ops.ranking.split_by_mask import (
    sequence_split_by_mask as sequence_split_by_mask,
)
from lodcli.kernels.ops.ranking.split_by_mask import (
    sequence_split_by_mask_grad as sequence_split_by_mask_grad,
)
from lodcli.kernels.ops.registry import OPS as OPS
from lodcli.kernels.ops.registry import OpEntry as OpEntry
from lodcli.kernels.ops.reshaping.lod_reset import sequence_lod_append as sequence_lod_append
from lodcli.kernels.ops.reshaping.lod_reset import sequence_lod_reset as sequence_lod_reset
from lodcli.kernels.ops.reshaping.lod_reset import (
    sequence_lod_reset_grad as sequence_lod_reset_grad,
)
from lodcli.kernels.ops.reshaping.reshape import sequence_reshape as sequence_reshape
from lodcli.kernels.ops.reshaping.reshape import sequence_reshape_grad as sequence_reshape_grad
from lodcli.kernels.ops.scan.linear_scan import sequence_linear_scan as sequence_linear_scan
from lodcli.kernels.ops.scan.linear_scan import (
    sequence_linear_scan_grad as sequence_linear_scan_grad,
)
from lodcli.kernels.ops.scan.scan import sequence_cumprod as sequence_cumprod
from lodcli.kernels.ops.scan.scan import sequence_cumprod_grad as sequence_cumprod_grad
from lodcli.kernels.ops.scan.scan import sequence_cumsum as sequence_cumsum
from lodcli.kernels.ops.scan.scan import sequence_cumsum_grad as sequence_cumsum_grad
from lodcli.kernels.ops.scatter.scatter import sequence_scatter as sequence_scatter
from lodcli.kernels.ops.scatter.scatter import sequence_scatter_grad as sequence_scatter_grad
from lodcli.kernels.ops.shifting.shift import sequence_diff as sequence_diff
from lodcli.kernels.ops.shifting.shift import sequence_diff_grad as sequence_diff_grad
from lodcli.kernels.ops.shifting.shift import sequence_shift as sequence_shift
from lodcli.kernels.ops.shifting.shift import sequence_shift_grad as sequence_shift_grad
from lodcli.kernels.ops.slicing.reverse import sequence_reverse as sequence_reverse
from lodcli.kernels.ops.slicing.reverse import sequence_reverse_grad as sequence_reverse_grad
from lodcli.kernels.ops.slicing.slice import sequence_slice as sequence_slice
from lodcli.kernels.ops.slicing.slice import sequence_slice_grad as sequence_slice_grad
from lodcli.kernels.ops.slicing.truncate import sequence_truncate as sequence_truncate
from lodcli.kernels.ops.slicing.truncate import sequence_truncate_grad as sequence_truncate_grad
from lodcli.kernels.ops.softmax.softmax import sequence_log_softmax as sequence_log_softmax
from lodcli.kernels.ops.softmax.softmax import (
    sequence_log_softmax_grad as sequence_log_softmax_grad,
)
from lodcli.kernels.ops.softmax.softmax import sequence_softmax as sequence_softmax
from lodcli.kernels.ops.softmax.softmax import sequence_softmax_grad as sequence_softmax_grad
from lodcli.kernels.ops.sorting.sort import sequence_argsort as sequence_argsort
from lodcli.kernels.ops.sorting.sort import sequence_deduplicate as sequence_deduplicate
from lodcli.kernels.ops.sorting.sort import sequence_histogram as sequence_histogram
from lodcli.kernels.ops.sorting.sort import sequence_searchsorted as sequence_searchsorted
from lodcli.kernels.ops.sorting.sort import sequence_sort as sequence_sort
from lodcli.kernels.ops.sorting.sort import sequence_topk as sequence_topk
from lodcli.kernels.ops.sorting.sort import sequence_unique as sequence_unique
from lodcli.kernels.ops.sorting.sort import sequence_unique_counts as sequence_unique_counts
from lodcli.kernels.ops.sorting.sort_grad import sequence_sort_grad as sequence_sort_grad
from lodcli.kernels.ops.sorting.sort_grad import sequence_topk_grad as sequence_topk_grad
from lodcli.kernels.runtime.dispatch import Backend as Backend

add = sequence_add
add_grad = sequence_add_grad
argsort = sequence_argsort
attention = sequence_attention
attention_grad = sequence_attention_grad
concat = sequence_concat
concat_grad = sequence_concat_grad
conv = sequence_conv
conv_grad = sequence_conv_grad
ctc_align = sequence_ctc_align
cumprod = sequence_cumprod
cumprod_grad = sequence_cumprod_grad
cumsum = sequence_cumsum
cumsum_grad = sequence_cumsum_grad
deduplicate = sequence_deduplicate
deinterleave = sequence_deinterleave
deinterleave_grad = sequence_deinterleave_grad
diff = sequence_diff
diff_grad = sequence_diff_grad
div = sequence_div
div_grad = sequence_div_grad
dot = sequence_dot
dot_grad = sequence_dot_grad
edit_distance = sequence_edit_distance
enumerate = sequence_enumerate
erase = sequence_erase
expand = sequence_expand
expand_as = sequence_expand_as
expand_as_grad = sequence_expand_as_grad
expand_grad = sequence_expand_grad
first = sequence_first
first_grad = sequence_first_grad
from_steps = sequence_from_steps
from_steps_grad = sequence_from_steps_grad
histogram = sequence_histogram
im2sequence = sequence_im2sequence
im2sequence_grad = sequence_im2sequence_grad
interleave = sequence_interleave
interleave_grad = sequence_interleave_grad
last = sequence_last
last_grad = sequence_last_grad
layer_norm = sequence_layer_norm
layer_norm_grad = sequence_layer_norm_grad
linear_scan = sequence_linear_scan
linear_scan_grad = sequence_linear_scan_grad
lod_append = sequence_lod_append
lod_append_grad = sequence_lod_reset_grad
lod_reset = sequence_lod_reset
lod_reset_grad = sequence_lod_reset_grad
log_softmax = sequence_log_softmax
log_softmax_grad = sequence_log_softmax_grad
mask = sequence_mask
max = sequence_max
max_grad = sequence_max_grad
max_index = sequence_max_index
max_index_grad = sequence_max_grad
max_sequence_len = sequence_max_sequence_len
mean = sequence_mean
mean_grad = sequence_mean_grad
merge_by_mask = sequence_merge_by_mask
merge_by_mask_grad = sequence_merge_by_mask_grad
min = sequence_min
min_grad = sequence_min_grad
min_index = sequence_min_index
min_index_grad = sequence_min_grad
mul = sequence_mul
mul_grad = sequence_mul_grad
pad = sequence_pad
pad_grad = sequence_pad_grad
rank_table = sequence_rank_table
reorder_by_rank = sequence_reorder_by_rank
reorder_by_rank_grad = sequence_reorder_by_rank_grad
reshape = sequence_reshape
reshape_grad = sequence_reshape_grad
reverse = sequence_reverse
reverse_grad = sequence_reverse_grad
rms_norm = sequence_rms_norm
rms_norm_grad = sequence_rms_norm_grad
row_conv = sequence_row_conv
row_conv_grad = sequence_row_conv_grad
scatter = sequence_scatter
scatter_grad = sequence_scatter_grad
searchsorted = sequence_searchsorted
sequence_lod_append_grad = sequence_lod_reset_grad
sequence_max_index_grad = sequence_max_grad
sequence_min_index_grad = sequence_min_grad
shift = sequence_shift
shift_grad = sequence_shift_grad
shrink_memory = sequence_shrink_memory
shrink_memory_grad = sequence_shrink_memory_grad
slice = sequence_slice
slice_grad = sequence_slice_grad
softmax = sequence_softmax
softmax_grad = sequence_softmax_grad
sort = sequence_sort
sort_by_length = sequence_sort_by_length
sort_by_length_grad = sequence_sort_by_length_grad
sort_grad = sequence_sort_grad
split_by_mask = sequence_split_by_mask
split_by_mask_grad = sequence_split_by_mask_grad
sqrt = sequence_sqrt
sqrt_grad = sequence_sqrt_grad
sub = sequence_sub
sub_grad = sequence_sub_grad
sum = sequence_sum
sum_grad = sequence_sum_grad
to_steps = sequence_to_steps
to_steps_grad = sequence_to_steps_grad
topk = sequence_topk
topk_avg_pooling = sequence_topk_avg_pooling
topk_avg_pooling_grad = sequence_topk_avg_pooling_grad
topk_grad = sequence_topk_grad
truncate = sequence_truncate
truncate_grad = sequence_truncate_grad
unique = sequence_unique
unique_counts = sequence_unique_counts
unpad = sequence_unpad
unpad_grad = sequence_unpad_grad
windows = sequence_windows
windows_grad = sequence_windows_grad

__all__ = [
    "OPS",
    "Backend",
    "Op",
    "OpEntry",
    "find_op",
    "sequence_add",
    "sequence_add_grad",
    "sequence_argsort",
    "sequence_attention",
    "sequence_attention_grad",
    "sequence_concat",
    "sequence_concat_grad",
    "sequence_conv",
    "sequence_conv_grad",
    "sequence_ctc_align",
    "sequence_cumprod",
    "sequence_cumprod_grad",
    "sequence_cumsum",
    "sequence_cumsum_grad",
    "sequence_deduplicate",
    "sequence_deinterleave",
    "sequence_deinterleave_grad",
    "sequence_diff",
    "sequence_diff_grad",
    "sequence_div",
    "sequence_div_grad",
    "sequence_dot",
    "sequence_dot_grad",
    "sequence_edit_distance",
    "sequence_enumerate",
    "sequence_erase",
    "sequence_expand",
    "sequence_expand_as",
    "sequence_expand_as_grad",
    "sequence_expand_grad",
    "sequence_first",
    "sequence_first_grad",
    "sequence_from_steps",
    "sequence_from_steps_grad",
    "sequence_histogram",
    "sequence_im2sequence",
    "sequence_im2sequence_grad",
    "sequence_interleave",
    "sequence_interleave_grad",
    "sequence_last",
    "sequence_last_grad",
    "sequence_layer_norm",
    "sequence_layer_norm_grad",
    "sequence_linear_scan",
    "sequence_linear_scan_grad",
    "sequence_lod_append",
    "sequence_lod_append_grad",
    "sequence_lod_reset",
    "sequence_lod_reset_grad",
    "sequence_log_softmax",
    "sequence_log_softmax_grad",
    "sequence_mask",
    "sequence_max",
    "sequence_max_grad",
    "sequence_max_index",
    "sequence_max_index_grad",
    "sequence_max_sequence_len",
    "sequence_mean",
    "sequence_mean_grad",
    "sequence_merge_by_mask",
    "sequence_merge_by_mask_grad",
    "sequence_min",
    "sequence_min_grad",
    "sequence_min_index",
    "sequence_min_index_grad",
    "sequence_mul",
    "sequence_mul_grad",
    "sequence_pad",
    "sequence_pad_grad",
    "sequence_rank_table",
    "sequence_reorder_by_rank",
    "sequence_reorder_by_rank_grad",
    "sequence_reshape",
    "sequence_reshape_grad",
    "sequence_reverse",
    "sequence_reverse_grad",
    "sequence_rms_norm",
    "sequence_rms_norm_grad",
    "sequence_row_conv",
    "sequence_row_conv_grad",
    "sequence_scatter",
    "sequence_scatter_grad",
    "sequence_searchsorted",
    "sequence_shift",
    "sequence_shift_grad",
    "sequence_shrink_memory",
    "sequence_shrink_memory_grad",
    "sequence_slice",
    "sequence_slice_grad",
    "sequence_softmax",
    "sequence_softmax_grad",
    "sequence_sort",
    "sequence_sort_by_length",
    "sequence_sort_by_length_grad",
    "sequence_sort_grad",
    "sequence_split_by_mask",
    "sequence_split_by_mask_grad",
    "sequence_sqrt",
    "sequence_sqrt_grad",
    "sequence_sub",
    "sequence_sub_grad",
    "sequence_sum",
    "sequence_sum_grad",
    "sequence_to_steps",
    "sequence_to_steps_grad",
    "sequence_topk",
    "sequence_topk_avg_pooling",
    "sequence_topk_avg_pooling_grad",
    "sequence_topk_grad",
    "sequence_truncate",
    "sequence_truncate_grad",
    "sequence_unique",
    "sequence_unique_counts",
    "sequence_unpad",
    "sequence_unpad_grad",
    "sequence_windows",
    "sequence_windows_grad",
]
