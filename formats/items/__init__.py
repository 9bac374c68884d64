"""Selects whole items of a level, from all tensors of a file that share it."""
