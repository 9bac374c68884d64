"""Parts of sequences, and reversed sequences."""
