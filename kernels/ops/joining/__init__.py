"""Sequences joined, repeated, interleaved, cut into windows."""
