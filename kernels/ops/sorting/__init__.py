"""Sorting, top-k, unique, searchsorted, histograms within sequences."""
