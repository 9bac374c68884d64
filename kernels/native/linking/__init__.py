"""From object files to one shared object, and the file that it goes into."""
