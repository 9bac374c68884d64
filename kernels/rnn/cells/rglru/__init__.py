"""RG-LRU."""
