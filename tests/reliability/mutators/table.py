"""The mutators of each kind of file, one registry: what knows its structure and repairs its sums.

A kind is the name of a format, or that of a file inside of one ("json" for the index of a folder).
Generic damage, which repairs nothing, is not here: every file gets it as well.
"""

from __future__ import annotations

from tests.reliability.mutators.generic import Mutator

STRUCTURED: dict[str, tuple[Mutator, ...]] = {}
