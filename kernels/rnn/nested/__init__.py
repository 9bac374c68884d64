"""Nested RNNs: an inner RNN over sentences, an outer RNN over articles."""
