"""One layer in one direction, forward and backward."""
