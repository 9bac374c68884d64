"""One row per sequence: sum, mean, max, first, last, top-k averages."""
