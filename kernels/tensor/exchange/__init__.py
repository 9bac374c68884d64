"""Rows and an index as the values of other libraries, and back: one library a module."""
