"""Concatenates, repeats and interleaves sequences, and cuts windows."""
