"""Zarr stores of data and offsets, read and written with the zarr package."""
