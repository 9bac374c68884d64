"""Names of arguments that describe an index or a selection and stay in main memory.

The one list, of ops and of the kernels below them. It imports nothing, for the registry of ops.
"""

INDEX_ARGUMENTS = frozenset(
    (
        *("offsets", "q_offsets", "k_offsets", "hyp_offsets", "ref_offsets", "row_offsets"),
        *("column_offsets", "starts", "counts", "bounds", "offset", "length", "lengths", "table"),
        *("pad_value", "tokens", "blanks", "topks", "edges", "plan", "kept", "items"),
    )
)
