"""Converts tensors to time steps and back, also if they do not fit into memory."""
