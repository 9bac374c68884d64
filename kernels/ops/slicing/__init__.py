"""Slices, truncates and reverses sequences."""
