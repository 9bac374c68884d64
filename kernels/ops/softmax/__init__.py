"""softmax and log_softmax over sequences."""
