"""Timeout of tests that wait for other processes and threads."""

# So long that only a hang exceeds it, also on a busy machine: no result depends on speed.
HANG_SECONDS = 600
