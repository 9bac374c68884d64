"""Files: bytes to LoDTensors and back. One file a format, one line in table.py."""
