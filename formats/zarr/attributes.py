"""Groups of tensors in a Zarr store, and their description in the root: level names and marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from reprlib import repr as shown
from typing import Any

from lodcli.formats.core import marks
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.names import component
from lodcli.formats.core.schema import Schema, TensorSpec
from lodcli.formats.structs.tree import check_tree
from lodcli.formats.values.file_attributes import checked, parsed
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.lod import is_level_name

KEY = "lod"
VERSION = 1
# zarr treats a backslash as a slash. No name of a tensor contains two colons.
_BACKSLASH, _ESCAPED = "\\", "::5C"
MOST_BYTES = 255


def group_of(name: str) -> str:
    """Return the group of a tensor: its name, escaped if no group can have it."""
    reserved = frozenset({"zarr.json", name} if name.startswith("__") else {"zarr.json"})
    return component(name, reserved).replace(_BACKSLASH, _ESCAPED)


def unescaped(path: str) -> str:
    """Return the path of an array with the backslashes of its tensor's name restored."""
    return path.replace(_ESCAPED, _BACKSLASH)


def refuse_long_names(schema: Schema) -> None:
    """Raise UnsupportedError if the folder of a group cannot have its name."""
    for spec in schema:
        if len(group_of(spec.name).encode()) > MOST_BYTES:
            raise UnsupportedError(
                f"zarr holds no tensor whose name takes more than {MOST_BYTES} bytes, such as "
                f"{spec.name}; use zarr-zip"
            )


def written(
    schema: Schema, masked: Mapping[str, Sequence[int]], attributes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the attributes of the root: those of the file, and lod's, with the key KEY.

    Lod's attribute holds level names, marks, and which masks exist.
    """
    tensors = {
        spec.name: {
            "levels": list(spec.level_names),
            "marks": marks.kept_json(spec, masked.get(spec.name, ())),
        }
        for spec in schema
    }
    ours: dict[str, Any] = {"version": VERSION, "tensors": tensors}
    if KEY in attributes:
        ours[marks.ATTRIBUTES] = {KEY: attributes[KEY]}
    return {**attributes, KEY: ours}


def of_file(root: Any, kept: Any) -> dict[str, Any]:
    """Return the attributes of the file.

    Args:
        root: all attributes of the root.
        kept: lod's attribute; None if there is none.
    """
    found = dict(root) if isinstance(root, dict) else {}
    if kept is not None:
        del found[KEY]
        if marks.ATTRIBUTES in kept:
            found |= parsed(checked(kept[marks.ATTRIBUTES], f"attribute {KEY}"))
    return found


def kept_marks(kept: Any) -> dict[str, marks.Kept]:
    """Return the marks and masks of each tensor from lod's attribute; see `written`.

    Raises:
        DamagedFileError, UnsupportedError: it is damaged, or of a later version.
    """
    if not isinstance(kept, dict) or not isinstance(kept.get("tensors"), dict):
        raise DamagedFileError(f"attribute {KEY}: expected an object of tensors")
    if kept.get("version") != VERSION:
        raise UnsupportedError(
            f"attribute {KEY}: of version {shown(kept.get('version'))}; this reads {VERSION}"
        )
    return {
        name: marks.kept_from_json(said["marks"], _where(name))
        for name, said in kept["tensors"].items()
        if isinstance(said, dict) and "marks" in said
    }


def with_marks(kept: Any, found: Mapping[str, marks.Kept], schema: Schema) -> Schema:
    """Return a schema with the level names, marks and order of tensors from lod's attribute.

    Args:
        kept: lod's attribute.
        found: from `kept_marks`.

    Raises:
        DamagedFileError: the attribute does not match the arrays.
    """
    specs = {spec.name: spec for spec in schema}
    for name in kept["tensors"]:
        if name not in specs:
            raise DamagedFileError(f"attribute {KEY}: tensor {shown(name)} is missing")
    for name in specs:
        if name not in kept["tensors"]:
            raise DamagedFileError(f"attribute {KEY}: tensor {name} is not described")
    result = tuple(
        _told(specs[name], said, found.get(name)) for name, said in kept["tensors"].items()
    )
    check_tree(result, f"attribute {KEY}")
    return result


def _where(name: str) -> str:
    return f"attribute {KEY}: tensor {name}"


def _told(spec: TensorSpec, said: Any, found: marks.Kept | None) -> TensorSpec:
    where = _where(spec.name)
    names = said.get("levels") if isinstance(said, dict) else None
    if not isinstance(names, list):
        raise DamagedFileError(f"{where}: expected the names of {len(spec.levels)} levels")
    given = [name for name in names if name is not None]
    valid = all(isinstance(name, str) and is_level_name(name) for name in given)
    if not valid or len(names) != len(spec.levels) or len(set(given)) < len(given):
        raise DamagedFileError(f"{where}: expected the names of {len(spec.levels)} levels")
    levels = tuple(replace(one, name=name) for one, name in zip(spec.levels, names, strict=True))
    if found is None:
        raise DamagedFileError(f"{where}: has no marks")
    result = replace(spec, levels=levels, marks=found.marks)
    marks.check_fit(result, where)
    return result
