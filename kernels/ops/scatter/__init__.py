"""Updates added at chosen places."""
