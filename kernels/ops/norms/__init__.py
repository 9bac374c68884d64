"""Layer and RMS normalization of rows."""
