"""`lod convert`, and its lists of formats and losses."""
