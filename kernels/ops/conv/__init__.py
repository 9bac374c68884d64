"""Convolutions over the rows around each row, and pictures to sequences."""
