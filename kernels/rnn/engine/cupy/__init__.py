"""Parts of layer_cupy.py. See docs/decisions/0021-rnn-on-a-gpu.md."""
