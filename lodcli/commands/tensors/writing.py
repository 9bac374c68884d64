"""Writing some tensors of a file, perhaps under other names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lodcli.formats.core.errors import naming_file, naming_os
from lodcli.formats.core.schema import Schema, TensorSpec
from lodcli.shell.opened import opened
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target


def write_tensors(
    source: Reference, target: Target, choose: Callable[[Schema], Mapping[str, TensorSpec]]
) -> None:
    """Write tensors of a file as they come, levels shared as before.

    Args:
        source: the file.
        target: where to.
        choose: returns for a schema the tensors to write: their names, and what they become.
    """
    with opened(source) as file:
        called = choose(file.schema)
        schema = tuple(called.values())
        with naming_os(source.label), naming_file(source.label):
            batches = (
                {called[name].name: item for name, item in batch.items() if name in called}
                for batch in file.source.batches_of(list(called))
            )
            target.write(schema, (batch for batch in batches if batch), file.read_share)
