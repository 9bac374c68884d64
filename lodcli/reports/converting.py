"""Reports of `lod convert`, in addition to the files it wrote."""

from __future__ import annotations

from typing import TypedDict

from lodcli.reports.common import Report


class NeededPackage(TypedDict):
    """An optional package.

    Attributes:
        package: its name in Python.
        use: what it is needed for: reading, writing, everything, or a part of these.
        install: what pip install takes.
        installed: whether it is there.
    """

    package: str
    use: str
    install: str
    installed: bool


class FormatEntry(TypedDict):
    """A format.

    Attributes:
        name: as --from and --to take it.
        extensions: of its files.
        layout: file, files beside each other, or folder; only a file goes through a pipe.
        read, write: whether lod reads it, and writes it.
        streams: whether only parts of a file are in memory at a time.
        min_levels: fewest levels of a tensor.
        max_levels: most levels; null for any number.
        dtypes: those that it holds.
        several: whether it holds several named tensors.
        level_names: whether it holds the names of levels.
        records: whether it holds records of tensors.
        marks: those that reading finds again, such as text.
        nulls: yes, numbers for null numbers alone, or no.
        needs: optional packages.
        package: name and version of the package of a plug-in; null for those of lod.
        read_options, write_options: keywords of lodcli.open and lodcli.write.
    """

    name: str
    extensions: list[str]
    layout: str
    read: bool
    write: bool
    streams: bool
    min_levels: int
    max_levels: int | None
    dtypes: list[str]
    several: bool
    level_names: bool
    records: bool
    marks: list[str]
    nulls: str
    needs: list[NeededPackage]
    package: str | None
    read_options: list[str]
    write_options: list[str]


class Formats(Report):
    """The formats of lod, with --formats.

    Attributes:
        formats: in the order in which unknown content is tried.
    """

    formats: list[FormatEntry]


class LostContent(TypedDict):
    """Content of one kind that a format does not keep.

    Attributes:
        what: the kind, such as level names.
        names: what exactly.
    """

    what: str
    names: list[str]


class ConversionPlan(Report):
    """What OUT would refuse or lose, with --dry-run.

    Attributes:
        format: of OUT.
        refused: reasons why nothing would be written; empty if it would.
        lost: what reading OUT would not give back.
    """

    format: str
    refused: list[str]
    lost: list[LostContent]
