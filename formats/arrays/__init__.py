"""Arrays of a file: read in place, and written in parts as batches arrive."""
