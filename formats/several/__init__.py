"""Several files as one: those that match a pattern, or that are in a folder."""
