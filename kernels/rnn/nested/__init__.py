"""RNNs over sentences inside of RNNs over articles."""
