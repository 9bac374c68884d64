"""Rows of files straight to the memory of a GPU."""
