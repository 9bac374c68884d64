"""Writing a file of one format: checks before and during, and what the target may be."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

from lodcli.formats.core import registry
from lodcli.formats.core.batching import only
from lodcli.formats.core.errors import Incoming, name_file, naming_file
from lodcli.formats.core.format import Format, Stored
from lodcli.formats.core.limits import declared_bytes
from lodcli.formats.core.losses import Loss, losses, marks_of_steps
from lodcli.formats.core.marks import marked
from lodcli.formats.core.names import split_reference
from lodcli.formats.core.options import WriteOptions, refuse_unknown_options
from lodcli.formats.core.schema import Batch, Schema, rekeyed
from lodcli.formats.core.table import SUFFIXES
from lodcli.formats.remote.urls import shown
from lodcli.formats.storage.compression import (
    require_zstandard,
    suffix_codec,
    without_suffix,
)
from lodcli.formats.storage.folder_output import FolderOutput, refuse_existing_folder
from lodcli.formats.storage.outputs import Output, refuse_existing, refuse_url
from lodcli.formats.structs.tree import broken_columns, flattened, record_columns
from lodcli.formats.values.in_words import batches_in_words, in_words, writes_words
from lodcli.kernels.errors import LodError, SelectionError, UnsupportedError
from lodcli.kernels.options import option
from lodcli.kernels.platform.files import PathLike
from lodcli.kernels.tensor.marks import NO_MARKS

_KEEPING = "write lod.h5, which keeps everything, or "


class Writing:
    """Writing files of one format.

    Attributes:
        lost: the losses of the schema that was checked last, and of null texts in batches so far.
    """

    def __init__(self, kind: Format, options: WriteOptions, strict: bool) -> None:
        self._kind = kind
        self._options = options
        self._strict = strict
        self._incoming: Incoming[Any] = Incoming([])
        self.lost: tuple[Loss, ...] = ()
        # Of all files of a set: losses are reported after the last one.
        self._null_texts = dict[str, None]()

    @contextmanager
    def naming(self, path: PathLike) -> Iterator[None]:
        """Add the name of the target to errors, except to those of the input."""
        try:
            yield
        except LodError as error:
            if error is not self._incoming.error:
                name_file(error, target_label(path))
            raise

    def check(self, schema: Schema) -> None:
        """Raise UnsupportedError for content that the format cannot hold."""
        self._kind.require("writing")
        refuse_unknown_options(self._kind.write_options, self._options, self._kind.name)
        of_steps = marks_of_steps(schema)
        schema = self._told_apart(rekeyed(schema))
        broken = broken_columns(schema)
        held = self._held(schema)
        if writes_words(self._kind, held):
            held = in_words(held)
        self._kind.refuse_unheld(self._kind.laid_out(held, self._options))
        self.lost = losses(self._kind, flattened(schema, broken), self._options)
        if broken:
            why = "records, whose fields do not share their levels"
            self.lost = (*self.lost, Loss(self._kind.name, why, broken))
        if of_steps:
            self.lost = (*self.lost, Loss(self._kind.name, "marks of time steps", of_steps))
        self._refuse_lost("" if of_steps else _KEEPING)

    def _refuse_lost(self, other: str = _KEEPING) -> None:
        """Raise UnsupportedError if something is lost that may not be."""
        if self._strict and self.lost:
            raise UnsupportedError(
                f"{'; '.join(map(str, self.lost))}; {other}do without {option('strict', True)}"
            )

    def refusals(self, schema: Schema) -> list[str]:
        """Return the messages of `check`; those for each tensor, if the first is about one."""
        try:
            self.check(schema)
        except LodError as error:
            first = str(error)
        else:
            return []
        found = [reason for spec in schema if len(schema) > 1 for reason in self.refusals((spec,))]
        return list(dict.fromkeys(found)) if first in found else [first]

    def write(
        self, output: Output, codec: str | None, schema: Schema, batches: Iterable[Batch]
    ) -> None:
        """Write batches to an output that was opened for them."""
        if codec is not None:
            output.pack(codec)
        told = self._told_apart(schema)
        if len(told) < len(schema):
            batches = only(batches, [spec.name for spec in told])
        schema = self._held(told)
        schema, found = self.in_words(schema, marked(schema, batches))
        self._incoming = Incoming(self.with_held_nulls(schema, found) or found)
        packed = codec is not None or self._options.compression is not None
        with _telling_size(schema, " before compression" if packed else ""):
            self._kind.write(output, rekeyed(schema), self._incoming, self._options)
        self._refuse_lost()

    def copy(self, output: Output, stored: Stored) -> bool:
        """Write all of a file to an output as it is stored; return whether that can be done."""
        copied = self._kind.copy(output, stored.source, self._options)
        if copied is None:
            return False
        self._incoming = Incoming(stored.passing(copied))
        # The threads of the copy end before the output does.
        with _telling_size(stored.source.schema), closing(copied):
            deque(self._incoming, 0)
        return True

    def _told_apart(self, schema: Schema) -> Schema:
        """Return the schema without marks of time steps, which no format holds.

        Validity masks of records are left out too, if the format has no records.
        """
        schema = tuple(replace(spec, marks=NO_MARKS) if spec.array else spec for spec in schema)
        if self._kind.structs:
            return schema
        return tuple(spec for spec in schema if not spec.marks.tells_records) or schema

    def _held(self, schema: Schema) -> Schema:
        """Return the tensors in the records that the format writes."""
        if not any(spec.marks.fields for spec in schema):
            return schema
        schema = flattened(schema, broken_columns(rekeyed(schema)))
        return schema if self._kind.structs else flattened(schema, record_columns(schema))

    def in_words(self, schema: Schema, batches: Iterable[Batch]) -> tuple[Schema, Iterable[Batch]]:
        """Return categories converted to text, if that is how the format stores them."""
        if not writes_words(self._kind, schema):
            return schema, batches
        return in_words(schema), batches_in_words(batches)

    def with_held_nulls(self, schema: Schema, batches: Iterable[Batch]) -> Iterator[Batch] | None:
        """Return the batches with an error at the first null that the format cannot hold.

        None if it can hold all nulls that may occur. Null texts are noted in `lost` if they are
        read as empty ones.
        """
        kind = self._kind
        holds_all = kind.nulls and kind.null_lists and kind.keeps_null_texts
        if holds_all or not any(spec.nullable for spec in schema):
            return None
        from lodcli.formats.values.without_nulls import refusing_nulls

        what = f"for lists {kind.name}" if kind.nulls else kind.name
        refused = refusing_nulls(batches, what, lists_only=kind.nulls)
        return refused if kind.keeps_null_texts else self._noting_null_texts(refused)

    def _noting_null_texts(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield batches, and add their null texts to `lost` at the end."""
        from lodcli.formats.values.without_nulls import has_null_texts

        for batch in batches:
            self._null_texts |= {name: None for name, item in batch.items() if has_null_texts(item)}
            yield batch
        if self._null_texts:
            reads = f"{option('nulls', 'keep')} and {option('text-columns')} read them"
            what = f"null texts, unless {reads}"
            self.lost = (*self.lost, Loss(self._kind.name, what, tuple(self._null_texts)))


