"""The same values with another row width or another index."""
