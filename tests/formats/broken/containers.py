"""All broken containers: the modules that add theirs to the table, imported."""

from __future__ import annotations

from tests.formats.broken import (  # noqa: F401
    broken_attributes,
    broken_bytes,
    broken_categories,
    broken_records,
    broken_rules,
    broken_structures,
)
from tests.formats.broken.crafted import CASES

__all__ = ["CASES"]
