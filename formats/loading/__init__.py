"""Files as datasets for training: items by number, batches by length, and layouts of batches."""
