"""Files of one format as one source: those that match a pattern, or that are in a folder."""

from __future__ import annotations

import errno
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from lodcli.formats.choosing.choice import Choice, ValueRange
from lodcli.formats.core.errors import (
    NotThisFormatError,
    append_text,
    naming_file,
)
from lodcli.formats.core.format import BATCH_BYTES, Format, SelectiveSource, Source
from lodcli.formats.core.names import natural_key, shown
from lodcli.formats.core.registry import get, of_name
from lodcli.formats.core.schema import Batch, Schema, TensorSpec
from lodcli.formats.core.table import FOLDERS, PAIRS, TABLE, UNFINISHED
from lodcli.formats.items.concatenated import (
    as_item,
    as_joined,
    below,
    joined_schema,
    require_equal_names,
)
from lodcli.formats.remote.urls import is_url
from lodcli.formats.several.fitting import Fitted, Fitting, Part
from lodcli.formats.several.patterns import files_below, fixed_folder, is_file, is_hidden, matching
from lodcli.formats.several.tables import refuse_table
from lodcli.formats.storage.compression import suffix_codec
from lodcli.formats.storage.inputs import Input
from lodcli.formats.structs.presence import as_described, with_equal_records
from lodcli.formats.values.file_attributes import alike
from lodcli.formats.values.partitions import NOT_READ
from lodcli.kernels.errors import SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.platform.files import PathLike
from lodcli.kernels.tensor.nulls import Mask

# The level whose items are files of a format whose tensors have no levels, such as .npy.
FILE_LEVEL = "file"
# Maximum number of notes of all files together.
MOST_NOTES = 20
# Maximum number of files in which a hint looks for those of a format.
_MOST_LOOKED_AT = 10_000
# Files of a folder that hold no data: hidden ones, and those of Spark and Hive, such as _SUCCESS.
_NO_DATA = re.compile(r"\.|_[^.]*$")
# Checkpoints, and data in several files: the end of a file's name, and what the folder is.
_REFUSED = {
    ".distcp": "a checkpoint of torch.distributed; python -m "
    "torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE.pt converts it",
    "_CHECKPOINT_METADATA": "a checkpoint of Orbax; restore it there, and save its arrays with "
    "safetensors",
    "saved_model.pb": "a SavedModel of TensorFlow; save the arrays of its variables with "
    "safetensors",
    ".data-00000-of-00001": "a checkpoint of TensorFlow; tf.train.load_checkpoint reads its "
    "arrays, safetensors saves them",
    "snapshot.metadata": "a dataset of tf.data; write its elements with tf.io.TFRecordWriter",
    "chunks.b2frame": "an array of Blosc2; blosc2.open(FOLDER)[:] returns it, numpy.save saves it",
    "manifest.ocdbt": "a database of TensorStore (OCDBT); TensorStore reads its arrays and writes "
    "Zarr",
    "data.mdb": "an LMDB database; write its values as Parquet, webdataset or another format of "
    "lod",
}


class Opened(Protocol):
    """One of the files, open."""

    @property
    def source(self) -> Source: ...
    @property
    def kind(self) -> Format: ...
    @property
    def input(self) -> Input: ...


Open = Callable[[str], AbstractContextManager[Opened]]


@dataclass(frozen=True)
class Listed:
    """Files that are read as one.

    Attributes:
        label: the path or pattern that was given.
        folder: contains all files, directly or in folders.
        paths: of the files, in natural order of their names; at least one.
        beside: the folders beside them, which are not read.
    """

    label: str
    folder: str
    paths: tuple[str, ...]
    beside: tuple[str, ...] = ()


