"""Prefix sums and products."""
