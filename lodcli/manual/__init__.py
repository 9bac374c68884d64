"""Man pages, generated from the commands when the package is built."""
