"""Rows and an index from and to other libraries, one module each."""
