"""The Elman cell."""
