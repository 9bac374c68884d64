"""Parts of sequences, and sequences in reverse."""
