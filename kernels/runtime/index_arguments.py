"""Names of arguments that describe an index or a selection and stay in main memory.

The only list of them, for ops and for kernels. It imports nothing, since the registry of ops
imports it.
"""

INDEX_ARGUMENTS = frozenset(
    (
        *("offsets", "q_offsets", "k_offsets", "hyp_offsets", "ref_offsets", "row_offsets"),
        *("column_offsets", "starts", "counts", "bounds", "offset", "length", "lengths", "table"),
        *("pad_value", "tokens", "blanks", "topks", "edges", "plan", "kept", "items"),
    )
)
