"""Test kit for formats, ours and those of plug-ins."""
