"""Reports of the commands about lod itself."""

from __future__ import annotations

from typing import TypedDict

from lodcli.reports.common import Report


class Completion(Report):
    """The completion script of a shell.

    Attributes:
        shell: its name.
        script: what to evaluate there.
    """

    shell: str
    script: str


class Schemas(Report):
    """The commands that print JSON, as lod schema lists them.

    Attributes:
        commands: their names; lod schema NAME prints the JSON Schema.
    """

    commands: list[str]


class Variable(TypedDict):
    """An environment variable.

    Attributes:
        name: of the variable.
        value: its value, null if it is not set.
        default: what holds without it.
        meaning: what it does.
    """

    name: str
    value: str | None
    default: str
    meaning: str


class Environment(Report):
    """The environment variables that lod reads.

    Attributes:
        variables: in the order of lod --help.
    """

    variables: list[Variable]


class Op(TypedDict):
    """An op.

    Attributes:
        name: as lod apply takes it.
        summary: what it returns.
        equation: in the notation of docs/ops.md.
        package: name and version of the package of a plug-in; null for those of lod.
    """

    name: str
    summary: str
    equation: str
    package: str | None


class Ops(Report):
    """The ops of lod apply, with --list.

    Attributes:
        ops: in the order of their names.
    """

    ops: list[Op]