@contextmanager
def _telling_size(schema: Schema, when: str = "") -> Iterator[None]:
    """Add to the error of a full disk how many bytes the tensors take, if that is known."""
    try:
        yield
    except OSError as error:
        counts = [n for spec in schema for n in (spec.rows, *(one.items for one in spec.levels))]
        if error.errno in (errno.ENOSPC, errno.EDQUOT) and None not in counts:
            needed = sum(map(declared_bytes, schema))
            error.strerror = f"{error.strerror}; rows and offsets take {needed:,} bytes{when}"
        raise


def new_output(path: PathLike, kind: Format, overwrite: bool) -> Output:
    """Return an output for a file, or for the folder of a format that is one."""
    if kind.layout == "folder":
        return FolderOutput(path, overwrite=overwrite, may_hold=kind.folder_files)
    return Output(path, overwrite=overwrite, seekable=kind.seekable_output)


def codec_of_name(path: PathLike, kind: Format) -> str | None:
    """Return the codec of the file name's extension, for text formats; others raise."""
    codec = suffix_codec(os.fspath(path))
    if codec is not None and kind.binary and not kind.packed:
        raise UnsupportedError(
            f"{kind.name} is not compressed as a whole, so that parts can be read; name it "
            f"{os.path.basename(without_suffix(os.fspath(path)))}"
            + (f", and give {option('compress')}" if "compression" in kind.write_options else "")
        )
    if codec == "zstd":
        require_zstandard()
    return codec


