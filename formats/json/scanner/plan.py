"""The tree of nodes that the compiled scanner expects in JSON lines, from the columns of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lodcli.formats.json.columns import Column
from lodcli.formats.json.fields import Columns
from lodcli.formats.json.objects.reading import HOLLOW, NULL
from lodcli.formats.json.scanner.scan_native import (
    NOTHING,
    REAL,
    RECORD,
    SKIPPED,
    TEXT,
    TRUTH,
    WHOLE,
    Node,
    Path,
)

# Most nested lists for the scanner, which has a bit for the nulls of each level.
MOST_DEPTH = 60
_KINDS = {"b": TRUTH, "i": WHOLE, "u": WHOLE}
_ANY = Node(SKIPPED, 0, frozenset({0}), lacking=True)
_NONE = Node(NOTHING, 0, lacking=True)


def paths_of(column: Column) -> Iterator[Path]:
    """Yield the paths to the nodes that hold a column, outermost first."""
    keys = [column.field] if column.field is not None else []
    keys += [step.key for step in column.inside if step.key is not None]
    for end in range(len(keys) + 1):
        yield tuple(keys[:end])


def plan(columns: Columns, *, narrow: bool = False) -> Node:
    """Return the content of lines that the exact parser reads with these columns.

    Args:
        narrow: whether lines must also have no value that would change the columns, if these were
            inferred from more lines: none where there was none so far.
    """
    planner = _Planner(columns, narrow)
    found = columns.found
    if found[0].field is None:
        return planner.leaf(found[0], 0)
    groups: dict[str, list[Column]] = {}
    for column in found:
        groups.setdefault(str(column.field), []).append(column)
    fields = {name: planner.field(group, 0, 0) for name, group in groups.items()}
    skipped = sorted((columns.known or frozenset()) - fields.keys())
    fields |= dict.fromkeys(skipped, _ANY)
    return Node(RECORD, 0, fields=fields, others=columns.known is None)


class _Planner:
    """Makes nodes of columns; see `plan`."""

    def __init__(self, columns: Columns, narrow: bool) -> None:
        self._lacking = columns.lacking
        self._objects = columns.nulls
        self._narrow = narrow

    def field(self, group: Sequence[Column], above: int, place: int) -> Node:
        """Return the node of a field.

        Args:
            group: the columns of the field, or of its records.
            above: the number of lists around the field.
            place: the number of records around the field.
        """
        if len(group[0].inside) == place:
            return self.leaf(group[0], above)
        step = group[0].inside[place]
        groups: dict[str, list[Column]] = {}
        for column in group:
            key = column.inside[place].key
            if key is not None:
                groups.setdefault(key, []).append(column)
        fields = {key: self.field(each, step.lists, place + 1) for key, each in groups.items()}
        others = sorted(step.known - fields.keys())
        fields |= dict.fromkeys(others, _NONE if self._narrow else _ANY)
        depth = step.lists - above
        nullable = set(range(depth)) if all(one.spec.nullable for one in group) else set()
        kind = None if self._objects is None else self._objects.found[step.name]
        if kind != HOLLOW and all(0 in inner.nullable for inner in fields.values()):
            nullable.add(depth)
        lacking = 0 in nullable and (place > 0 or self._lacking)
        return Node(RECORD, depth, frozenset(nullable), lacking, fields, hollow=kind != NULL)

    def leaf(self, column: Column, above: int) -> Node:
        """Return the node of a column without fields, below this many lists."""
        spec = column.spec
        kind = TEXT if column.text else _KINDS.get(spec.dtype.kind, REAL)
        if self._narrow and not column.sure:
            kind = NOTHING
        levels = len(spec.levels)
        # A null row that is a list or text is left to the exact parser.
        ends = levels + (column.depth == levels and not column.text)
        nullable = range(ends - above if spec.nullable else 0)
        lacking = 0 in nullable and (bool(column.inside) or self._lacking)
        return Node(kind, column.depth - above, frozenset(nullable), lacking)
