"""Conversion to and from padded batches."""
