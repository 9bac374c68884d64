"""The order of numbers and of texts: comparisons, ranks, stable sorts."""
