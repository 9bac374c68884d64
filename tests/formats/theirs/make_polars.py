"""How polars.parquet was made by Polars 0.20.10: python make_polars.py.

The statistics of a row group with nan have another greatest value, and count no nulls of categories
and of lists.
"""

import polars as pl

nan = float("nan")
made = pl.DataFrame(
    {
        "id": [0, 1, 2, 3, 4, 5],
        "x": [1.5, nan, -2.0, 3.5, nan, 0.5],
        "c": pl.Series(["a", None, "b", "a", "b", "b"], dtype=pl.Categorical),
        "l": [[1], None, [], [2], [3], [4]],
    }
)
made.write_parquet("polars.parquet", row_group_size=3, statistics=True, compression="uncompressed")
