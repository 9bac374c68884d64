"""JSON Schemas made from TypedDicts, dataclasses and the keys in their docstrings."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Sequence
from dataclasses import is_dataclass
from typing import (
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from lodcli.reports.common import Report

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SIMPLE: dict[Any, dict[str, Any]] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
}


def json_schema(kinds: Sequence[type[Any]], title: str) -> dict[str, Any]:
    """Return the JSON Schema of one object, or of any of several.

    >>> from typing import TypedDict
    >>> class Count(TypedDict):
    ...     '''A count.
    ...
    ...     Attributes:
    ...         rows: how many there are.
    ...     '''
    ...     rows: int | None
    >>> json_schema([Count], "lod count")["properties"]["rows"]
    {'description': 'how many there are', 'type': ['integer', 'null']}
    """
    head = {"$schema": DIALECT, "title": title}
    shown = [_schema(kind) for kind in kinds]
    return head | (shown[0] if len(shown) == 1 else {"anyOf": shown})


def _schema(kind: Any) -> dict[str, Any]:
    """Return the schema of any annotation that a report has."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if is_typeddict(kind) or is_dataclass(kind):
        return _object(kind)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (list, tuple):
        return {"type": "array", "items": _schema(parts[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(parts[1])}
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (Union, types.UnionType):
        found = [_schema(part) for part in parts]
        if all(set(one) == {"type"} for one in found):
            return {"type": [one["type"] for one in found]}
        return {"anyOf": found}
    raise TypeError(f"no JSON Schema for {kind}")


def _object(kind: type[Any]) -> dict[str, Any]:
    properties, required = {}, []
    said = descriptions(kind)
    for name, annotation in get_type_hints(kind, include_extras=True).items():
        optional = get_origin(annotation) is NotRequired
        if get_origin(annotation) in (NotRequired, Required):
            (annotation,) = get_args(annotation)
        text = {"description": said[name]} if name in said else {}
        properties[name] = text | _schema(annotation)
        if not optional:
            required.append(name)
    summary = (inspect.getdoc(kind) or "").partition("\n")[0]
    return {
        "description": summary,
        "type": "object",
        "properties": properties,
        "required": required,
    }


def descriptions(kind: type[Any]) -> dict[str, str]:
    """Return the description of each key, from the docstrings of a class and of Report."""
    found: dict[str, str] = {}
    for base in (Report, kind):
        part = (inspect.getdoc(base) or "").partition("Attributes:\n")[2]
        for names, text in re.findall(r"^    ([\w, ]+): (.*(?:\n {8}.*)*)", part, re.MULTILINE):
            shown = " ".join(text.split()).removesuffix(".")
            found |= dict.fromkeys(names.split(", "), shown)
    return found
