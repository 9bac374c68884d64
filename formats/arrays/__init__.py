"""Arrays of a file: read where they lie, and written in parts, as batches come."""
