"""Convolutions over the rows around each row, and images to sequences."""
