"""Scanners of text compiled by numba. What they cannot vouch for is left to exact Python code.

Threads and cache are those of the kernels: docs/decisions/0007-numba-threads.md.
"""

import lodcli.kernels.on_numba  # noqa: F401 - chooses numba's cache folder before it is used
