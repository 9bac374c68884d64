"""Expressions over tensors: a small safe language, and where one is wrong."""