def listed(path: PathLike, format_name: str | None) -> Listed | None:
    """Return the files that a path denotes, unless it is a file or a folder of a format.

    A pattern has `*`, `?` or `[..]`, or `**` for any folders, and is not the name of an existing
    file. For a folder that no format reads, these are the files directly in it, except those whose
    names begin with a dot, or with an underscore if they have no extension, such as _SUCCESS of
    Spark. Of a folder with nothing but folders such as `year=2024`, they are all files below.

    Raises:
        FileNotFoundError: a pattern that no file matches.
        PermissionError: a folder cannot be read.
        UnsupportedError: a folder is a checkpoint, a database, of N5, or a table with a log.
    """
    text = os.fspath(path)
    if text == "-" or is_url(text):
        return None
    if not os.path.lexists(text):
        folder = fixed_folder(text)
        if folder is None:
            return None
        # The path "-" alone is standard input.
        found = ["./-" if one == "-" else one for one in matching(text)]
        if not found:
            raise FileNotFoundError(errno.ENOENT, "no file matches", text)
        return Listed(text, folder or ".", _in_order(found))
    if not os.path.isdir(text) or _is_claimed(text, format_name):
        return None
    refuse_table(text)
    with os.scandir(text) as entries:
        every = [one.path for one in entries]
    for ending, what in _REFUSED.items():
        if any(path.endswith(ending) for path in every):
            raise UnsupportedError(f"{text}: is {what}")
    found = [path for path in every if not _NO_DATA.match(os.path.basename(path))]
    # Not entry.is_file(), which raises an error for a link to itself.
    paths = [one for one in found if is_file(one) and not _is_second(one)]
    beside = _in_order(filter(os.path.isdir, found))
    if beside and [os.path.basename(path) for path in paths] == ["attributes.json"]:
        raise UnsupportedError(f"{text}: is an N5 container; TensorStore reads it and writes Zarr")
    if not paths and any("=" in os.path.basename(one) for one in beside):
        return _below(text)
    return Listed(text, text, _in_order(paths), beside) if paths else None


def _below(folder: str) -> Listed | None:
    """Return the files of a folder, and of all folders in it, but the hidden ones."""
    found = [one for one in files_below(folder) if not _NO_DATA.match(os.path.basename(one))]
    paths = [one for one in found if not _is_second(one)]
    return Listed(folder, folder, _in_order(paths)) if paths else None


def _is_second(path: str) -> bool:
    """Return whether a file is read together with another one beside it."""
    stem, ending = os.path.splitext(path)
    first, _ = PAIRS.get(ending.lower(), ("", ""))
    return bool(first) and os.path.isfile(stem + first)


def _is_claimed(folder: str, format_name: str | None) -> bool:
    """Return whether a folder is read by a format of folders."""
    if format_name is not None and get(format_name).layout != "file":
        return True
    if os.path.lexists(os.path.join(folder, UNFINISHED)) and any(
        name.endswith(".lod.h5") for name in os.listdir(folder)
    ):
        return True
    ending = os.path.splitext(folder.rstrip("/"))[1].lower()
    return any(os.path.lexists(os.path.join(folder, mark)) for mark in FOLDERS) or any(
        ending in entry.endings for entry in TABLE.values() if entry.folder_marks and ending
    )


def _in_order(paths: Iterable[str]) -> tuple[str, ...]:
    """Return paths in natural order: numbers in names are compared by value."""
    return tuple(sorted(paths, key=natural_key))


@contextmanager
def opened(
    files: Listed,
    open_one: Open,
    keys: Iterable[str] = (),
    nulls: str | None = None,
    chosen: Sequence[str] | None = None,
) -> Iterator[tuple[Source, Format, Input]]:
    """Yield files as one source, their format, and their folder as an input.

    Args:
        files: the files.
        open_one: opens one of them.
        keys: columns that are in the names of their folders.
        nulls: how to read nulls, and columns that some files lack; see ReadOptions.
        chosen: names of tensors and records, others of a file are not read.
    """
    with Input(files.folder) as folder:
        folder.label = files.label
        source = ManyFiles(files, open_one, keys, nulls, chosen)
        yield source, source.kind, folder


@contextmanager
def _one_format(files: Listed) -> Iterator[None]:
    """Add to an error for one of the files, such as README.md, how to name the others."""
    try:
        yield
    except NotThisFormatError as error:
        named = _others(files) if error.unknown else None
        if named is not None:
            append_text(error, f"name files of one format, as with '{named}'")
        raise


