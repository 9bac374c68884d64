"""Every format of the table, read in a child process: the same content as without one."""

from __future__ import annotations

from pathlib import Path

import pytest

import lodcli
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.table import TABLE
from tests.formats.cases.every_file import FILES, NEEDS, file_of, made
from tests.formats.cases.processes import python
from tests.slow import one_in

# Prints the name and the shape of everything, and its bytes, once read with and once without.
READ = """
import hashlib, sys
import lodcli
from lodcli.formats.core.format import ReadOptions
from lodcli.formats.core.limits import Limits
path, name, options = sys.argv[1], sys.argv[2], eval(sys.argv[3])
for isolate in (True, False):
    with lodcli.open(
        path, format_name=name, options=ReadOptions(**options), limits=Limits(isolate=isolate)
    ) as source:
        for name_, item in source.read().items():
            data = item.data
            print(name_, data.dtype, data.shape, item.lod.recursive_sequence_lengths()[:1],
                  hashlib.sha256(data.tobytes()).hexdigest())
    print("---")
"""


def test_every_format_is_here() -> None:
    assert list(FILES) == list(TABLE)


@pytest.mark.parametrize("name", one_in(2, FILES))
def test_reading_in_isolation_returns_the_same(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    path, options = file_of(name, tmp_path)
    # A separate process: modules imported before affect what a child may still do.
    done = python(READ, path, name, repr(options))
    assert done.stderr == ""
    isolated, plain, _ = done.stdout.split("---\n")
    assert isolated
    assert isolated == plain


def test_made_files_are_what_they_are_named(tmp_path: Path) -> None:
    path = made(tmp_path / "plain.h5", "hdf5")
    options = ReadOptions(data="/x", offsets=("/o",))
    with lodcli.open(path, format_name="hdf5", options=options) as source:
        assert source.read_index("data").recursive_sequence_lengths() == [[1, 3]]
