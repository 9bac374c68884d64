"""The LoD index: offsets, checks, selections, other forms."""
