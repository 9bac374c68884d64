"""Writing some tensors of a file, possibly under other names."""

from __future__ import annotations

from collections.abc import Callable

from lodcli.formats.core.errors import naming_source
from lodcli.formats.core.schema import Schema
from lodcli.formats.values.relabelled import Chosen, Relabelled
from lodcli.shell.opened import opened
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


def write_tensors(source: Reference, target: Target, choose: Callable[[Schema], Chosen]) -> None:
    """Write tensors of a file batch by batch; shared levels stay shared.

    Args:
        choose: returns the tensors of a schema to write: by their names, their new specs.
    """
    with opened(source) as file:
        found = Relabelled(file.source, choose(file.schema))
        with naming_source(source.label):
            target.write(found.schema, found.batches(), file.read_share)
