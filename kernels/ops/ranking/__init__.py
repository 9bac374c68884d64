"""Rank tables of sequences by length, and splits by a mask."""
