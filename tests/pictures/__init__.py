"""The pictures of README.md and docs/, drawn from real runs: `python -m tests.pictures`."""
