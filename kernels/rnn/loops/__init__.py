"""RNNs whose step is a function: while loops, DynamicRNN; attention_lstm."""
