"""Reading in a sandboxed child process."""
