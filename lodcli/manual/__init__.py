"""Man pages, made of the commands when the package is built."""
