"""Writing a container."""
