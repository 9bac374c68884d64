"""The share of exhaustive cases that a test runs.

A share as a rule, the same in every run; everything where LOD_TEST_THOROUGH=1, as before a release.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any

THOROUGH = os.environ.get("LOD_TEST_THOROUGH") == "1"


def every(step: int) -> int:
    """Return the step through all there is: 1 in a thorough run."""
    return 1 if THOROUGH else step


def many(count: int, *, share: int = 5) -> int:
    """Return how many to try: all, or one of `share` of them."""
    return count if THOROUGH else -(-count // share)


def by_turns(step: int, *values: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return one of `step` of all combinations, all in a thorough run.

    Each value comes with those of the other lists by turns. None is left out if two lists have at
    least `step` values.
    """
    combined = itertools.product(*(enumerate(each) for each in values))
    return [
        tuple(value for _, value in one)
        for one in combined
        if sum(place for place, _ in one) % every(step) == 0
    ]
