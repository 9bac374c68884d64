"""Files as data sets for training: items by number, batches by length, and their forms."""
