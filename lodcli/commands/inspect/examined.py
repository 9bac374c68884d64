"""Parts of `lod inspect` that read rows: statistics, single sequences, duplicates."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.schema import TensorSpec
from lodcli.kernels.errors import SelectionError
from lodcli.kernels.index.selection import level_text
from lodcli.shell import output

if TYPE_CHECKING:
    from lodcli.commands.inspect.sequences import Sequence
    from lodcli.commands.inspect.value_statistics import ValueStatistics
    from lodcli.reports.inspection import Duplicates


@dataclass(frozen=True)
class Wanted:
    """The options of `lod inspect` that read rows.

    Attributes:
        stats: the statistics of values.
        values: the values of sequences.
        head, top: number of sequences, the first or the longest; None for none.
        shortest: whether `top` selects the shortest.
        duplicates: which sequences are equal.
        level: of the sequences; None: the outermost.
    """

    stats: bool = False
    values: bool = False
    head: int | None = None
    top: int | None = None
    shortest: bool = False
    duplicates: bool = False
    level: int | str | None = None

    @property
    def of_sequences(self) -> bool:
        """Whether any option is about the sequences of one tensor."""
        return self.values or self.top is not None or self.duplicates

    def __bool__(self) -> bool:
        return self.stats or self.of_sequences


@dataclass
class Examined:
    """Results for all tensors, or for the selected one.

    Attributes:
        statistics: by the name of the tensor.
        name: the selected tensor, to which the other attributes belong.
        level: the name of the level.
        sequences: those of "head" and of "top".
    """

    statistics: dict[str, ValueStatistics] = field(default_factory=dict)
    name: str = ""
    level: str = ""
    sequences: dict[Literal["head", "top"], list[Sequence]] = field(default_factory=dict)
    duplicates: Duplicates | None = None

    def to_json(self, name: str) -> dict[str, Any]:
        """Return the results for a tensor, for JSON."""
        content: dict[str, Any] = {}
        if name in self.statistics:
            content["values"] = self.statistics[name].to_json()
        if name == self.name:
            for kind, found in self.sequences.items():
                content[kind] = [one.to_json() for one in found]
            if self.duplicates is not None:
                content["duplicates"] = asdict(self.duplicates)
        return content

    def lines(self) -> list[str]:
        """Return the results as lines of text."""
        lines: list[str] = []
        if self.statistics:
            headers = ("values of", "count", "min", "mean", "max", "std", "zeros", "nan", "inf")
            rows = [
                [
                    *(name, f"{one.count:,}"),
                    *one.figures(".6g"),
                    *(f"{count:,}" for count in (one.zeros, one.nan, one.infinite)),
                ]
                for name, one in self.statistics.items()
            ]
            lines += ["", output.table(headers, rows)]
        for found in self.sequences.values():
            lines += ["", self._table(found)]
        if self.duplicates is not None:
            lines += ["", *_duplicate_lines(self.duplicates, self.level)]
        return lines

    def _table(self, found: list[Sequence]) -> str:
        nested = any(len(one.branch) > 1 for one in found)
        shown = any(one.values is not None for one in found)
        headers = [self.level, *["branch"] * nested, "length", *["values"] * shown]
        rows = [
            [
                str(one.item),
                *[",".join(map(str, one.branch))] * nested,
                f"{one.length:,}",
                *[one.text] * shown,
            ]
            for one in found
        ]
        return output.table(headers, rows)


def examined(
    source: IndexedSource, schema: tuple[TensorSpec, ...], chosen: TensorSpec | None, wanted: Wanted
) -> Examined:
    """Return the results of these options.

    Args:
        schema: the tensors for statistics of values.
        chosen: the tensor for results about sequences.
    """
    from lodcli.commands.inspect.duplicates import duplicates
    from lodcli.commands.inspect.sequences import extreme, sequences
    from lodcli.commands.inspect.value_statistics import value_statistics

    result = Examined()
    if wanted.stats:
        result.statistics = {spec.name: value_statistics(source, spec) for spec in schema}
    if not wanted.of_sequences:
        return result
    assert chosen is not None
    lod = source.lods[chosen.name]
    if not lod.n_levels:
        raise SelectionError(f"{chosen.name} has no levels, so there are no sequences to look at")
    level = lod.level(0 if wanted.level is None else wanted.level)
    result.name, result.level = chosen.name, level_text(lod, level)
    if wanted.head is not None:
        items = np.arange(min(wanted.head, lod.count(level)))
        result.sequences["head"] = sequences(source, chosen, level, items, values=wanted.values)
    if wanted.top is not None:
        items = extreme(lod, level, wanted.top, shortest=wanted.shortest)
        result.sequences["top"] = sequences(source, chosen, level, items, values=wanted.values)
    if wanted.duplicates:
        result.duplicates = duplicates(source, chosen, level)
    return result


def _duplicate_lines(found: Duplicates, level: str) -> list[str]:
    lines = output.wrapped(
        f"duplicates: {found.duplicates:,} of {output.plural(found.sequences, 'sequence')} "
        f"({level}) equal an earlier one"
    )
    for group in found.groups:
        items = ", ".join(map(str, group.items)) + (" .." if group.count > len(group.items) else "")
        lines += output.wrapped(f"{group.count:,} times: {items}")
    return lines
