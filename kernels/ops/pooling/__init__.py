"""One row a sequence: sum, mean, max, first, last, top-k averages."""
