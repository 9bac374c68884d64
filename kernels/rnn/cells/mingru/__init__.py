"""minGRU."""
