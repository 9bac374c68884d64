"""`lod warmup`."""
