"""`lod convert`, and what it tells of formats."""
