"""Measurements as tables, plots and files."""
