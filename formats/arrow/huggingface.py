"""Features of Hugging Face datasets as Arrow types, and attributes of tensors as metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as types

from lodcli.formats.arrow.layout import leaf_field
from lodcli.formats.values.file_attributes import OTHERS, texts_and_others
from lodcli.kernels.tensor.exchange.arrow import NAMES_KEY
from lodcli.kernels.tensor.marks import Field

# Key of the features in the metadata of a schema, and in the attributes of a tensor.
KEY = b"huggingface"
NAME = "huggingface"
# Key in metadata for attributes that are not text, as a JSON object.
ATTRIBUTES_KEY = OTHERS.encode()
# Keys, and prefixes of keys, in the metadata of a schema that are not attributes of the file: they
# describe columns, or are written anew. Spark and parquet-avro read the columns that theirs name
# instead of those of the file.
_OF_COLUMNS = frozenset(
    {NAME, "pandas", OTHERS, "org.apache.spark.sql.parquet.row.metadata", "parquet.avro.schema"}
)
_MADE = ("ARROW:", "PARQUET:")
EXTENSION, EXTENSION_METADATA = b"ARROW:extension:name", b"ARROW:extension:metadata"
_TYPES = {"float16": "halffloat", "float32": "float", "float64": "double", "bool_": "bool"}
_FILES = frozenset(
    {"Image", "Audio", "Video", "Pdf", "Nifti", "Mesh", "BioSequence", "BioStructure"}
)
_ARRAYS = frozenset({"Array2D", "Array3D", "Array4D", "Array5D"})
_JSON = pa.json_()
# Features nested deeper than this are not converted.
_MOST_DEPTH = 64


def features_of(schema: pa.Schema) -> dict[str, Any]:
    """Return the features that the metadata of a file describes, by column; {} for none."""
    try:
        said = json.loads((schema.metadata or {}).get(KEY, b"{}"))
        found = said["info"]["features"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def with_features(schema: pa.Schema, features: Mapping[str, Any]) -> pa.Schema:
    """Return a schema that keeps features in its metadata."""
    if not features:
        return schema
    said = json.dumps({"info": {"features": features}}).encode()
    return schema.with_metadata({**(schema.metadata or {}), KEY: said})


def type_of(said: Any, depth: int = 0) -> pa.DataType | None:
    """Return the Arrow type of a feature; None for an unknown one.

    Args:
        said: as JSON.
        depth: number of enclosing features.
    """
    if depth > _MOST_DEPTH:
        return None
    if isinstance(said, list):
        return _listed(_item(said[0], depth)) if len(said) == 1 else None
    if not isinstance(said, dict) or not said:
        return None
    kind = said.get("_type")
    if not isinstance(kind, str):
        fields = [feature_field(name, one, depth + 1) for name, one in said.items()]
        return None if not fields or any(one is None for one in fields) else pa.struct(fields)
    if kind == "Value":
        return _value(said.get("dtype"))
    if kind == "ClassLabel":
        return pa.int64()
    if kind == "Json":
        return pa.json_()
    if kind in _FILES:
        return pa.struct({"bytes": pa.binary(), "path": pa.string()})
    if kind == "Translation" and isinstance(said.get("languages"), list):
        return _struct({str(one): pa.string() for one in sorted(map(str, said["languages"]))})
    if kind == "TranslationVariableLanguages":
        return pa.struct({name: pa.list_(pa.string()) for name in ("language", "translation")})
    if kind in _ARRAYS:
        found = _value(said.get("dtype"))
        for _ in range(int(kind[5])):
            found = _listed(found)
        return found
    if kind == "LargeList":
        inner = _item(said.get("feature"), depth)
        return None if inner is None else pa.large_list(inner)
    if kind in ("List", "Sequence"):
        return _sequence(kind, said, depth)
    return None


def _sequence(kind: str, said: dict[str, Any], depth: int) -> pa.DataType | None:
    inner, length = said.get("feature"), said.get("length", -1)
    if kind == "Sequence" and isinstance(inner, dict) and not isinstance(inner.get("_type"), str):
        # As before version 4: a struct of lists, not a list of structs.
        return _struct({name: _listed(_item(one, depth)) for name, one in inner.items()})
    found = _item(inner, depth)
    fixed = isinstance(length, int) and 0 <= length < 2**31
    return pa.list_(found, length) if fixed and found is not None else _listed(found)


def _item(said: Any, depth: int) -> pa.Field | None:
    """Return the field of the items of lists."""
    return feature_field("item", said, depth + 1)


def feature_field(name: str, said: Any, depth: int = 0) -> pa.Field | None:
    """Return the Arrow field of a feature; that of an array has metadata that name its type.

    The library datasets drops a feature if the extension type of an array is missing.
    """
    kind = type_of(said, depth)
    if kind is None:
        return None
    field = pa.field(name, kind)
    if not isinstance(said, dict) or said.get("_type") not in _ARRAYS:
        return field
    extension = f"datasets.features.features.{said['_type']}ExtensionType"
    about = json.dumps([said.get("shape"), said.get("dtype")])
    return field.with_metadata({EXTENSION: extension.encode(), EXTENSION_METADATA: about.encode()})


def _listed(items: pa.DataType | pa.Field | None) -> pa.DataType | None:
    return None if items is None else pa.list_(items)


def _struct(fields: Mapping[str, pa.DataType | None]) -> pa.DataType | None:
    return None if None in fields.values() or not fields else pa.struct(fields)


def _value(name: object) -> pa.DataType | None:
    """Return the type of a Value, such as `timestamp[us, tz=UTC]` or `decimal128(10, 2)`."""
    if not isinstance(name, str):
        return None
    base, _, inside = name.rstrip("])").replace("(", "[").partition("[")
    parts = [part.strip() for part in inside.split(",")] if inside else []
    try:
        if base == "timestamp":
            zone = parts[1].removeprefix("tz=") if len(parts) > 1 else None
            return pa.timestamp(parts[0], zone)
        if base in ("duration", "time32", "time64"):
            return getattr(pa, base)(parts[0])
        if base in ("decimal128", "decimal256"):
            return getattr(pa, base)(*map(int, parts))
        return None if parts else pa.type_for_alias(_TYPES.get(base, base))
    except (ValueError, TypeError, IndexError):
        return None


def alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Return whether two types differ at most in the size of their offsets."""
    if types.is_struct(one) and types.is_struct(other):
        names = [field.name for field in one]
        return names == [field.name for field in other] and all(
            alike(a.type, b.type) for a, b in zip(one, other, strict=True)
        )
    if _is_list(one) and _is_list(other):
        sizes = [kind.list_size for kind in (one, other) if types.is_fixed_size_list(kind)]
        return len(set(sizes)) < 2 and alike(one.value_type, other.value_type)
    return bool(plain(one) == plain(other))


