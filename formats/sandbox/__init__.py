"""Reading in a child process that can do nothing else."""
