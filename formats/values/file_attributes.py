"""Attributes of a file as a whole: a JSON object, separate from those of its tensors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lodcli.formats.core.errors import DamagedFileError
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.tensor.marks import attributes_text

# In formats that keep only text: the entry for all other attributes, as a JSON object.
OTHERS = "lod.attributes"


def parsed(text: str | None) -> dict[str, Any]:
    """Return the attributes from their JSON text, as in WriteOptions and headers."""
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


def checked(content: Any, where: str) -> str:
    """Return the attributes from a file as JSON text.

    Raises:
        DamagedFileError: they are not a JSON object with a member, or too large.
    """
    try:
        found = attributes_text(content)
    except InvalidDataError as error:
        raise DamagedFileError(f"{where}: {error}") from None
    if not found:
        raise DamagedFileError(f"{where}: attributes: expected at least one, found {{}}")
    return found


def fitting(content: Any) -> tuple[dict[str, Any], list[str]]:
    """Return attributes of a foreign file, and a note if they cannot be kept.

    >>> fitting({"unit": "m"}), fitting({"x": float("nan")})[0]
    (({'unit': 'm'}, []), {})
    """
    try:
        return parsed(attributes_text(content)), []
    except InvalidDataError as error:
        return {}, [f"the attributes of the file are not kept: {error}"]


def texts_and_others(
    attributes: Mapping[str, Any], reserved: Iterable[str]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the attributes that are text, and all others, for formats that keep only text.

    Args:
        attributes: of a file.
        reserved: names with another meaning in the format, which count as others.
    """
    taken = frozenset(reserved)
    texts = {k: v for k, v in attributes.items() if isinstance(v, str) and k not in taken}
    return texts, {name: attributes[name] for name in attributes if name not in texts}


def alike(files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the attributes that are equal in all files.

    >>> alike([{"license": "MIT", "day": 1}, {"day": 2, "license": "MIT"}])
    {'license': 'MIT'}
    """
    if not files:
        return {}
    first, *others = files
    return {
        name: value
        for name, value in first.items()
        if all(name in other and _same(value, other[name]) for other in others)
    }


def _same(one: Any, other: Any) -> bool:
    # As text, because True == 1 == 1.0 in Python.
    return one is other or json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