def _others(files: Listed) -> str | None:
    """Return a pattern for files of one known format; None if there are none."""
    groups = files.paths, [*itertools.islice(_files_in(files.beside), _MOST_LOOKED_AT)]
    # Last JSON and text, which may describe the others, as dataset_info.json does.
    for last, paths in itertools.product((False, True), groups):
        kinds = {path: of_name(os.path.basename(path)) for path in paths}
        known = [one for one, kind in kinds.items() if kind and (kind in ("json", "text")) == last]
        if known:
            ((ending, _),) = Counter(map(_ending, known)).most_common(1)
            folders = {os.path.dirname(one) for one in known if one.endswith(ending)}
            direct = {*map(os.path.normpath, folders)} == {os.path.normpath(files.folder)}
            return os.path.join(files.folder, *([] if direct else ["**"]), f"*{ending}")
    return None


def _files_in(folders: Iterable[str]) -> Iterator[str]:
    """Yield the files below folders, but the hidden ones and those that cannot be listed."""
    for folder, inner, names in itertools.chain.from_iterable(map(os.walk, folders)):
        inner[:] = [one for one in inner if not is_hidden(one)]
        yield from (os.path.join(folder, one) for one in names)


def _ending(path: str) -> str:
    """Return the extension of a file, with that of its compression."""
    stem, ending = os.path.splitext(path)
    return os.path.splitext(stem)[1] + ending if suffix_codec(path) else ending


