"""Rows with an index: LoDTensor, TensorArray, time steps."""
