"""Files that break the rules of docs/format.md, made once a process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats.broken.broken_hdf5 import put_others
from tests.formats.broken.containers import CASES


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Give the path of every broken file, by the case's name. Tests only read them."""
    folder = tmp_path_factory.mktemp("broken")
    put_others(folder)
    return {str(each): each.build(folder) for each in CASES}
