"""Changes the row width or the index, not the values."""
