"""Decompressed sizes of Arrow and Parquet files, computed before decompression."""