class ManyFiles(SelectiveSource):
    """Files of one format, one after another along the outermost level. One is open at a time.

    In a format whose tensors have no levels, each file is an item.

    Args:
        files: the files.
        open_one: opens one of them.
        keys: columns that are in the names of their folders.
        nulls: how to read nulls, and columns that some files lack; see ReadOptions.
        chosen: names of tensors and records, others of a file are not read.

    Attributes:
        kind: their format.
        version: of each, see Input.

    Raises:
        ShapeMismatchError: one does not fit the first.
        SelectionError: one has another format.
    """

    def __init__(
        self,
        files: Listed,
        open_one: Open,
        keys: Iterable[str] = (),
        nulls: str | None = None,
        chosen: Sequence[str] | None = None,
    ) -> None:
        self._paths, self._open_one, self._label = files.paths, open_one, files.label
        found: list[Part] = []
        # Equal ones are kept once: there may be many files of many columns.
        specs: dict[TensorSpec, TensorSpec] = {}
        parts: dict[Part, Part] = {}
        versions: list[tuple[tuple[int, ...], ...]] = []
        attributes: list[Mapping[str, Any]] = []
        has_keys = False
        self.untyped = True
        for path in files.paths:
            with _one_format(files), open_one(path) as file:
                if not found:
                    self.kind, has_keys = file.kind, file.source.has_keys
                if self.untyped:
                    self.left_out, self.records = file.source.left_out, file.source.records
                    self.untyped = file.source.untyped
                if file.kind.name != self.kind.name:
                    raise SelectionError(
                        f"{path}: is {file.kind.name}, and {files.paths[0]} is {self.kind.name}; "
                        "name files of one format, as with '*.EXTENSION'"
                    )
                file.source.schema = tuple(specs.setdefault(one, one) for one in file.source.schema)
                part = Part.of(file.source, file.kind, chosen)
                found.append(parts.setdefault(part, part))
                versions.append(file.input.version)
                attributes = [alike([*attributes, file.source.attributes])]
        self.attributes, self.version = attributes[0], tuple(versions)
        fitting = Fitting(found, nulls)
        fits: dict[int, Fitted] = {}
        for path, part in zip(files.paths, found, strict=True):
            if id(part) not in fits:
                with naming_file(path):
                    fits[id(part)] = fitting.fitted(part)
        self._fitted = [fits[id(part)] for part in found]
        if any(one.made for one in self._fitted):
            self.records = all(one.together for one in parts)
        schemas = [one.schema for one in self._fitted]
        first, labels = fitting.first, files.paths
        require_equal_names(schemas, labels, first, fitting.remedy)
        self._described = with_equal_records(schemas)
        self._joined = joined_schema(self._described, labels, first, fitting.origins)
        self._by_file = self.kind.max_levels == 0
        self.schema = self._joined
        if self._by_file:
            self.schema = below(self._joined, FILE_LEVEL, len(files.paths))
        notes = []
        if len(files.paths) > 1:
            notes.append(
                f"{len(files.paths)} files without a manifest are opened twice, one after another; "
                "lod shard makes a dataset of them, which is faster to read in parts"
            )
        if files.beside:
            notes.append(
                f"folders in it are not read, such as {shown(os.path.basename(files.beside[0]))}; "
                f"'{os.path.join(files.label, '*', '*')}' reads their files"
            )
        if (names := list(keys)) and not has_keys:
            notes.append(f"the folders name values of {', '.join(map(shown, names))}, {NOT_READ}")
        self.notes = notes

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        for path, schema, own, source in self._sources(names):
            content = as_joined(source.batches_of(own, limit_bytes), schema, self._joined)
            with naming_file(path):
                yield from (
                    [as_item(content, self._joined, FILE_LEVEL)] if self._by_file else content
                )

    def chosen_batches(
        self, names: Iterable[str], choice: Choice, limit_bytes: int = BATCH_BYTES
    ) -> Iterator[tuple[int, Batch]]:
        if self._by_file:
            yield from super().chosen_batches(names, choice, limit_bytes)
            return
        start = stop = 0
        for path, schema, own, source in self._sources(names):
            of_file = _OfFile(choice, schema, self._joined, start, self._label)
            with naming_file(path):
                for first, batch in source.chosen_batches(own, of_file, limit_bytes):
                    stop = start + first + len(next(iter(batch.values())))
                    for one in as_joined([batch], schema, self._joined):
                        yield start + first, one
            # Only of a file that is read whole, it may be unknown.
            start = stop if schema[0].items is None else start + schema[0].items

    def _sources(self, names: Iterable[str]) -> Iterator[tuple[str, Schema, list[str], Source]]:
        """Open each file, and yield its path, its schema, the names of its tensors, and itself.

        Errors of reading are raised in the caller, which adds the path.
        """
        places = {spec.name: place for place, spec in enumerate(self.schema)}
        wanted = [places[name] for name in names]
        each = zip(self._paths, self._fitted, self._described, strict=True)
        for path, fit, schema in each:
            with self._open_one(path) as file, naming_file(path):
                source = as_described(fit.applied(file.source), schema)
                yield path, schema, [schema[place].name for place in wanted], source
                said = [f"{os.path.basename(path)}: {one}" for one in file.source.notes]
                self.notes = [*self.notes, *said][:MOST_NOTES]


class _OfFile:
    """A choice of items of one of the files; see Choice.

    Args:
        choice: of the items of all files.
        own: the schema of the file.
        joined: that of all files.
        first: the number of the first item of the file.
        label: of all files, for errors of the choice, whose numbers of items are of all files.
    """

    def __init__(self, choice: Choice, own: Schema, joined: Schema, first: int, label: str) -> None:
        self._choice, self._own, self._joined, self._first = choice, own, joined, first
        self._label = label
        self._called = {one.name: spec.name for spec, one in zip(own, joined, strict=True)}

    @property
    def deciding(self) -> list[str]:
        return [self._called[name] for name in self._choice.deciding]

    @property
    def span(self) -> range:
        span = self._choice.span
        return range(max(0, span.start - self._first), max(0, span.stop - self._first))

    def of_ranges(self, ranges: Mapping[str, Sequence[ValueRange]], offsets: Offsets) -> Mask:
        names = {name: one for one, name in self._called.items()}
        known = {names[name]: found for name, found in ranges.items()}
        return self._choice.of_ranges(known, offsets + self._first)

    def of_batch(self, batch: Batch, first: int) -> bool:
        (joined,) = as_joined([batch], self._own, self._joined)
        with naming_file(self._label):
            return self._choice.of_batch(joined, first + self._first)
