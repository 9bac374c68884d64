"""Arrays: the index, the tensor, sequence ops and RNNs. Knows no file and no terminal."""
