"""Commands that match items by keys: group, join."""
