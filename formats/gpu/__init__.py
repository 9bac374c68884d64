"""Reads rows of files directly to the memory of a GPU."""
