"""How long tests wait for other processes and threads."""

# Only what hangs takes as long, also on a busy machine: no verdict depends on how fast one is.
HANG_SECONDS = 600
