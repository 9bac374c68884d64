"""`lodcli.read`, `read_all`, `open` and `write` given what they do not take."""

from __future__ import annotations

import io as standard_io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli import LodError, LoDTensor, TensorArray

WORDS = LoDTensor(np.arange(3.0), [[2, 1]])
PATHS: dict[str, Any] = {
    "tensor": WORDS,
    "array": np.arange(3.0),
    "dict": {"a": WORDS},
    "none": None,
    "number": 3,
    "bytes": b"x.npz",
    "list": ["x.npz"],
    "stream": standard_io.BytesIO(),
}
CONTENTS: dict[str, tuple[Any, str]] = {
    "array": (np.arange(3.0), r"LoDTensor\(rows, lengths\)"),
    "list": ([[1, 2], [3]], r"LoDTensor\(rows, lengths\)"),
    "steps": (TensorArray(values=[WORDS]), r"StoredArray\(array, index_map\)"),
    "path": ("x.npz", "found str"),
    "none": (None, "found NoneType"),
    "dict of arrays": ({"a": np.arange(3.0)}, "a: expected a LoDTensor or a StoredArray"),
    "dict of numbers": ({1: WORDS}, "names of type str, found 1"),
}


def opening(path: Any) -> None:
    with lodcli.open(path):
        pass


@pytest.mark.parametrize("kind", PATHS)
def test_what_is_no_path_is_refused_in_our_words(kind: str, tmp_path: Path) -> None:
    calls: list[Callable[[Any], Any]] = [
        lodcli.read,
        lodcli.read_all,
        opening,
        # The arguments the other way round, as torch.save has them.
        lambda path: lodcli.write(path, tmp_path / "x.npz"),  # type: ignore[arg-type]
    ]
    for call in calls:
        with pytest.raises(LodError, match=r"path of a file \(str or os.PathLike\), found"):
            call(PATHS[kind])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", CONTENTS)
def test_what_is_no_tensor_is_refused_in_our_words(kind: str, tmp_path: Path) -> None:
    content, said = CONTENTS[kind]
    with pytest.raises(LodError, match=said):
        lodcli.write(tmp_path / "x.npz", content)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("device", [None, 3, "gpu", "cuda:x"])
def test_what_is_no_device_is_refused_in_our_words(device: Any, tmp_path: Path) -> None:
    lodcli.write(tmp_path / "x.npz", WORDS)
    with pytest.raises(LodError, match="expected cpu, cuda or cuda:N"):
        lodcli.read(tmp_path / "x.npz", device=device)
    with pytest.raises(LodError, match="expected cpu, cuda or cuda:N"):
        WORDS.to_device(device)
