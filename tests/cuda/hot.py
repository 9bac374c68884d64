"""The most important kernels of every .cu file, with the types in common use."""

from __future__ import annotations

from pathlib import Path

from lodcli.kernels import errors

ROOT = Path(__file__).parents[2]
KERNELS = Path(errors.__file__).parent
SOURCES = {path.stem: path for path in KERNELS.rglob("*.cu")}
HEADERS = sorted(KERNELS.rglob("*.cuh"))
# Tests of data in main memory, or with explicit backends.
_NOT_ON_A_GPU = {
    *("test_argument_types", "test_awkward", "test_call_counts", "test_gradient_convention"),
    *("test_gradients", "test_index_checks", "test_lod_reset", "test_matrix"),
    *("test_nontemporal_stores", "test_numpy_numbers", "test_out", "test_row_ranges"),
}
# The tests of the ops that tests/cuda/moving.py can run on a GPU's kernels.
TESTED = [
    str(path.relative_to(ROOT))
    for path in sorted((ROOT / "tests" / "kernels" / "ops").rglob("test_*.py"))
    if path.stem not in _NOT_ON_A_GPU
]

# Golden cases and torch's, and which of them: numba's twins there would be the same again.
TESTED_RNNS = ["tests/kernels/rnn/test_golden_rnn.py", "tests/kernels/rnn/test_torch.py"]
OF_RNNS = "not numba and not attention and not wide"

# Tests of rows that are on a GPU already.
ON_ARRAYS = [
    str(path.relative_to(ROOT))
    for path in sorted((ROOT / "tests" / "cuda").glob("test_*.py"))
    if path.stem not in {"test_compile", "test_on_gpu", "test_peers"}
]

