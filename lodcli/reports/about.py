"""What the commands report that are about lod itself."""

from __future__ import annotations

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
