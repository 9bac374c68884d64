"""Opens, reads and writes any format: used by the commands and by `import lodcli`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from lodcli.formats.core import registry
from lodcli.formats.core.errors import (
    Incoming,
    NotThisFormatError,
    append_text,
    naming,
    naming_file,
)
from lodcli.formats.core.format import Format, Source, Stored
from lodcli.formats.core.limits import Limits, open_within
from lodcli.formats.core.losses import Loss
from lodcli.formats.core.marks import check_content
from lodcli.formats.core.names import listing, split_reference
from lodcli.formats.core.options import (
    GENERAL,
    NO_OPTIONS,
    ReadKeywords,
    ReadOptions,
    WriteKeywords,
    WriteOptions,
    read_options,
    refuse_unknown_options,
    wide_dtype,
    write_options,
)
from lodcli.formats.core.schema import (
    DEFAULT_NAME,
    Batch,
    Item,
    ReadItem,
    Schema,
    StoredArray,
    as_item,
    find,
    rekeyed,
    schema_of,
)
from lodcli.formats.core.writing import (
    Writing,
    codec_of_name,
    new_output,
    output_format,
    refuse_pipe,
)
from lodcli.formats.storage.inputs import Input, require_path
from lodcli.formats.storage.output_set import OutputSet
from lodcli.formats.values.inner_axes import InnerAxes, takes_axes
from lodcli.formats.values.partitions import NO_KEYS, Keys, refuse_keys
from lodcli.formats.values.relabelled import (
    Relabelled,
    chosen_by_name,
    with_level_names,
    with_marks,
)
from lodcli.kernels.errors import LodError, OptionError, SelectionError, UnsupportedError
from lodcli.kernels.options import option
from lodcli.kernels.platform.files import PathLike
from lodcli.kernels.runtime.devices import gpu_number, require_gpu
from lodcli.kernels.tensor.lod_tensor import LoDTensor

if TYPE_CHECKING:
    from lodcli.formats.several.many_files import Listed


@dataclass(frozen=True)
class OpenFile:
    """An open file, the bytes it is read from, and its format."""

    source: Source
    kind: Format
    input: Input

    @property
    def checksums(self) -> str:
        """Which checksums were checked, after reading everything; "" for none."""
        own = self.source.checksums
        return ", ".join(
            filter(None, (self.kind.checksums if own is None else own, self.input.checksums))
        )


def listed(path: PathLike, format_name: str | None) -> Listed | None:
    """Return the files that a path denotes: see `many_files.listed`; None for a file."""
    if os.path.isfile(path):  # nearly always
        return None
    from lodcli.formats.several import many_files

    return many_files.listed(path, format_name)


@contextmanager
def open_file(
    path: PathLike,
    name: str | None = None,
    *,
    format_name: str | None = None,
    options: ReadOptions | None = None,
    limits: Limits | None = None,
    one: bool = False,
    optional: frozenset[str] = frozenset(),
    keys: Keys = NO_KEYS,
) -> Iterator[OpenFile]:
    """Open a file of any format; all readers of files use this. See `lodcli.open`.

    Args:
        path: what to open; or a pattern, or a folder of files of one format: see `listed`.
        name: the only tensor to read.
        format_name: its format.
        options: how to read it.
        limits: limits on size and isolation.
        one: whether only one tensor is read, even without `name`; see `find`.
        optional: options that are ignored, not an error, if the format does not have them.
        keys: columns that are in the names of its folders, if it is one of several files.
    """
    require_path(path)
    if name is not None and not isinstance(name, str):
        raise OptionError(
            f"name: expected a str, the name of one tensor, found {type(name).__name__}; "
            f"{option('columns')} takes the names of several"
        )
    options = options or NO_OPTIONS
    if (files := listed(path, format_name)) is not None:
        from lodcli.formats.several.opening import opened_as_one

        again = partial(
            open_file, format_name=format_name, limits=limits, one=one, optional=optional
        )
        with opened_as_one(files, name, options, again, one=one) as found:
            yield OpenFile(*found)
        return
    with Input(path) as source, naming(source.label), ExitStack() as opening:
        opening.enter_context(naming_file(source.label))  # and no file that is open already
        kind = format_of(source, format_name, options)
        kind.require("reading")
        # Readers of text get the dtype; where values may be rounded, a dtype that holds them.
        casts = "dtype" not in kind.options or bool(options.dtype_unsafe and not kind.binary)
        told = _of_reader(kind, options, name, optional, keys, casts=casts, one=one)
        opened = _opened(source, kind, options, told, name, limits or Limits(), keys)
        try:
            for wanted in (name,) if name is not None else options.columns or ():
                opened.refuse_left_out(wanted, fields=not options.skip_unsupported)
            if name is None and options.columns is None and not options.skip_unsupported:
                opened.refuse_left_out()
            opened = _converted(opened, kind, options, name, casts=casts, one=one)
            opening.close()
            yield OpenFile(opened, kind, source)
        finally:
            opened.close()


def _opened(
    source: Input,
    kind: Format,
    options: ReadOptions,
    told: ReadOptions,
    name: str | None,
    limits: Limits,
    keys: Keys,
) -> Source:
    """Return an open file; `told` are the options that its reader gets. See `open_file`."""
    try:
        opened = open_within(limits, kind, source, told, keys)
        if keys and not options.rename:
            refuse_keys(keys, opened.schema, (name,) if name else options.columns or ())
    except NotThisFormatError as error:
        if kind.name == "lod.h5":
            _say_how_to_import(error, source, limits)
        raise
    except SelectionError as error:
        columns = options.columns or ()  # other options do not choose among the keys
        if keys and any(str(error).startswith(f"no column {one!r}") for one in columns):
            append_text(error, f"in names of folders: {listing(keys)}")
        raise
    return opened


def _converted(
    opened: Source, kind: Format, options: ReadOptions, name: str | None, *, casts: bool, one: bool
) -> Source:
    """Return an open file with the names, nulls, levels and dtypes that its reader did not change.

    Args:
        opened: the file.
        kind: its format.
        options: how to read it.
        name: the only tensor to read.
        casts: whether the reader did not get the dtype.
        one: see `open_file`.
    """
    opened = _relabelled(opened, options, name)
    if options.nulls not in (None, "keep") and any(spec.nullable for spec in opened.schema):
        from lodcli.formats.values.without_nulls import WithoutNulls

        records = opened.records or bool(kind.record)
        opened = WithoutNulls(opened, str(options.nulls), records=records)
    if options.levels is not None and "levels" not in kind.options:
        only = find(opened.schema, name).name if one or name is not None else None
        opened = _levelled(opened, options.levels, only)
    if options.dtype is None:
        return opened
    from lodcli.formats.values.casting import Cast, numbers_as

    asked = opened.schema if name is None else (find(opened.schema, name),)
    dtypes = numbers_as(asked, options.dtype)
    if not casts:  # a reader of text takes it for all that it casts, except booleans
        booleans = {spec.name: spec.dtype.kind == "b" for spec in asked}
        dtypes = {n: dtype for n, dtype in dtypes.items() if (dtype.kind == "b") != booleans[n]}
    if not dtypes:
        return opened
    flag = option("dtype-unsafe", True)
    return Cast(opened, dtypes, rounded=bool(options.dtype_unsafe), flag=flag)


def _say_how_to_import(error: NotThisFormatError, source: Input, limits: Limits) -> None:
    """Add to the error for an HDF5 file that is no container which datasets it has."""
    if source.remote:  # all of it would be fetched
        append_text(error, f"name its datasets with {option('data')} and {option('offsets')}")
        return
    try:
        open_within(limits, registry.get("hdf5"), source, ReadOptions()).close()
    except NotThisFormatError:
        return
    except LodError as asking:
        append_text(error, str(asking))


def _of_reader(
    kind: Format,
    options: ReadOptions,
    name: str | None,
    optional: frozenset[str],
    keys: Keys,
    *,
    casts: bool,
    one: bool,
) -> ReadOptions:
    """Return the options for the reader of a format, without those applied to its tensors.

    Args:
        kind: the format.
        options: all options.
        name: see `open_file`.
        optional: see `open_file`.
        keys: columns that are not in the file.
        casts: whether the dtype is applied to the tensors.
        one: see `open_file`; otherwise tensors that share the items of the named one are read too.
    """
    if name is None and (options is NO_OPTIONS or options == NO_OPTIONS):  # nearly always
        return options
    dropped: dict[str, Any] = dict.fromkeys({*optional, *GENERAL} - kind.options)
    if casts and "dtype" in kind.options:
        dropped["dtype"] = wide_dtype(options.dtype)
        if dropped["dtype"] is None:
            dropped["dtype_unsafe"] = None
    changed = any(getattr(options, name) != value for name, value in dropped.items())
    told = dataclasses.replace(options, **dropped) if changed else options
    refuse_unknown_options(kind.options, told, kind.name)
    wanted = (name,) if one and name is not None and not options.rename else options.columns
    if keys and wanted is not None:
        wanted = tuple(one for one in wanted if one not in keys) or None
    if wanted is not None and "field" in kind.options and options.field is None:
        told = dataclasses.replace(told, field=tuple(dict.fromkeys(wanted)))
    if name is not None or options.columns is not None:
        # Columns that were not selected may be of a kind that no tensor holds.
        told = dataclasses.replace(told, skip_unsupported=True)
    return told


def _relabelled(opened: Source, options: ReadOptions, name: str | None) -> Source:
    """Return a source whose tensors are selected, renamed and marked by the options."""
    if options.columns is not None or options.rename is not None:
        new_names = dict(options.rename or ())
        opened = Relabelled(opened, chosen_by_name(opened.schema, options.columns, new_names))
    return opened if options.text_levels is None else with_marks(opened, options.text_levels, name)


def _levelled(opened: Source, names: Sequence[str], only: str | None) -> Source:
    """Return a source whose levels have these names; inner ones without a name become axes.

    Args:
        opened: the open file.
        names: of the levels, outermost first.
        only: the tensor with these levels; None: all tensors.
    """
    kept = {
        spec.name: len(names)
        for spec in opened.schema
        if only in (None, spec.name) and 0 < len(names) < len(spec.levels) and takes_axes(spec)
    }
    if kept:
        opened = InnerAxes(opened, kept)
    named = with_level_names(opened.schema, names, only)
    return Relabelled(opened, {spec.name: spec for spec in named})


def format_of(source: Input, format_name: str | None, options: ReadOptions) -> Format:
    """Return the input format: the one given, otherwise the detected one."""
    kind = registry.get(format_name or registry.of_input(source, options))
    if kind.any_bytes:
        source.unpack_by_name()
    return kind


def read(
    path: PathLike,
    name: str | None = None,
    *,
    format_name: str | None = None,
    device: str = "cpu",
    options: ReadOptions | None = None,
    limits: Limits | None = None,
    **keywords: Unpack[ReadKeywords],
) -> ReadItem:
    """Return one tensor of a file, in memory and checked.

    The result is a copy: later changes to the file do not affect it.

    Args:
        path: the file, or "-"; or FILE::NAME, as in the shell.
        name: the name of the tensor; not needed if there is only one.
        format_name: see `lodcli.open`.
        device: the device for its rows: "cpu", "cuda" (the current GPU) or "cuda:N". The rows
            of a container are copied there block by block, while the next block is read.
        options: see `lodcli.open`.
        limits: see `lodcli.open`.
        keywords: how to read it; see `lodcli.open`. With `mmap=True`, the rows of a lod.h5 that is
            not compressed are mapped and checked instead of copied: they take no additional
            memory, cannot be written to, and the file must not be changed while they are in use.
            If the file is truncated, the process dies of SIGBUS when it accesses the missing part;
            if it is overwritten, rows change after they were checked, and the changed rows are
            used in computations and written. Replacing the file, as lod does, is harmless. The
            rows of a compressed file are copied.

    Returns:
        A LoDTensor; a StoredArray where the file holds a TensorArray.

    Raises:
        OptionError: the name of the device is invalid; and as `lodcli.open`.
        UnsupportedError: cupy is not installed, there is no such GPU, a TensorArray is read to a
            GPU, or the format does not support `mmap`.

    >>> read("samples/articles.txt", levels=["article", "sentence", "word"]).lod.names
    ('article', 'sentence', 'word')
    """
    number = gpu_number(device)
    if number is not None:
        require_gpu(device)
    chosen = read_options(options, keywords)
    if name is None and isinstance(path, str):
        path, name = split_reference(path)
    with open_file(
        path, name, format_name=format_name, options=chosen, limits=limits, one=True
    ) as file:
        source = file.source
        wanted = find(source.schema, name).name
        if number is None:
            return source.read([wanted])[wanted]
        from lodcli.formats.gpu.staging import read_to_gpu

        return read_to_gpu(source, wanted, number)


def read_all(
    path: PathLike,
    *,
    format_name: str | None = None,
    options: ReadOptions | None = None,
    limits: Limits | None = None,
    **keywords: Unpack[ReadKeywords],
) -> dict[str, ReadItem]:
    """Return all tensors of a file by name, in memory and checked.

    Args: as for `lodcli.open`; for `mmap` see `lodcli.read`.

    To make a table of pyarrow, select tensors with equal numbers of items with `columns`.

    >>> list(read_all("samples/japanese_vowels.ts", levels="utterance"))
    ['data', 'label', 'label_names']
    """
    chosen = read_options(options, keywords)
    with open_file(path, format_name=format_name, options=chosen, limits=limits) as file:
        return file.source.read()


def write(
    path: PathLike,
    content: Item | Mapping[str, Item],
    *,
    format_name: str | None = None,
    overwrite: bool = False,
    strict: bool = False,
    options: WriteOptions | None = None,
    **keywords: Unpack[WriteKeywords],
) -> None:
    """Write tensors to a file atomically: the file appears complete or not at all.

    Content that the format cannot store, such as the names of levels, is left out; with `strict`
    that is an error. Content whose rows or index would change is always an error.

    Args:
        path: the file; "-" is standard output.
        content: one tensor, or several by name. Those that share index levels by
            reference share them in the file.
        format_name: the format; None: by the extension of the path.
        overwrite: whether an existing file may be replaced.
        strict: whether it is an error if reading the file without options would lose something.
        options: options for writing, as one object; keywords override it.
        keywords: options for writing. An option that the format does not have is an error.

            - compression: the codec of a lod.h5, dataset or Parquet file: "deflate", "lz4" or
              "zstd".
            - vocabulary: a text file of one token per line; token numbers become words of a text.
            - cu_seqlens: names of the arrays of offsets in npz and safetensors, outermost first.
            - index_dtype: the dtype of these arrays, "int32" or "int64".
            - form: one of torch's forms of sequences: "nested", "packed", "padded", "list", "flat".
            - end_token, start_token: the tokens that end and begin each item in a run of tokens.
            - separator: the character between the fields of a csv file, or its name: "semicolon".
            - decimal_comma: whether numbers of a csv file have a decimal comma.
            - wide: whether rows (H,) are H columns of a csv file.
            - shards, shard_bytes: the number of shards of a dataset, or their maximum bytes.
            - attributes: those of the file as a whole, a JSON object such as {"license": "MIT"};
              `lodcli.open(path).attributes` returns them.

    Raises:
        UnsupportedError: the format cannot hold a tensor, or does not have an option; or, if
            `strict`, not all of the content is kept.
        OptionError, TypeError: an option has an invalid value, or does not exist.
        InvalidDataError: `attributes` are not a JSON object, or take more than 256 KiB.
        TargetExistsError: the file exists and may not be replaced.

    >>> words = LoDTensor([10, 11, 20], [[2, 1]])
    >>> write("words.npz", words, cu_seqlens="offsets", index_dtype="int32")
    >>> read("words.npz", offsets="offsets", data="data", levels="word").lod
    LoD.from_lengths([[2, 1]], names=['word'])
    """
    require_path(path)
    items = content if isinstance(content, Mapping) else {DEFAULT_NAME: content}
    for name, item in items.items():
        if not isinstance(name, str):
            raise OptionError(f"tensors have names of type str, found {name!r}")
        if not isinstance(item, LoDTensor | StoredArray):
            raise OptionError(
                f"{name}: expected a LoDTensor or a StoredArray, found {type(item).__name__}"
                f"{as_item(item)}"
            )
    check_content(items)
    schema = schema_of(items)
    write_batches(
        path,
        schema,
        [items],
        format_name=format_name,
        overwrite=overwrite,
        strict=strict,
        options=write_options(options, keywords),
    )


def write_batches(
    path: PathLike,
    schema: Schema,
    batches: Iterable[Batch],
    *,
    format_name: str | None = None,
    overwrite: bool = False,
    strict: bool = False,
    options: WriteOptions | None = None,
    when_lost: Callable[[Loss], None] = lambda loss: None,
    stored: Stored | None = None,
) -> None:
    """Write batches as they arrive. See `write`.

    Args:
        stored: the file that holds exactly these batches, if there is one: it may be copied.
        when_lost: callback for each kind of loss, after everything is written.
    """
    kind = registry.get(output_format(path, format_name))
    writing = Writing(kind, options or WriteOptions(), strict)
    schema = rekeyed(schema)  # once for all checks
    with writing.naming(path):
        writing.check(schema)
        refuse_pipe(path, kind)
        codec = codec_of_name(path, kind)
        with new_output(path, kind, overwrite) as output:
            if stored is None or not writing.copy(output, stored):
                writing.write(output, codec, schema, batches)
        for one in writing.lost:
            when_lost(one)


def write_set(
    paths: Sequence[str],
    parts: Iterable[tuple[Schema, Iterable[Batch]]],
    *,
    format_name: str | None = None,
    overwrite: bool = False,
    strict: bool = False,
    options: WriteOptions | None = None,
    when_lost: Callable[[Loss], None] = lambda loss: None,
) -> None:
    """Write files that belong together: all of them appear, or none. See `write_batches`.

    Args:
        paths: in one folder, with one extension.
        parts: schema and batches of each file, iterated while they are written.

    Raises:
        UnsupportedError: the format is more than one file, or as `write`.
    """
    kind = registry.get(output_format(paths[0], format_name))
    writing = Writing(kind, options or WriteOptions(), strict)
    with writing.naming(paths[0]):
        if kind.layout != "file":
            raise UnsupportedError(
                f"{kind.name} is a folder or several files, which cannot be written together with "
                "others; write lod.h5 files, and convert each with lod convert"
            )
        codec = codec_of_name(paths[0], kind)
        with OutputSet(paths, overwrite=overwrite) as outputs:
            for output, (schema, batches) in zip(outputs.files, parts, strict=True):
                with writing.naming(output.label):
                    writing.check(schema)
                    with output:
                        writing.write(output, codec, schema, batches)
        for one in writing.lost:
            when_lost(one)


@dataclass(frozen=True)
class Plan:
    """Result of `planned`: errors and losses of writing tensors as a format.

    Attributes:
        format_name: the format.
        refused: why it cannot hold them; empty if it can.
        lost: content that reading would not restore.
    """

    format_name: str
    refused: tuple[str, ...]
    lost: tuple[Loss, ...]


def planned(
    path: PathLike,
    schema: Schema,
    batches: Iterable[Batch],
    *,
    format_name: str | None = None,
    options: WriteOptions | None = None,
) -> Plan:
    """Return the errors and losses that `write_batches` would have; nothing is written.

    Batches are read only if there may be nulls that the format does not hold. Errors for other
    values, such as NaN in JSON, are not found.
    """
    kind = registry.get(output_format(path, format_name))
    writing = Writing(kind, options or WriteOptions(), strict=False)
    refused = writing.refusals(schema)
    if not refused:
        incoming = Incoming(batches)
        try:
            for _ in writing.with_held_nulls(*writing.in_words(schema, incoming)) or ():
                pass
        except LodError as error:
            if error is incoming.error:
                raise
            refused.append(str(error))
    return Plan(kind.name, tuple(refused), () if refused else writing.lost)


def one_tensor(item: Item, what: str) -> LoDTensor:
    """Return the item if it is a tensor; a TensorArray is a SelectionError."""
    if isinstance(item, LoDTensor):
        return item
    raise SelectionError(f"{what} takes a tensor, this is a TensorArray; `lod pack` it first")
