"""Errors in JSON lines name the position of the fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lodcli.kernels.errors import InvalidDataError
from tests.formats.cases.opening import content_of


@pytest.mark.parametrize("end", [b"", b"\n", b"\n[3]\n"])
def test_a_line_cut_anywhere_is_reported_with_its_line_and_where_it_ends(
    tmp_path: Path, end: bytes
) -> None:
    whole = '{"a": [[1.5, 2], []], "b": [true], "ö": ["x"]}'.encode()
    for cut in range(1, len(whole)):
        part = whole[:cut]
        if not part.isascii() and not whole[cut:].isascii():
            continue  # in the middle of a letter
        with pytest.raises(InvalidDataError) as caught:
            content_of(tmp_path, ".jsonl", whole + b"\n" + part + end)
        told = re.search(r"line (\d+): column (\d+): ", str(caught.value))
        assert told is not None, caught.value
        assert told[1] == "2"
        # Where the text ends; of a string or a word, where that begins.
        begin = max(part.rfind(b'"'), part.rfind(b"t"), 0)
        assert len(part[:begin].decode()) < int(told[2]) <= len(part.decode()) + 1
