"""Reports what a format cannot keep of its tensors: names, dtypes, shapes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice, zip_longest

from lodcli.formats.core.format import Format
from lodcli.formats.core.names import listing
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import Schema, TensorSpec
from lodcli.formats.structs.tree import record_columns
from lodcli.formats.values.file_attributes import parsed
from lodcli.formats.values.in_words import in_words, writes_words

# In a message; a file may have thousands.
MOST_SHOWN = 6


@dataclass(frozen=True)
class Loss:
    """Content of one kind that reading the file does not restore.

    Attributes:
        format_name: of the file.
        what: the kind, such as "level names".
        lost: the lost content, such as the names.
    """

    format_name: str
    what: str
    lost: tuple[str, ...]

    def __str__(self) -> str:
        shown = listing(self.lost, MOST_SHOWN)
        return f"{self.format_name} does not keep these {self.what}: {shown}"


def losses(kind: Format, schema: Schema, options: WriteOptions) -> tuple[Loss, ...]:
    """Return the properties of these tensors that a format cannot store, one entry for each kind.

    These are losses when reading without options; options such as --dtype and --levels may
    restore them.
    """
    given = schema
    if writes_words(kind, schema):
        schema = in_words(schema)
    found: dict[str, Iterable[str]] = {
        "tensor names": kind.lost_tensor_names(schema) if len(schema) > 1 else (),
        "level names": [name for spec in schema for name in _lost_level_names(kind, spec, options)],
        "levels": [
            f"level {level} of {spec.name}" for spec in schema for level in kind.lost_levels(spec)
        ],
        "dtypes": [
            f"{spec.dtype.name} of {spec.name}"
            for spec in schema
            if not kind.keeps_dtype(spec, options)
        ],
        "marks": [
            f"{spec.marks.of_values} of {spec.name}" for spec in given if not kind.keeps_marks(spec)
        ],
        "attributes": []
        if kind.attributes
        else [f"those of {spec.name}" for spec in schema if spec.marks.attributes],
        "file attributes": [] if kind.file_attributes else parsed(options.attributes),
        "records": () if kind.structs else record_columns(schema),
        "row shapes": [
            f"{spec.row_shape} of {spec.name}"
            for spec in schema
            if spec.row_shape and not kind.row_shapes
        ],
    }
    return tuple(
        Loss(kind.name, what, unique)
        for what, lost in found.items()
        if (unique := tuple(dict.fromkeys(lost)))
    )


def marks_of_steps(schema: Schema) -> tuple[str, ...]:
    """Return the marks of TensorArrays, which no format keeps."""
    found = [(spec.name, spec.marks) for spec in schema if spec.array]
    return (
        *(f"{marks.of_values} of {name}" for name, marks in found if marks.kind),
        *(f"attributes of {name}" for name, marks in found if marks.attributes),
    )


def _lost_level_names(kind: Format, spec: TensorSpec, options: WriteOptions) -> Iterable[str]:
    """Return the names of levels that are neither in the file nor given when it is read."""
    if kind.level_names:
        named = enumerate(spec.level_names)
        return [one for level, one in named if one and not kind.keeps_level_name(spec, level)]
    names = [level.name for level in (*spec.outer, *spec.levels)]
    given = reversed(kind.given_level_names(spec, options))
    pairs = zip_longest(reversed(names), islice(given, len(names)))
    return reversed([one for one, other in pairs if one not in (None, other)])
