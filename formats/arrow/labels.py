"""Class labels of Hugging Face features as categories, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from lodcli.formats.arrow.huggingface import NAME
from lodcli.formats.arrow.structs import column_of, field_of
from lodcli.formats.core.schema import Schema, TensorSpec
from lodcli.formats.structs.tree import Node, tree
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.tensor.marks import Categories, Field, attributes_text

_INT64 = np.dtype(np.int64)
# Types that the library datasets names differently than Arrow.
_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}


def class_names(feature: Any, path: Sequence[Field]) -> Categories | None:
    """Return the names of a ClassLabel; None for other features."""
    said, names = feature, [one.name for one in path[1:]]
    for _ in range(2 * len(names) + 128):
        if isinstance(said, list) and len(said) == 1:
            said = said[0]
        elif not isinstance(said, dict):
            return None
        elif said.get("_type") in ("List", "LargeList", "Sequence"):
            said = said.get("feature")
        elif names and not isinstance(said.get("_type"), str):
            said = said.get(names.pop(0))
        else:
            break
    if names or not isinstance(said, dict) or said.get("_type") != "ClassLabel":
        return None
    words = said.get("names")
    try:
        return Categories(tuple(words)) if isinstance(words, list) else None
    except InvalidDataError:
        return None


def with_labels(schema: Schema, *, always: bool) -> Schema:
    """Return the schema with categories as int64 codes where the column is a ClassLabel.

    Args:
        always: whether to write all categories as class labels; else only those that were read
            from class labels and have the same words.
    """
    found = tuple(spec if not _is_label(spec) else _codes(spec) for spec in schema)
    if not always or not any(spec.marks.categories for spec in found):
        return found
    coded = tuple(_codes(spec) if spec.marks.categories else spec for spec in schema)
    columns = pa.schema(map(column_of, coded))
    words = {spec.name: spec.marks.categories.words for spec in schema if spec.marks.categories}
    features: dict[str, Any] = {}
    for node in tree(coded):
        if any(spec.name in words for spec in node.specs):
            feature = _feature(field_of(node, columns).type, node, words)
            features |= dict.fromkeys([spec.name for spec in node.specs], feature)
    return tuple(_featured(spec, features.get(spec.name)) for spec in coded)


def _is_label(spec: TensorSpec) -> bool:
    words = spec.marks.categories
    if words is None or spec.dtype != _INT64 or not spec.marks.attributes:
        return False
    return class_names(json.loads(spec.marks.attributes).get(NAME), spec.marks.fields) == words


def _codes(spec: TensorSpec) -> TensorSpec:
    return replace(spec, dtype=_INT64, marks=replace(spec.marks, unit=None))


def _featured(spec: TensorSpec, feature: Any) -> TensorSpec:
    """Return the tensor with the feature of its column, if its attributes do not get too large."""
    if feature is None:
        return spec
    said = json.loads(spec.marks.attributes or "{}") | {NAME: feature}
    try:
        text = attributes_text(said)
    except InvalidDataError:  # the names are too long
        return spec
    return replace(spec, marks=replace(spec.marks, attributes=text))


def _feature(kind: pa.DataType, node: Node, words: Mapping[str, Sequence[str]]) -> Any:
    """Return the feature of a column, or of a part of it, as JSON."""
    if types.is_large_list(kind):
        return {"feature": _feature(kind.value_type, node, words), "_type": "LargeList"}
    if types.is_fixed_size_list(kind):
        inner = _feature(kind.value_type, node, words)
        return {"feature": inner, "length": kind.list_size, "_type": "Sequence"}
    if types.is_struct(kind):
        return {
            one.name: _feature(kind.field(number).type, one, words)
            for number, one in enumerate(node.fields)
        }
    if node.spec is not None and node.spec.name in words:
        return {"names": list(words[node.spec.name]), "_type": "ClassLabel"}
    return {"dtype": _NAMES.get(str(kind), str(kind)), "_type": "Value"}
