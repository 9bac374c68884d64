"""Allocates every cupy array separately, so that a tool detects writes beside it.

    compute-sanitizer python -m pytest -p tests.cuda.unpooled ..

cupy's pool cuts arrays from larger blocks: a kernel that leaves its own array would write to the
next one.
"""

from __future__ import annotations

import cupy

cupy.cuda.set_allocator(None)
