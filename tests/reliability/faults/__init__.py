"""Faults of the operating system: at every call, at a power cut, of memory."""
