"""The GRU cell of Paddle."""
