"""Compiled recurrent layers: see docs/decisions/0008-compiled-rnn.md, and layer.py above."""
