"""Arrow IPC, Parquet and Hugging Face datasets."""
