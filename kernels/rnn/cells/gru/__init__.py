"""The GRU cell of torch."""