HOT: dict[str, tuple[str, ...]] = {
    "attention": (
        *(
            "attention<ExactTiles<float, 1, 128>, float>",
            "attention<ExactTiles<float, 2, 128>, float>",
        ),
        "attention<ExactTiles<double, 2, 128>, double>",
        "attention<RoundedTiles<TF32, 64, 64, 1>, float>",
        "attention<RoundedTiles<TF32, 128, 32, 1>, float>",
        "attention<RoundedTiles<FP16, 64, 64, 1>, float16>",
        "attention<RoundedTiles<BF16, 128, 64, 1>, bfloat16>",
        "attention<RoundedTiles<FP16, 64, 64, 1>, float>",
        "attention_joined<ExactTiles<float, 1, 128>, float>",
        "attention_joined<RoundedTiles<BF16, 128, 64, 1>, bfloat16>",
        "attention_grad<ExactTiles<float, 1, 256>, float, QUERY>",
        "attention_grad<ExactTiles<float, 2, 256>, float, KEY>",
        "attention_grad<ExactTiles<double, 2, 128>, double, KEY>",
        "attention_grad<RoundedTiles<TF32, 128, 16, 2>, float, KEY>",
        "attention_grad<RoundedTiles<FP16, 64, 32, 2>, float16, QUERY>",
        "attention_grad<RoundedTiles<FP16, 64, 32, 2>, float16, KEY>",
        "attention_grad<RoundedTiles<BF16, 128, 16, 2>, bfloat16, QUERY>",
        "attention_grad<RoundedTiles<BF16, 128, 16, 2>, bfloat16, KEY>",
    ),
    "conv": (
        "conv_context<float>",
        "conv_grad_rows<float>",
        "row_conv<float>",
        "row_conv_grad_weight<float>",
    ),
    "crc32c": ("crc32c_parts",),
    "edit_distance": ("edit_distance<uint64>", "ctc_kept<uint64>"),
    "elementwise": (
        "binary<float, float, float, float, ADD, 4>",
        "binary<bfloat16, bfloat16, float, bfloat16, MUL, 8>",
        "binary<int64, int64, double, double, DIV, 2>",
        "binary<float, float, float, float, ADD, 1>",
        "dot_rows<float, float, float, 4>",
        "binary_grad<float, MUL, 4>",
        "binary_grad<float, DIV, 4>",
    ),
    "ids": (
        *("enumerate<uint64>", "erase_kept<int64>", "mask_kept"),
        *("compress_rows<uint4>", "compress_rows<uint64>"),
    ),
    "im2sequence": ("windows<unsigned int>", "windows_grad<float>"),
    "row_copies": (
        *("move_runs<uint4>", "move_runs<unsigned int>", "move_pad<uint4>"),
        *("move_narrow_runs<unsigned int>", "move_narrow_pad<unsigned int>"),
        *("move_unpad<uint4>", "concat_rows<uint4, 0>", "concat_rows<uint4, 1>"),
    ),
    "norms": (
        "norm_rows<float, float, LAYER, 4>",
        "norm_rows<float, float, RMS, 4>",
        "norm_rows<bfloat16, bfloat16, LAYER, 8>",
        "norm_grad_rows<float, float, LAYER, 4>",
        "norm_grad_rows<bfloat16, float, LAYER, 8>",
        "norm_grad_columns<float, 4>",
        "norm_grad_columns<bfloat16, 8>",
    ),
    "pool": (
        "pool_tiles<float, float, float, SUM, 4>",
        "pool_tiles<float, float, float, MAX, 4>",
        "pool_tiles<float, float, float, MAX_INDEX, 4>",
        "pool_tiles<float, float, float, SUM, 1>",
        "pool_tiles<double, double, double, SUM, 2>",
        "pool_tiles<bfloat16, float, bfloat16, SUM, 8>",
        "pool_tiles<float16, float, float16, SUM, 8>",
        "pool_tiles<float16, float, float16, MAX_INDEX, 4>",
        "pool_narrow<float, float, float, SUM>",
        "pool_narrow<float, float, float, MAX_INDEX>",
        "pool_parts<float, float, SUM>",
        "pool_pick<uint4>",
    ),
    "pool_grad": (
        "pool_spread<float, float, 4>",
        "pool_spread<float, float, 1>",
        "pool_spread<float16, float, 8>",
        *("pool_taken<unsigned int, 4>", "pool_taken<unsigned short, 4>"),
        *("pool_taken<unsigned int, 1>", "pool_scatter<unsigned int>"),
    ),
    "rnn_cluster": (
        *(
            f"cluster_{direction}<{size}, {types}>"
            for direction in ("forward", "backward")
            for size, types in (
                (1, "LSTM<SIGMOID, TANH, TANH, false>, Exact<float, Pair>"),
                (8, "LSTM<SIGMOID, TANH, TANH, false>, Exact<float, Pair>"),
                (4, "GRU, Rounded<TF32, Pair>"),
                (8, "LSTM<SIGMOID, TANH, TANH, false>, Rounded<BF16, Pair>, bfloat16"),
                (2, "Elman<TANH>, Exact<double, Pair>"),
            )
        ),
    ),
    "rnn_gru_paddle": (
        "paddle_gates<float, SIGMOID>",
        "paddle_step<float, TANH, false>",
        "paddle_candidate_gradient<float, SIGMOID, TANH, false>",
        "paddle_reset_gradient<float, SIGMOID>",
    ),
    "rnn_persistent": (
        "persistent_forward<LSTM<SIGMOID, TANH, TANH, false>, Exact<float>>",
        "persistent_forward<LSTM<SIGMOID, TANH, TANH, false>, Rounded<TF32>>",
        "persistent_forward<LSTM<SIGMOID, TANH, TANH, false>, Rounded<BF16>>",
        "persistent_forward<GRU, Exact<float>>",
        "persistent_forward<GRU, Exact<double>>",
        "persistent_forward<Elman<TANH>, Rounded<FP16>>",
        "persistent_backward<LSTM<SIGMOID, TANH, TANH, false>, Exact<float>>",
        "persistent_backward<LSTM<SIGMOID, TANH, TANH, false>, Exact<double>>",
        "persistent_backward<GRU, Exact<float>>",
        "persistent_backward<GRU, Rounded<TF32>>",
        "persistent_backward<Elman<TANH>, Exact<float>>",
        *("persistent_forward<SLSTM, Exact<float>>", "persistent_backward<SLSTM, Exact<float>>"),
        "persistent_forward<LSTM<SIGMOID, TANH, TANH, false>, Rounded<BF16>, bfloat16>",
        "persistent_forward<GRU, Rounded<FP16>, float16>",
        "persistent_backward<LSTM<SIGMOID, TANH, TANH, false>, Rounded<BF16>, bfloat16>",
        "persistent_backward<GRU, Rounded<FP16>, float16>",
    ),
    "rnn_product": (
        *("product_few<float>", "product_tiles<float>"),
        *("product_few<double>", "product_tiles<double>"),
        *("product_rounded<TF32>", "product_rounded<FP16>", "product_rounded<BF16>"),
    ),
    "rnn_projection": ("lstm_rows<float>", "lstm_arriving<float>"),
    "rnn_step": (
        *("cell_step<float, Elman<TANH>>", "cell_gradient<float, Elman<TANH>>"),
        *("cell_step<float, GRU>", "cell_gradient<float, GRU>", "cell_step<double, GRU>"),
        "cell_step<float, LSTM<SIGMOID, TANH, TANH, false>>",
        "cell_step<double, LSTM<SIGMOID, TANH, TANH, true>>",
        "cell_gradient<float, LSTM<SIGMOID, TANH, TANH, false>>",
        "cell_gradient<double, LSTM<SIGMOID, TANH, TANH, false>>",
        *("cell_step<float, SLSTM>", "cell_gradient<float, SLSTM>"),
    ),
    "scan": (
        "scan_totals<float, float, SUM, 4>",
        "scan_narrow_totals<float, float, float, SUM>",
        "scan_above<float, SUM>",
        "scan_through<float, SUM>",
        "scan_rows<float, float, float, SUM, 4>",
        "scan_rows<bfloat16, float, bfloat16, SUM, 8>",
        "scan_rows<Complex<float>, Complex<float>, Complex<float>, PRODUCT, 2>",
        "scan_narrow_rows<float, float, float, SUM>",
        "scan_through<Effect<float>, LINEAR>",
        "linear_totals<float, Effects>",
        "linear_rows<float>",
        "linear_rows<Complex<float> >",
        *("linear_totals<float, Backward>", "linear_grad_rows<float>"),
        *("cumprod_totals<float>", "cumprod_rows<float>", "cumprod_grad<float>"),
        "scan_through<Products, PRODUCT>",
        "linear_grad_rows<Complex<float> >",
    ),
    "scatter": (
        "scatter_outside",
        *("scatter_add<float>", "scatter_add<uint64>", "scatter_take<unsigned int>"),
    ),
    "shift": (
        *("shift_rows<uint4>", "shift_rows<unsigned int>"),
        "diff_rows<float, float, float, 4>",
        "diff_rows<float, float, float, 1>",
        "diff_rows<bfloat16, float, bfloat16, 8>",
        "diff_rows<int64, int64, int64, 2>",
        *("diff_grad<float, float, float, 4>", "diff_grad<float, float, float, 1>"),
    ),
    "sort": (
        *("sort_keys<unsigned int, uint64, FLOATING>", "sort_keys<uint64, uint64, SIGNED>"),
        *("sort_short<unsigned int, FLOATING>", "sort_short<uint64, SIGNED>"),
        *("sort_owners<unsigned int>", "sort_places"),
        *("sort_best<unsigned int>", "sort_back<unsigned int>"),
        *("sort_differs<unsigned int, FLOATING>", "sort_falls<unsigned int, FLOATING>"),
        "sort_runs<unsigned int>",
        *("sort_search<unsigned int, FLOATING>", "sort_bins<float>"),
    ),
    "softmax": (
        "softmax_tiles<float, float, SOFTMAX, 4>",
        "softmax_tiles<float, float, SOFTMAX, 1>",
        "softmax_tiles<float, float, LOG_SOFTMAX, 4>",
        "softmax_tiles<bfloat16, float, SOFTMAX, 4>",
        "softmax_tiles<float16, float, SOFTMAX, 4>",
        "softmax_tiles<double, double, SOFTMAX, 2>",
        "softmax_tiles<double, double, LOG_SOFTMAX, 2>",
        "softmax_tiles<float, float, SOFTMAX_GRAD, 4>",
        "softmax_tiles<float, float, LOG_SOFTMAX_GRAD, 4>",
        "softmax_narrow_tiles<float, float, SOFTMAX>",
        "softmax_narrow_tiles<float, float, SOFTMAX_GRAD>",
    ),
    "softmax_long": (
        "softmax_long<float, float, SOFTMAX, 4>",
        "softmax_narrow_long<float, float, SOFTMAX>",
        "softmax_parts<float, SOFTMAX>",
        "softmax_rest<float, float, SOFTMAX, 4>",
        "softmax_rest<float, float, SOFTMAX_GRAD, 4>",
        "softmax_narrow_rest<float, float, SOFTMAX>",
    ),
    "topk_avg_pooling": ("topk_averages<float>", "topk_averages_grad<float>"),
    "windows": ("window_add<float, float, 4>", "window_add<bfloat16, float, 8>"),
}

