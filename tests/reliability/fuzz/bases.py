"""All bases: importing this fills the registry."""

from __future__ import annotations

from tests.reliability.fuzz import (  # noqa: F401
    bases_arrow,
    bases_hdf5,
    bases_ours,
    bases_theirs,
    bases_weights,
)
from tests.reliability.fuzz.base import BASES

__all__ = ["BASES"]
