"""Awkward's forms, which describe how arrays are built from buffers, and their mapping to tensors.

A form states the class and the buffers of each node; `ak.to_buffers` returns form and buffers.
https://awkward-array.org/doc/main/reference/awkwardforth.html documents them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lodcli.formats.core.bounds import Bounds
from lodcli.formats.core.errors import DamagedFileError, TooLargeError, naming
from lodcli.formats.core.format import LeftOut, leaving_out
from lodcli.formats.core.names import name_of
from lodcli.formats.core.schema import DEFAULT_NAME, Schema, TensorSpec
from lodcli.formats.structs.tree import Node, tree
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.immutable import immutable
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.gather import take_items
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import BYTES, NO_MARKS, TEXT, Field, Marks, check_text

MOST_FORM_BYTES = 1 << 20
MOST_DEPTH = 40
PRIMITIVES = frozenset(
    [
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    ]
)
_INDEXES = {"i8": "int8", "u8": "uint8", "i32": "int32", "u32": "uint32", "i64": "int64"}
_OPTIONS = ("IndexedOptionArray", "ByteMaskedArray", "BitMaskedArray")
# Awkward's names for lists that are text or bytes, and for their items.
_CALLED = {"string": TEXT, "bytestring": BYTES}
_NAMES = {"text": ("string", "char"), "bytes": ("bytestring", "byte")}
_REMEDY = "apply ak.fill_none or ak.drop_none first"

Fetch = Callable[[str], Array]
Form = dict[str, Any]
Named = dict[str, LoDTensor]


def parsed_form(text: str | bytes) -> Form:
    """Return the form that a text describes.

    Raises:
        DamagedFileError: it is not JSON, or not a form.
    """
    if len(text) > MOST_FORM_BYTES:
        raise DamagedFileError(f"the form has {len(text)} bytes; at most {MOST_FORM_BYTES}")
    try:
        form = json.loads(text)
    except (ValueError, RecursionError):
        raise DamagedFileError("the form is not JSON") from None
    if not isinstance(form, dict):
        raise DamagedFileError("the form is not a JSON object")
    return form


class Reader:
    """Builds tensors from buffers.

    Args:
        fetch: returns the whole buffer of a name.
        stored: bytes of all buffers.
        bounds: limits on the size of the result.

    Attributes:
        left_out: the fields that no tensor can hold.
    """

    def __init__(self, fetch: Fetch, stored: int, bounds: Bounds) -> None:
        self._fetch = fetch
        self._limit = bounds.growth(stored)
        self._path: list[str] = []
        self.left_out: LeftOut = {}

    def tensors(self, form: Form, length: int) -> Named:
        """Return the tensors of an array of `length` items: "data", or one per field."""
        self._refuse_growth(length)
        found = self._node(form, length, 0)
        if not found:
            raise next(iter(self.left_out.values()))
        return {name or DEFAULT_NAME: _settled(tensor) for name, tensor in found.items()}

    def _node(self, form: object, length: int, depth: int) -> Named:
        """Return the tensors of a node by the path of fields to each; "" without fields."""
        if not isinstance(form, dict):
            raise DamagedFileError(f"the form has {str(form)[:60]!r} where a node was expected")
        if depth > MOST_DEPTH:
            raise DamagedFileError(f"the form is deeper than {MOST_DEPTH} nodes")
        kind = form.get("class")
        if kind in _OPTIONS:
            raise UnsupportedError(
                f"holds missing values ({kind}), which tensors cannot hold; {_REMEDY}"
            )
        if kind == "UnionArray":
            raise UnsupportedError(
                "holds a union of types, which tensors cannot hold; split it first"
            )
        readers = {
            "NumpyArray": self._numpy,
            "EmptyArray": self._empty,
            "ListOffsetArray": self._list_offset,
            "ListArray": self._list,
            "RegularArray": self._regular,
            "IndexedArray": self._indexed,
            "RecordArray": self._record,
            "UnmaskedArray": self._unmasked,
        }
        if kind not in readers:
            raise UnsupportedError(f"has a node of class {str(kind)[:60]!r}, which is not known")
        return readers[kind](form, length, depth + 1)

    def _buffer(self, form: Form, role: str, dtype: str, length: int) -> Array:
        key = f"{form.get('form_key')}-{role}"
        found = self._fetch(key)
        wanted = np.dtype(dtype)
        if found.ndim == 1 and found.dtype == np.uint8 and wanted.itemsize > 1:
            if found.size % wanted.itemsize:
                raise DamagedFileError(
                    f"{key}: {found.size} bytes are not a whole number of {dtype}"
                )
            found = found.view(wanted.newbyteorder("<")).astype(wanted)
        if found.dtype != wanted:
            raise DamagedFileError(f"{key}: expected {dtype}, found {found.dtype}")
        flat = found.reshape(-1)
        if flat.size < length:
            raise DamagedFileError(f"{key}: expected at least {length} numbers, found {flat.size}")
        return flat[:length]

    def _index(self, form: Form, role: str, field: str, length: int) -> Offsets:
        said = form.get(field)
        if said not in _INDEXES:
            raise DamagedFileError(f"{form.get('class')}: {field} of dtype {str(said)[:20]!r}")
        return self._buffer(form, role, _INDEXES[said], length).astype(np.int64)

    def _numpy(self, form: Form, length: int, depth: int) -> Named:
        primitive, inner = form.get("primitive"), form.get("inner_shape", [])
        if primitive not in PRIMITIVES:
            said = str(primitive)[:40]
            if said.startswith(("datetime64", "timedelta64")):
                how = "lodcli.write(PATH, LoDTensor.from_awkward(array)) keeps their unit"
                raise UnsupportedError(f"holds {said}, which this format has without a unit; {how}")
            near = "complex128" if said.startswith("complex") else "float64"
            raise UnsupportedError(
                f"holds {said}, which tensors cannot hold; apply ak.values_astype(array, {near!r})"
            )
        if not isinstance(inner, list) or not all(type(n) is int and n >= 0 for n in inner):
            raise DamagedFileError(f"inner_shape {str(inner)[:60]} is not a shape")
        count = length
        for extent in inner:
            count *= extent
        if not count:  # rows without bytes take no space in the file, but memory for row numbers
            self._refuse_growth(8 * length)
        flat = self._buffer(form, "data", str(primitive), count)
        if flat.dtype == np.bool_ and flat.size and flat.view(np.uint8).max() > 1:
            raise DamagedFileError(f"{form.get('form_key')}-data: booleans neither 0 nor 1")
        return {"": LoDTensor(flat.reshape(length, *inner))}

    def _empty(self, form: Form, length: int, depth: int) -> Named:
        if length:
            raise DamagedFileError(f"EmptyArray: expected no items, {length} are referred to")
        return {"": LoDTensor(np.empty(0))}

    def _list_offset(self, form: Form, length: int, depth: int) -> Named:
        offsets = self._index(form, "offsets", "offsets", length + 1)
        start, stop = int(offsets[0]), int(offsets[-1])
        if start < 0 or (np.diff(offsets) < 0).any():
            raise DamagedFileError(f"{form.get('form_key')}-offsets: decrease")
        content = self._node(form.get("content"), stop, depth)
        # The same object for all fields below, so that they share the level.
        level = immutable(offsets - start)
        marks = _marks_of(form)
        return {
            name: _below(level, tensor[start:stop] if start else tensor, marks)
            for name, tensor in content.items()
        }

    def _list(self, form: Form, length: int, depth: int) -> Named:
        starts = self._index(form, "starts", "starts", length)
        stops = self._index(form, "stops", "stops", length)
        lengths = stops - starts
        if (starts < 0).any() or (lengths < 0).any():
            raise DamagedFileError(f"{form.get('form_key')}: a list ends before it starts")
        content = self._node(form.get("content"), int(stops.max(initial=0)), depth)
        level = lengths_to_offsets(lengths, level=0)
        self._refuse_growth(int(level[-1]) * 8)
        items = ranges(starts, level)
        marks = _marks_of(form)
        return {
            name: _below(level, self._taken(one, items), marks) for name, one in content.items()
        }

    def _regular(self, form: Form, length: int, depth: int) -> Named:
        size = form.get("size")
        if type(size) is not int or size < 0:
            raise DamagedFileError(f"RegularArray: size {str(size)[:20]!r}")
        content = self._node(form.get("content"), length * size, depth)
        self._refuse_growth(8 * length)
        level = immutable(np.arange(length + 1) * size)
        marks = _marks_of(form)
        return {
            name: _below(level, tensor, marks)
            if tensor.lod.n_levels or tensor.marks or marks
            else LoDTensor(tensor.data.reshape(length, size, *tensor.row_shape))
            for name, tensor in content.items()
        }

    def _indexed(self, form: Form, length: int, depth: int) -> Named:
        index = self._index(form, "index", "index", length)
        if (index < 0).any():
            raise UnsupportedError(f"holds missing values (IndexedArray below 0); {_REMEDY}")
        content = self._node(form.get("content"), int(index.max(initial=-1)) + 1, depth)
        return {name: self._taken(tensor, index) for name, tensor in content.items()}

    def _taken(self, tensor: LoDTensor, items: Offsets) -> LoDTensor:
        bounds = tensor.lod.absolute(0) if tensor.lod.n_levels else np.arange(tensor.rows + 1)
        row_bytes = tensor.nbytes // max(1, tensor.rows)
        rows = int((bounds[items + 1] - bounds[items]).sum())
        self._refuse_growth(rows * max(8, row_bytes))
        return take_items(tensor, items)

    def _refuse_growth(self, size_bytes: int) -> None:
        if size_bytes > self._limit:
            raise TooLargeError(
                f"refers to the same items repeatedly, expanding to {size_bytes} bytes; "
                "ak.to_packed first"
            )

    def _record(self, form: Form, length: int, depth: int) -> Named:
        contents, fields = form.get("contents"), form.get("fields")
        if not isinstance(contents, list) or not contents:
            raise UnsupportedError("holds records without fields, which tensors cannot hold")
        fields = [str(n) for n in range(len(contents))] if fields is None else fields
        if not isinstance(fields, list) or len(fields) != len(contents):
            raise DamagedFileError("RecordArray: not as many fields as contents")
        found: Named = {}
        for field, content in zip(fields, contents, strict=True):
            called = name_of(str(field))
            self._path.append(called)
            whole = ".".join(self._path)
            with leaving_out(self.left_out, whole), naming(f"field {whole}"):
                for name, tensor in self._node(content, length, depth).items():
                    path = f"{called}.{name}" if name else called
                    if path in found:
                        raise DamagedFileError(f"RecordArray: two fields named {path[:60]!r}")
                    fields = (Field(called, 0), *tensor.marks.fields)
                    found[path] = _with_fields(tensor, fields)
            self._path.pop()
        return found

    def _unmasked(self, form: Form, length: int, depth: int) -> Named:
        return self._node(form.get("content"), length, depth)


def _marks_of(form: Form) -> Marks:
    """Return the marks of lists, from Awkward's name for them."""
    parameters = form.get("parameters")
    called = parameters.get("__array__") if isinstance(parameters, dict) else None
    return _CALLED.get(called, NO_MARKS) if isinstance(called, str) else NO_MARKS


