"""Every cut and every bit of a container: an error, or the very same content."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path

import pytest

from lodcli.formats.core import io
from lodcli.kernels.errors import LodError
from tests.formats.broken.crafted import good
from tests.formats.cases.damage import accepted, cut
from tests.reliability.fuzz import known
from tests.sampling import every

BASES = ("articles", "compressed", "shared", "array")


@pytest.mark.parametrize("base", BASES)
def test_a_file_cut_at_any_length_is_refused(base: str, tmp_path: Path) -> None:
    content, path = good(base), tmp_path / "cut.lod.h5"
    copies = cut(content, 1 if base == "articles" else 37)
    assert not accepted(copies, path, partial(io.read_all, format_name="lod.h5"))


def test_a_damaged_header_is_never_trusted(tmp_path: Path) -> None:
    """A bit of each byte of the superblock and of the header, one by one."""
    content, path = good("articles"), tmp_path / "bit.lod.h5"
    path.write_bytes(content)
    expected = known.seen(io.read_all(path))
    text = content.index(b'{"format"')
    for place in [*range(96), *range(text, content.rindex(b'"}') + 2)]:
        for bit in (0, 3, 7)[place % every(3) :: every(3)]:
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            path.unlink()
            path.write_bytes(changed)
            with contextlib.suppress(LodError):
                found = known.seen(io.read_all(path, format_name="lod.h5"))
                assert known.difference(found, expected) is None
                assert place < 96  # unused bytes of the superblock are harmless
