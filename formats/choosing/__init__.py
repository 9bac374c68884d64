"""Reading only the parts of a file that may hold chosen items."""
