"""Arithmetic of two tensors, row by row or one row per sequence."""
