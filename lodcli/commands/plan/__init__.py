"""`lod plan`."""
