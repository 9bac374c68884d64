"""Scanners of text that are compiled. What they cannot vouch for is left to exact Python code."""
