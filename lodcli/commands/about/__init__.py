"""Commands about lod itself, for shells and scripts."""
