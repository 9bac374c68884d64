"""The same values under another row width or another index."""
