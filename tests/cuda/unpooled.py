"""Gives every array of cupy's memory of its own, so that a tool sees what is written beside it.

    compute-sanitizer python -m pytest -p tests.cuda.unpooled ..

From cupy's pool arrays are cut out of larger blocks: a kernel that leaves its own lands in the
next one.
"""

from __future__ import annotations

import cupy

cupy.cuda.set_allocator(None)
