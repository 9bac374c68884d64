"""Errors of the library name arguments; those of commands name options."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import lodcli
from lodcli.formats.loading.arguments import in_python
from lodcli.kernels.tensor.lod_tensor import LoDTensor

MESSAGES = {
    "--nulls zero, nan, fill=X or drop (fill_nulls or drop_nulls in Python)": (
        "nulls='zero', 'nan', 'fill=X' or 'drop', or fill_nulls or drop_nulls of a tensor"
    ),
    "it is not exact: --dtype int64 --dtype-unsafe rounds it": (
        "it is not exact: dtype='int64', dtype_unsafe=True rounds it"
    ),
    "name a column with --data, such as /units": "name a column with data=, such as /units",
    "read with --from hdf5 --data /obs/NAME": "read with format_name='hdf5', data='/obs/NAME'",
    "npy has no option 'wide' (--wide); it is": "npy has no option 'wide'; it is",
    "npy has no option 'form' (--form); it is for": "npy has no option 'form'; it is for",
    "allow more with --max-bytes": "allow more with limits=",
    "lod convert --text-levels numbers makes numbers": (
        "lod convert --text-levels numbers makes numbers"
    ),
    "pack it without --sparse": "pack it without --sparse",
    "found '--nulls keep' in '--wide'; --nulls keep reads it": (
        "found '--nulls keep' in '--wide'; nulls='keep' reads it"
    ),
    'found "it\'s --wide"; choose others with --field': (
        'found "it\'s --wide"; choose others with field='
    ),
    "the column's lists; choose others' lists with --field": (
        "the column's lists; choose others' lists with field="
    ),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_options_become_arguments(message: str) -> None:
    assert in_python(message) == MESSAGES[message]


def test_the_public_functions_name_arguments(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a":1}\n{"b":2}\n')
    said = "line 2: field 'a' is missing; nulls='keep' reads it as a null; or choose others with f"
    calls: dict[str, list[Callable[[], object]]] = {
        said: [
            lambda: lodcli.read(path),
            lambda: lodcli.read_all(path),
            lambda: lodcli.open(path).read(),
        ],
        "npy has no option 'separator'; it is for csv": [
            lambda: lodcli.write(tmp_path / "x.npy", LoDTensor(np.ones(2)), separator=";"),
        ],
    }
    for message, functions in calls.items():
        for call in functions:
            with pytest.raises(lodcli.LodError, match=message) as caught:
                call()
            assert not re.search(r"(?<!\()--", str(caught.value))


def test_names_of_files_and_values_stay(tmp_path: Path) -> None:
    path = tmp_path / "--nulls keep.jsonl"
    path.write_text('{"a":1}\n{"b":2}\n')
    with pytest.raises(lodcli.LodError) as caught:
        lodcli.read_all(path)
    assert str(caught.value).startswith(f"{path}: line 2")
    assert "nulls='keep' reads it" in str(caught.value)
    path = tmp_path / "v.csv"
    path.write_text("a\n1\n--nulls\n")
    with pytest.raises(lodcli.LodError, match="found '--nulls'; text_columns= reads"):
        lodcli.read_all(path)
