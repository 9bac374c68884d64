"""Writes tensors as JSON: lists, text, nulls, and objects of the fields of records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from json.encoder import encode_basestring
from operator import gt
from typing import NamedTuple

import numpy as np

from lodcli.formats.items.taking import Tensors
from lodcli.formats.structs.tree import Node
from lodcli.formats.text.numerals import put_nulls, texts
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.tensor.exchange.units import texts as texts_of_unit
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Times
from lodcli.kernels.tensor.nulls import equal_masks


def samples(tensor: LoDTensor, level: int = 0) -> list[str]:
    """Return the items of a level of a tensor as JSON, by default of the outermost."""
    lod, masks = tensor.lod, tensor.nulls.masks or (None,) * (tensor.lod.n_levels + 1)
    if tensor.marks.is_text:
        raw = tensor.values.tobytes()
        cuts = pairwise(lod.levels[-1].tolist())
        found = [encode_basestring(raw[start:stop].decode()) for start, stop in cuts]
        depth = lod.n_levels - 1
    else:
        found, depth = _rows(tensor), lod.n_levels
    found = put_nulls(found, masks[depth], "null")
    for number in reversed(range(level, depth)):
        found = put_nulls(_grouped(found, lod.levels[number]), masks[number], "null")
    return found


def _rows(tensor: LoDTensor) -> list[str]:
    shape = tensor.values.shape
    flat, unit = tensor.values.reshape(-1), tensor.marks.unit
    found = texts(flat) if unit is None else texts_of_unit(flat, unit)
    if isinstance(unit, Times):
        found = [f'"{one}"' for one in found]
    for axis in range(len(shape) - 1, 0, -1):
        lists = int(np.prod(shape[:axis], dtype=np.int64))
        found = _grouped(found, np.arange(lists + 1) * shape[axis])
    return found


def _grouped(values: list[str], offsets: Offsets) -> list[str]:
    return [f"[{','.join(values[start:stop])}]" for start, stop in pairwise(offsets.tolist())]


# -- records -----------------------------------------------------------------------


class _Texts(NamedTuple):
    """Values as JSON, and which are null or hold only nulls; None if none does."""

    values: list[str]
    nothing: list[bool] | None

    @staticmethod
    def of(values: list[str]) -> _Texts:
        return _Texts(values, [one == "null" for one in values] if "null" in values else None)


def node_samples(node: Node, batch: Tensors) -> list[str]:
    """Return the items of the level at which a node begins as JSON.

    Raises:
        InvalidDataError: the nulls of the lists above records differ.
    """
    return _of_batch(node, batch).values


def _of_batch(node: Node, batch: Tensors) -> _Texts:
    if node.spec is not None:
        return _Texts.of(samples(batch[node.spec.name], node.level))
    found = _objects(node, [_of_batch(field, batch) for field in node.parts])
    if node.inner == node.level:
        return found
    texts = found.values
    first, *others = [batch[spec.name] for spec in node.specs]
    for level in reversed(range(node.level, node.inner)):
        mask = first.nulls.mask(level)
        for other in others:
            mine = other.nulls.mask(level)
            if not equal_masks(mask, mine):
                raise InvalidDataError(
                    f"the fields of {node.name} do not agree on which lists are null, in level "
                    f"{level}"
                )
        texts = put_nulls(_grouped(texts, first.lod.levels[level]), mask, "null")
    return _Texts.of(texts)


def _objects(node: Node, parts: Sequence[_Texts]) -> _Texts:
    """Return objects of the values of all parts of a node; null where the record is null."""
    fields = parts[: len(node.fields)]
    found = list(_braced(node.fields, fields))
    given = [part.nothing for part in fields if part.nothing is not None]
    nothing = None
    if len(given) == len(fields):
        # Kept even if these records are never null: those above them may be.
        nothing = [all(each) for each in zip(*given, strict=True)]
    if node.present is not None:
        missing = [text != "true" for text in parts[-1].values]
        if any(missing) and (nothing is None or any(map(gt, missing, nothing))):
            told = next(node.present.specs).name
            raise InvalidDataError(f"{told} marks a record as null, but a field of it is not")
    else:
        missing = [] if node.required or nothing is None else nothing
    if any(missing):
        found = ["null" if empty else one for one, empty in zip(found, missing, strict=True)]
    return _Texts(found, nothing)


def _braced(fields: Sequence[Node], parts: Sequence[_Texts]) -> Iterator[str]:
    """Return objects, each with the next value of every field."""
    keys = (json.dumps(field.name).replace("%", "%%") for field in fields)
    template = "{" + ",".join(f"{key}:%s" for key in keys) + "}"
    return map(template.__mod__, zip(*(part.values for part in parts), strict=True))


def object_lines(columns: Sequence[Node], batch: Tensors) -> Iterator[str]:
    """Return the lines of equally many items of all tensors, an object each.

    Raises:
        InvalidDataError: the nulls of the lists above records differ.
    """
    return _braced(columns, [_of_batch(column, batch) for column in columns])
