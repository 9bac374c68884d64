"""Test kit for formats of lod and of plug-ins."""
