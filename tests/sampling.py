"""How much a test tries of what it could try exhaustively.

A share as a rule, the same in every run; everything where LOD_TEST_THOROUGH=1, as before a release.
"""

from __future__ import annotations

import os

THOROUGH = os.environ.get("LOD_TEST_THOROUGH") == "1"


def every(step: int) -> int:
    """Return the step through all there is: 1 in a thorough run."""
    return 1 if THOROUGH else step


def many(count: int, *, share: int = 5) -> int:
    """Return how many to try: all, or one of `share` of them."""
    return count if THOROUGH else -(-count // share)
