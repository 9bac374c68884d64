"""The .ts files of sktime and aeon."""