def _below(level: Offsets, tensor: LoDTensor, marks: Marks) -> LoDTensor:
    """Return a tensor with one more outermost level, whose lists contain the tensor's items.

    Raises:
        InvalidDataError: its marks do not match the levels, or text is not UTF-8.
    """
    count = int(level[-1])
    kept = tensor if len(tensor) == count else tensor[:count]
    own = marks or kept.marks
    fields = tuple(replace(one, level=one.level + 1) for one in kept.marks.fields)
    lod = LoD([level, *kept.lod.levels])
    found = LoDTensor(kept.data, lod, replace(own, fields=fields))
    if marks.is_text:
        check_text(found.data, found.lod)
    return found


def _with_fields(tensor: LoDTensor, fields: tuple[Field, ...]) -> LoDTensor:
    return LoDTensor(tensor.data, tensor.lod, replace(tensor.marks, fields=fields))


def _settled(tensor: LoDTensor) -> LoDTensor:
    """Return a tensor, keeping its fields only if it is in records that are not below lists."""
    fields = tensor.marks.fields
    whole = len(fields) > 1 and not fields[0].level
    return tensor if whole or not fields else _with_fields(tensor, ())


# -- writing -----------------------------------------------------------------------


def _shared_key(spec: TensorSpec, level: int) -> str | None:
    """Return a key that is equal for tensors to be written as one list of records; None: none."""
    # Text is not a list of records.
    lists = len(spec.levels) - (spec.marks.values is not None)
    return spec.levels[level].key if level < lists else None


