"""The LoD index: offsets, how they are checked, selections, other forms."""