def refuse_target(path: PathLike, kind: Format, *, overwrite: bool) -> None:
    """Raise for an invalid target, before anything is read.

    Raises:
        UnsupportedError: a folder or several files for a pipe; a format that cannot be written.
        TargetExistsError: something is there that may not be replaced.
    """
    with naming_file(target_label(path)):
        kind.require("writing")
        refuse_pipe(path, kind)
    if os.fspath(path) == "-":
        return
    if kind.layout == "folder":
        refuse_existing_folder(path, overwrite=overwrite, may_hold=kind.folder_files)
    else:
        refuse_existing(path, overwrite=overwrite)


def target_label(path: PathLike) -> str:
    """Return the name of a target for messages."""
    return "standard output" if os.fspath(path) == "-" else shown(os.fspath(path))


def refuse_pipe(path: PathLike, kind: Format) -> None:
    """Raise UnsupportedError if `path` is "-" and the format is more than one file."""
    if os.fspath(path) == "-" and kind.layout != "file":
        what = "a folder" if kind.layout == "folder" else "several files"
        raise UnsupportedError(f"{kind.name} is {what}, not one stream of bytes; name a path")


def output_format(path: PathLike, format_name: str | None, *, by_name: bool = False) -> str:
    """Return the output format: given, by the extension, or the lod stream for "-".

    Args:
        path: the file, or "-".
        format_name: as given; None if it is not.
        by_name: whether only the extension can choose it, for the message of an error.

    Raises:
        SelectionError: a path with an unknown extension.
        UnsupportedError: a URL.
    """
    refuse_url(path)
    if format_name:
        return registry.get(format_name).name
    if os.fspath(path) == "-":
        return "lod.stream"
    found = registry.of_target(path)
    if found is None:
        if os.path.exists(path) and not os.path.isdir(path):
            refuse_existing(path, overwrite=True)  # a device, which no format makes a file
        from lodcli.formats.catalogue import plugins

        file, name = split_reference(os.fspath(path))
        if name is not None and registry.of_name(file) is not None:
            raise SelectionError(
                f"{os.fspath(path)}: a file to write takes no ::NAME: write {file}"
            )
        how = "name the format by the extension, such as .lod.h5"
        if not by_name:
            how = f"choose a format with {option('to')} (lod convert --formats lists all)"
        raise SelectionError(
            f"{os.fspath(path)}: unknown file extension{_near(path)}; {how}{plugins.advice()}"
        )
    return found


def _near(path: PathLike) -> str:
    """Return known extensions that are close to that of a file, as a question; "" if none is."""
    from difflib import get_close_matches

    ending = os.path.splitext(without_suffix(os.fspath(path).lower()))[1]
    # Without their first dots, which make all of them similar.
    letters = {known.removeprefix("."): known for known in SUFFIXES}
    name = os.path.basename(os.fspath(path)).lower()
    if name in letters:  # the name of a format in place of a file
        return f"; did you mean NAME.{name}?"
    close = get_close_matches(ending.removeprefix("."), letters, 2, cutoff=0.7)
    return f"; did you mean {' or '.join(letters[one] for one in close)}?" if close else ""
