"""Sequences by length, and split by a mask."""
