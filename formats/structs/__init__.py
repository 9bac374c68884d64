"""Tensors of a file as records."""
