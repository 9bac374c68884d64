"""Operating-system calls of lod, each with its fallback.

No other module imports `fcntl` or `resource`, looks into /proc, or calls what Windows or macOS
lack. The docstring of a function says what is weaker where the system lacks its call;
docs/platforms.md says the same to users.
"""
