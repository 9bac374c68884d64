"""Attention within sequences."""
