"""torch: tensors in a .pt file of `torch.save`; read without torch."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from lodcli.formats.arrays.flat_arrays import FLAT_OPTIONS, FLAT_WRITE_OPTIONS
from lodcli.formats.catalogue.packages import Package
from lodcli.formats.core.format import Format, LeftOut, Source, joined
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Schema
from lodcli.formats.storage.file_objects import Sink
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.storage.zip_archive import first_name
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import SelectionError, UnsupportedError
from lodcli.kernels.suggestions import or_near

PACKAGE = Package("torch", "lodcli[torch]", "writing")
FORMS = ("nested", "packed", "padded", "list", "flat")


class Torch(Format):
    """Files of `torch.save`: tensors, and lists, tuples and dicts of them.

    Reading: a jagged nested tensor, a list of tensors, or a padded tensor with its lengths is
    a tensor of one level, a list of lists of more; a PackedSequence is a TensorArray; a dict
    is several tensors, its plain ones named as in npz. Reading and writing keep everything
    in memory.
    """

    name = "torch"
    checksums = "CRC-32 of every record"
    dtypes = ALL_DTYPES
    many = True
    arrays = True
    streams = False
    needs = (PACKAGE,)
    options = FLAT_OPTIONS
    write_options = FLAT_WRITE_OPTIONS | {"form"}
    modules = (
        "lodcli.formats.arrays.in_memory",
        "lodcli.formats.torch.archive",
        "lodcli.formats.torch.values",
        "encodings.cp437",
    )

    def sniff(self, head: bytes) -> bool:
        return first_name(head).endswith(b"/data.pkl")

    def open(self, source: Input, options: ReadOptions) -> Source:
        from lodcli.formats.arrays.in_memory import MemorySource
        from lodcli.formats.torch.archive import load
        from lodcli.formats.torch.values import items_of

        if source.path is not None and source.path.suffix == ".distcp":
            raise UnsupportedError(
                "is one file of a checkpoint of torch.distributed; convert its folder, with python "
                "-m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE.pt"
            )
        file = source.make_seekable()
        loaded = load(file)
        most_bytes = source.bounds.growth(file.seek(0, 2))
        left_out, notes = LeftOut(), list[str]()
        items = items_of(
            *(loaded.value, options, left_out, notes),
            most_bytes=most_bytes,
            pickle_bytes=loaded.pickle_bytes,
        )
        found = MemorySource(items, left_out)
        found.notes = notes
        return found

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        if options.form is not None and options.form not in FORMS:
            raise SelectionError(
                f"no form {options.form!r}; there are: {', '.join(FORMS)}"
                f"{or_near(options.form, FORMS)}"
            )
        torch()
        from lodcli.formats.torch.forms import refuse_unheld, value_of

        refuse_unheld(schema, options)
        with silent():
            value = value_of(schema, joined(schema, batches), options)
        save(value, output)


def save(value: object, output: Output) -> None:
    """Write a value that consists of tensors, lists and dicts."""
    package = torch()
    sink = Sink(output)
    with silent(), sink.raising():
        package.save(value, sink)


@contextmanager
def silent() -> Iterator[None]:
    """Suppress torch's warnings, such as those about prototype features."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def torch() -> Any:
    """Return the package.

    Raises:
        UnsupportedError: it is not installed.
    """
    try:
        import torch as package
    except ModuleNotFoundError:
        raise PACKAGE.missing("writing torch") from None
    return package
