"""To and from padded boxes."""
