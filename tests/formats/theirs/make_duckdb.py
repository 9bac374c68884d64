"""How duckdb_arrays.parquet was made by DuckDB 2.0.1: an array that is null has items."""

import duckdb

duckdb.sql(
    "COPY (FROM (VALUES ([1, 2]::INT[2]), (NULL), ([3, 4]::INT[2])) arrays(x)) "
    "TO 'duckdb_arrays.parquet'"
)
