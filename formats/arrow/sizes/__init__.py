"""How large Arrow and Parquet files get when decompressed, found before they are."""