def _called(marks: Marks, part: int) -> dict[str, str]:
    """Return the parameters of a list (part 0) or of its items (part 1)."""
    return {"__array__": _NAMES[marks.values][part]} if marks.values else {}


def _list_form(content: Form, marks: Marks, key: str) -> Form:
    return {
        "class": "ListOffsetArray",
        "offsets": "i64",
        "content": content,
        "parameters": _called(marks, 0),
        "form_key": key,
    }


class Plan:
    """The form of tensors, and the names of the buffers of their arrays.

    Attributes:
        form: of all tensors together.
        keys: (tensor, level) to the name of its buffer; level -1 is its rows.
    """

    def __init__(self, schema: Schema) -> None:
        self.keys: dict[tuple[str, int], str] = {}
        self._nodes = 0
        if any(spec.marks.fields for spec in schema):
            self.form = self._record_form(tree(schema))
            return
        fields = {spec.name: spec for spec in schema}
        bare = len(schema) == 1 and schema[0].name == DEFAULT_NAME
        self.form = self._content(fields, 0, bare)

    def _record_form(self, nodes: Sequence[Node]) -> Form:
        key = self._key()
        return {
            "class": "RecordArray",
            "fields": [node.name for node in nodes],
            "contents": [self._node_form(node, node.level) for node in nodes],
            "parameters": {},
            "form_key": key,
        }

    def _node_form(self, node: Node, level: int) -> Form:
        """Return the form of a column or field of records, from a level inwards."""
        first = next(node.specs)
        if level == (node.inner if node.spec is None else len(first.levels)):
            return self._leaf(first) if node.spec is not None else self._record_form(node.fields)
        key = self._key()
        for spec in node.specs:
            self.keys[spec.name, level] = f"{key}-offsets"
        marks = first.marks if len(first.levels) == level + 1 and node.spec else NO_MARKS
        return _list_form(self._node_form(node, level + 1), marks, key)

    def _content(self, specs: Mapping[str, TensorSpec], level: int, bare: bool) -> Form:
        first = next(iter(specs.values()))
        if bare and level == len(first.levels):
            return self._leaf(first)
        keys = {_shared_key(spec, level) for spec in specs.values()}
        if bare or (len(keys) == 1 and None not in keys):
            key = self._key()
            for name in specs:
                self.keys[name, level] = f"{key}-offsets"
            marks = first.marks if len(first.levels) == level + 1 else NO_MARKS
            content = self._content(specs, level + 1, bare)
            return _list_form(content, marks, key)
        key = self._key()
        contents = [self._content({name: spec}, level, True) for name, spec in specs.items()]
        return {
            "class": "RecordArray",
            "fields": list(specs),
            "contents": contents,
            "parameters": {},
            "form_key": key,
        }

    def _leaf(self, spec: TensorSpec) -> Form:
        key = self._key()
        self.keys[spec.name, -1] = f"{key}-data"
        return {
            "class": "NumpyArray",
            "primitive": spec.dtype.name,
            "inner_shape": list(spec.row_shape),
            "parameters": _called(spec.marks, 1),
            "form_key": key,
        }

    def _key(self) -> str:
        self._nodes += 1
        return f"node{self._nodes - 1}"
