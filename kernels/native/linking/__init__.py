"""Links object files to one shared object, and stores it in a file."""