def _is_list(kind: pa.DataType) -> bool:
    lists = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return any(is_one(kind) for is_one in lists)


def plain(kind: pa.DataType) -> pa.DataType:
    """Return the type with 64-bit offsets for text and bytes; any other type unchanged."""
    if types.is_string(kind) or kind == _JSON:
        return pa.large_string()
    return pa.large_binary() if types.is_binary(kind) else kind


def attributes_of(field: pa.Field, path: Sequence[Field], feature: Any) -> dict[str, Any]:
    """Return the attributes of a tensor: metadata of its field, and the feature of its column."""
    found: dict[str, Any] = {}
    leaf = leaf_field(field, path)
    said = dict(leaf.metadata or {})
    if isinstance(leaf.type, pa.ExtensionType):  # registered: its metadata has no such keys
        said |= {EXTENSION: leaf.type.extension_name.encode()}
        said |= {EXTENSION_METADATA: leaf.type.__arrow_ext_serialize__()}
    for key, value in said.items():
        # Spark stores its types in ORC.
        ours = key == NAMES_KEY or key.startswith((b"PARQUET:", b"spark.sql."))
        if ours or (feature is None and key.startswith(b"ARROW:")):
            continue
        try:
            name, text = key.decode(), value.decode()
            found |= json.loads(text) if key == ATTRIBUTES_KEY else {name: text}
        except (ValueError, RecursionError, TypeError):
            continue  # neither text nor written by lod
    return found if feature is None else {**found, NAME: feature}


