"""Selection of the part of exhaustive cases that a test runs.

By default a part, the same in every run; with LOD_TEST_THOROUGH=1, as before a release, all cases.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any

THOROUGH = os.environ.get("LOD_TEST_THOROUGH") == "1"


def every(step: int) -> int:
    """Return the step for iterating over all cases: 1 in a thorough run."""
    return 1 if THOROUGH else step


def many(count: int, *, share: int = 5) -> int:
    """Return the number of cases to try: all in a thorough run, else count / share."""
    return count if THOROUGH else -(-count // share)


def by_turns(step: int, *values: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return one of every `step` combinations of values; all in a thorough run.

    Each value is combined with the values of the other lists in turn. No value is left out if two
    lists have at least `step` values.
    """
    combined = itertools.product(*(enumerate(each) for each in values))
    return [
        tuple(value for _, value in one)
        for one in combined
        if sum(place for place, _ in one) % every(step) == 0
    ]
