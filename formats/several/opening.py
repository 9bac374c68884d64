"""Opens several files as one; some of them may lack columns that are chosen or renamed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import islice

from lodcli.formats.core.errors import append_text, naming, naming_file
from lodcli.formats.core.format import Format, Source
from lodcli.formats.core.names import shown
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.schema import TensorSpec
from lodcli.formats.several.many_files import Listed, Opened, opened
from lodcli.formats.storage.inputs import Input
from lodcli.formats.structs.names import named
from lodcli.formats.values.partitions import NO_KEYS, keys_of, refuse_keys
from lodcli.formats.values.relabelled import Relabelled, chosen_by_name
from lodcli.kernels.errors import LodError, SelectionError
from lodcli.kernels.options import option, option_name

# Maximum number of files in which an error looks for a column.
_MOST_LOOKED_AT = 20


@contextmanager
def opened_as_one(
    files: Listed,
    name: str | None,
    options: ReadOptions,
    open_file: Callable[..., AbstractContextManager[Opened]],
    *,
    one: bool,
) -> Iterator[tuple[Source, Format, Input]]:
    """Yield files as one source, their format, and their folder as an input.

    Args:
        files: the files.
        name: the only tensor to read.
        options: how to read them.
        open_file: opens one of them: takes its path, `name`, `options`, and the keys in the names
            of its folders.
        one: see `io.open_file`.
    """
    # --field chooses columns in the files.
    reads_keys = not options.skip_partitions and options.field is None
    known = keys_of(files.folder, files.paths) if reads_keys else {}
    new_names: Mapping[str, str] = {}
    if options.rename is not None and (name is None or _may_lack(options)):
        # Of all files: one may lack such a column. The caller finds `name` among the new names.
        new_names = dict(options.rename)
        skips = True if name is not None else options.skip_unsupported
        name, options = None, replace(options, rename=None, skip_unsupported=skips)
    chosen = _may_be_lacking(options, name if one else None)
    every = replace(options, columns=None, skip_unsupported=True)
    whole = set[str]()  # files that lack chosen columns, of which all are opened
    seen: dict[str, TensorSpec] = {}  # the tensors of these files

    def has(path: str, column: str) -> bool:
        """Return whether a file can be opened and has a column."""
        only, keys = replace(options, columns=None, rename=None), known.get(path, NO_KEYS)
        with suppress(LodError, OSError), open_file(path, column, options=only, keys=keys) as file:
            return bool(named(file.source.schema, column))
        return False

    @contextmanager
    def open_one(path: str) -> Iterator[Opened]:
        keys = known.get(path, NO_KEYS)
        with ExitStack() as opening:
            try:
                if path not in whole:
                    file = opening.enter_context(open_file(path, name, options=options, keys=keys))
            except SelectionError as error:
                if chosen is None:
                    names = (name,) if name is not None else options.columns or ()
                    names = (*names, *dict(options.rename or ()))
                    missing = [one for one in names if shown(one) in str(error)]
                    if missing:
                        # The last file first: it is often the one with new columns.
                        others = (x for x in reversed(files.paths) if x != path)
                        found = any(
                            has(x, one) for x in islice(others, _MOST_LOOKED_AT) for one in missing
                        )
                        _say_how_to_lack(error, options, found)
                    raise
                whole.add(path)
            if path in whole:
                file = opening.enter_context(open_file(path, options=every, keys=keys))
                seen.update((spec.name, spec) for spec in file.source.schema)
                with naming_file(path):
                    refuse_keys(keys, file.source.schema, chosen or ())
            yield file

    keys_of_first = known.get(files.paths[0], ())
    with opened(files, open_one, keys_of_first, options.nulls, chosen) as (source, kind, folder):
        if whole or new_names:
            seen.update((spec.name, spec) for spec in source.schema)
            with naming(files.label):
                for column in chosen or ():
                    named(tuple(seen.values()), column)  # raises the error if no file has it
                source = Relabelled(source, chosen_by_name(source.schema, chosen, new_names))
        yield source, kind, folder


def _may_be_lacking(options: ReadOptions, name: str | None) -> Sequence[str] | None:
    """Return the chosen columns that some of several files may lack; None if none may be lacking.

    With options for the columns of each file none is: they would be applied to all columns.

    Args:
        options: how to read the files.
        name: the only column to read.
    """
    if not _may_lack(options):
        return None
    return options.columns if name is None else (name,)


def _may_lack(options: ReadOptions) -> bool:
    """Return whether some of several files may lack a column that is chosen."""
    return options.nulls not in (None, "error") and _of_each_file(options) is None


def _of_each_file(options: ReadOptions) -> str | None:
    """Return the name of an option that changes the columns of each file; None if none does."""
    names = "levels", "text_levels", "dtype"
    given = (name for name in names if getattr(options, name) is not None)
    return next((name.replace("_", "-") for name in given), None)


def _say_how_to_lack(error: SelectionError, options: ReadOptions, others: bool) -> None:
    """Add to the error for a chosen column that a file lacks how to read it as null.

    Args:
        error: of the file.
        options: how to read it.
        others: whether other files have the column.
    """
    needing = _of_each_file(options)
    if options.nulls is None and others:
        without = f", without {option_name(needing)}," if needing else ""
        keep = option("nulls", "keep")
        append_text(error, f"{keep}{without} reads columns that some files lack as nulls")
    elif options.nulls not in (None, "error") and needing is not None:
        said = option_name(needing)
        append_text(
            error,
            f"with {said}, each file must have the column; first write one file without {said}, "
            "then convert that",
        )
