"""Tensors to time steps and back, of more than fits into memory."""