def with_attributes(field: pa.Field, attributes: Mapping[str, Any]) -> pa.Field:
    """Return a field that keeps attributes in its metadata: text as it is, others as JSON."""
    texts, others = texts_and_others(attributes, ())
    others.pop(NAME, None)
    return _keeping(field, texts, others)


def _keeping(described: Any, texts: Mapping[str, str], others: Mapping[str, Any]) -> Any:
    """Return a field or a schema with attributes in its metadata, besides those it has."""
    kept = {key.encode(): value.encode() for key, value in texts.items()}
    if others:
        kept[ATTRIBUTES_KEY] = json.dumps(others, ensure_ascii=False).encode()
    return described.with_metadata({**kept, **(described.metadata or {})}) if kept else described


def file_attributes_of(schema: pa.Schema) -> dict[str, Any]:
    """Return the attributes of a file: the metadata of its schema that are text."""
    found: dict[str, Any] = {}
    for key, value in (schema.metadata or {}).items():
        try:
            name, text = key.decode(), value.decode()
            if name == OTHERS:
                found |= json.loads(text)
            elif not _is_made(name):
                found[name] = text
        except (ValueError, RecursionError, TypeError):
            continue  # neither text nor written by lod
    return found


def with_file_attributes(schema: pa.Schema, attributes: Mapping[str, Any]) -> pa.Schema:
    """Return a schema whose metadata keep the attributes of a file: text as it is."""
    return _keeping(schema, *texts_and_others(attributes, filter(_is_made, attributes)))


def _is_made(name: str) -> bool:
    return name in _OF_COLUMNS or name.startswith(_MADE)


def featured(schema: pa.Schema, attributes: Mapping[str, Sequence[Mapping[str, Any]]]) -> pa.Schema:
    """Return a schema with the types and features that its columns had."""
    fields, features = list(schema), {}
    for number, field in enumerate(schema):
        said = [one.get(NAME) for one in attributes[field.name]]
        kind = type_of(said[0]) if said and all(one == said[0] for one in said) else None
        if kind is not None and alike(field.type, kind):
            features[field.name] = said[0]
            kind = _with_metadata(kind, field.type)
            fields[number] = _as_text(pa.field(field.name, kind, metadata=field.metadata))
        elif EXTENSION in (field.metadata or {}):
            kept = {k: v for k, v in field.metadata.items() if not k.startswith(b"ARROW:")}
            fields[number] = field.with_metadata(kept)
    return with_features(pa.schema(fields, schema.metadata), features)


def _with_metadata(kind: Any, given: Any) -> pa.DataType:
    """Return a type with the metadata that the fields of structs have in one that is alike."""
    if _is_list(kind):
        inner = _as_text(
            kind.value_field.with_type(_with_metadata(kind.value_type, given.value_type))
        )
        if types.is_fixed_size_list(kind):
            return pa.list_(inner, kind.list_size)
        return pa.large_list(inner) if types.is_large_list(kind) else pa.list_(inner)
    if not types.is_struct(kind):
        return kind
    return pa.struct(
        _as_text(one.with_type(_with_metadata(one.type, other.type)).with_metadata(other.metadata))
        for one, other in zip(kind, given, strict=True)
    )


def _as_text(field: pa.Field) -> pa.Field:
    """Return a field of JSON as one of text whose metadata say so; any other field unchanged."""
    if field.type != _JSON:
        return field
    said = {EXTENSION: field.type.extension_name.encode(), EXTENSION_METADATA: b""}
    return field.with_type(pa.string()).with_metadata({**(field.metadata or {}), **said})


def as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return an array cast to another type, for which `alike` is true."""
    return array if array.type == kind else array.cast(kind)
