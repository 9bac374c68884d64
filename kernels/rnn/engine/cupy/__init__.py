"""What layer_cupy.py is made of. See docs/decisions/0021-rnn-on-a-gpu.md."""