# Bits of each request to global memory, for rows and for offsets (64): loads, then stores.
REQUESTS: dict[str, dict[str, tuple[set[int], set[int]]]] = {
    "elementwise": {
        "binary<float, float, float, float, ADD, 4>": ({32, 64, 128}, {128}),
        "binary<bfloat16, bfloat16, float, bfloat16, MUL, 8>": ({16, 64, 128}, {128}),
        "binary<int64, int64, double, double, DIV, 2>": ({64, 128}, {128}),
        "dot_rows<float, float, float, 4>": ({128}, {32}),
        "binary_grad<float, MUL, 4>": ({32, 64, 128}, {128}),
        "binary_grad<float, DIV, 4>": ({32, 64, 128}, {128}),
    },
    "ids": {"compress_rows<uint4>": ({8, 32, 64, 128}, {64, 128})},
    "norms": {
        "norm_rows<float, float, LAYER, 4>": ({128}, {128}),
        "norm_rows<float, float, RMS, 4>": ({128}, {128}),
        "norm_rows<bfloat16, bfloat16, LAYER, 8>": ({128}, {128}),
        "norm_grad_rows<float, float, LAYER, 4>": ({128}, {32, 128}),
        "norm_grad_rows<bfloat16, float, LAYER, 8>": ({128}, {32, 128}),
        "norm_grad_columns<float, 4>": ({32, 128}, {128}),
        "norm_grad_columns<bfloat16, 8>": ({32, 128}, {128}),
    },
    "pool": {
        "pool_tiles<float, float, float, SUM, 4>": ({64, 128}, {64, 128}),
        "pool_tiles<float, float, float, MAX, 4>": ({64, 128}, {64, 128}),
        "pool_tiles<float, float, float, MAX_INDEX, 4>": ({64, 128}, {64, 128}),
        "pool_tiles<bfloat16, float, bfloat16, SUM, 8>": ({64, 128}, {64, 128}),
        "pool_tiles<float16, float, float16, SUM, 8>": ({64, 128}, {64, 128}),
        "pool_tiles<float16, float, float16, MAX_INDEX, 4>": ({64}, {64, 128}),
        "pool_tiles<double, double, double, SUM, 2>": ({64, 128}, {64, 128}),
        "pool_pick<uint4>": ({64, 128}, {128}),
    },
    "pool_grad": {
        "pool_spread<float, float, 4>": ({64, 128}, {128}),
        "pool_spread<float16, float, 8>": ({64, 128}, {128}),
        "pool_taken<unsigned int, 4>": ({64, 128}, {128}),
        "pool_taken<unsigned short, 4>": ({64, 128}, {64}),
    },
    "row_copies": {
        "move_runs<uint4>": ({64, 128}, {128}),
        "move_pad<uint4>": ({64, 128}, {128}),
        "move_unpad<uint4>": ({64, 128}, {128}),
        "concat_rows<uint4, 0>": ({64, 128}, {128}),
        "concat_rows<uint4, 1>": ({64, 128}, {128}),
    },
    "scan": {
        "scan_totals<float, float, SUM, 4>": ({64, 128}, {64, 128}),
        "scan_rows<Complex<float>, Complex<float>, Complex<float>, PRODUCT, 2>": ({64, 128}, {128}),
        "scan_rows<float, float, float, SUM, 4>": ({64, 128}, {128}),
        "scan_rows<bfloat16, float, bfloat16, SUM, 8>": ({64, 128}, {128}),
    },
    "shift": {
        "shift_rows<uint4>": ({64, 128}, {128}),
        "diff_rows<float, float, float, 4>": ({64, 128}, {128}),
        "diff_rows<bfloat16, float, bfloat16, 8>": ({64, 128}, {128}),
        "diff_rows<int64, int64, int64, 2>": ({64, 128}, {128}),
        "diff_grad<float, float, float, 4>": ({64, 128}, {128}),
    },
    "softmax": {
        "softmax_tiles<float, float, SOFTMAX, 4>": ({32, 64, 128}, {128}),
        "softmax_tiles<float, float, LOG_SOFTMAX, 4>": ({32, 64, 128}, {128}),
        "softmax_tiles<float, float, SOFTMAX_GRAD, 4>": ({32, 64, 128}, {128}),
        "softmax_tiles<float, float, LOG_SOFTMAX_GRAD, 4>": ({32, 64, 128}, {128}),
        "softmax_tiles<double, double, SOFTMAX, 2>": ({32, 64, 128}, {128}),
        "softmax_tiles<double, double, LOG_SOFTMAX, 2>": ({32, 64, 128}, {128}),
        "softmax_tiles<bfloat16, float, SOFTMAX, 4>": ({32, 64}, {64}),
        "softmax_tiles<float16, float, SOFTMAX, 4>": ({32, 64}, {64}),
    },
    "softmax_long": {
        "softmax_long<float, float, SOFTMAX, 4>": ({64, 128}, {64, 128}),
        "softmax_rest<float, float, SOFTMAX, 4>": ({64, 128}, {128}),
        "softmax_rest<float, float, SOFTMAX_GRAD, 4>": ({32, 64, 128}, {128}),
    },
    "windows": {
        "window_add<float, float, 4>": ({64, 128}, {128}),
        "window_add<bfloat16, float, 8>": ({64, 128}, {128}),
    },
}
