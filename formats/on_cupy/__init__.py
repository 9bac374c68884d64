"""Files of ours to the memory of a GPU."""
