"""What layer_numba.py is made of. See docs/decisions/0008-compiled-rnn.md."""
