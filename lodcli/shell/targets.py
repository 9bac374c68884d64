"""Output target of a command: the file, its format, and whether it may be replaced."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from lodcli.formats.core.errors import naming_os
from lodcli.formats.core.names import listing
from lodcli.formats.core.options import WriteOptions
from lodcli.shell.output import (
    as_json,
    is_json,
    is_terminal_output,
    is_verbose,
    note,
    plural,
    size_text,
)

# Modules that import NumPy are imported where they are used: --help does not need them.
if TYPE_CHECKING:
    from lodcli.formats.core.format import Format
    from lodcli.formats.core.losses import Loss
    from lodcli.formats.core.schema import Batch, Schema
    from lodcli.reports.written import WrittenFile
    from lodcli.shell.opened import Opened
    from lodcli.shell.progress import ReadShare

_REPORT = "lodcli.written"
# In the context's meta: a lod stream will be written to standard output, and is not begun yet.
STREAM_TO_COME = "lodcli.stream"
# For --scheduler: a cluster on this machine, for one command.
LOCAL_SCHEDULER = "local"
_ADDRESS = r"(?:(?:tcp|tls|ws|wss|ucx)://)?[^\s/@]+:[0-9]{1,5}"


@dataclass(frozen=True)
class Target:
    """A file to write, or "-" for standard output. See `options.target`.

    Attributes:
        jobs: the number of processes that write it shard by shard; None: this process writes it.
        scheduler: address of a Dask scheduler whose workers write it shard by shard, or "local".
        by_name: whether the command has no --to, so that only the extension chooses the format.
    """

    path: str = "-"
    format_name: str | None = None
    overwrite: bool = False
    strict: bool = False
    options: WriteOptions = field(default_factory=WriteOptions)
    jobs: int | None = None
    scheduler: str | None = None
    by_name: bool = False

    @property
    def label(self) -> str:
        """Its name in messages."""
        return "standard output" if self.path == "-" else self.path

    @property
    def shard_option(self) -> str | None:
        """The option to compute shard by shard, if one is given."""
        if self.scheduler is not None:
            return "--scheduler"
        return None if self.jobs is None else "--jobs"

    @property
    def kind(self) -> Format:
        """The format that will be written."""
        from lodcli.formats.core import registry
        from lodcli.formats.core.writing import output_format

        found = self.format_name
        if found is None and self.shard_option and self.path != "-":
            found = registry.of_target(self.path) or "lod.dataset"
        return registry.get(output_format(self.path, found, by_name=self.by_name))

    def with_options(self, **chosen: Any) -> Target:
        """Return the target with other values for fields of WriteOptions."""
        return replace(self, options=replace(self.options, **chosen))

    @property
    def full_options(self) -> WriteOptions:
        """The options, by default with the attributes that are equal in all opened files."""
        from lodcli.kernels.tensor.marks import attributes_text
        from lodcli.shell.opened import attributes_of_opened

        if self.options.attributes is not None:
            return self.options
        return replace(self.options, attributes=attributes_text(attributes_of_opened()))

    def check(self) -> None:
        """Raise, before anything is read, errors that writing would raise at the end.

        Raises:
            click.UsageError: binary data for a terminal.
            UnsupportedError: a folder or several files for a pipe.
            SelectionError: the format is unknown.
            OSError: something exists that may not be replaced.
        """
        from lodcli.formats.core.writing import refuse_target

        kind = self.kind
        self._check_scheduler()
        if self.shard_option is not None:
            if self.path == "-":
                raise click.UsageError(f"{self.shard_option} writes files; name one with -o")
            if kind.name == "lod.dataset":
                return  # an unfinished dataset in the folder may be continued
        refuse_target(self.path, kind, overwrite=self.overwrite)
        if kind.binary and is_terminal_output(self.path):
            raise click.UsageError(
                f"{kind.name} is binary and cannot be printed to a terminal; write it to a file "
                "with -o FILE, or choose a text format with --to",
                click.get_current_context(),
            )
        if self.path == "-" and kind.name == "lod.stream":
            click.get_current_context().meta[STREAM_TO_COME] = True

    def _check_scheduler(self) -> None:
        if self.scheduler in (None, LOCAL_SCHEDULER):
            return
        if not re.fullmatch(_ADDRESS, self.scheduler):
            raise click.UsageError(
                f"--scheduler: expected {LOCAL_SCHEDULER}, tcp://HOST:PORT or tls://HOST:PORT, "
                f"found {self.scheduler[:80]!r}"
            )
        if self.jobs is not None:
            raise click.UsageError(
                "--jobs sets the number of workers of --scheduler local; leave it out for a cluster"
            )

    def write(
        self,
        schema: Schema,
        batches: Iterable[Batch],
        read_share: ReadShare | None = None,
        stored: Opened | None = None,
    ) -> None:
        """Write batches as they arrive, with progress on a terminal.

        Args:
            schema: of all batches together.
            read_share: returns how much of the input was read; see `progress.share_of`.
            stored: the open file, if the batches are its whole content.
        """
        from lodcli.formats.core import io
        from lodcli.shell.progress import progressing_batches

        click.get_current_context().meta.pop(STREAM_TO_COME, None)
        with naming_os(self.label):
            io.write_batches(
                self.path,
                schema,
                self._told(self.path, schema, progressing_batches(batches, schema, read_share)),
                format_name=self.format_name,
                overwrite=self.overwrite,
                strict=self.strict,
                options=self.full_options,
                when_lost=self._note,
                stored=None if stored is None else stored.copying(),
            )
        self._tell_sizes()

    def write_set(
        self, paths: Sequence[str], parts: Iterable[tuple[Schema, Iterable[Batch]]]
    ) -> None:
        """Write several files instead of this one, all or none; see `io.write_set`."""
        from lodcli.formats.core import io
        from lodcli.shell.progress import progressing_batches

        io.write_set(
            paths,
            (
                (schema, self._told(path, schema, progressing_batches(batches, schema)))
                for path, (schema, batches) in zip(paths, parts, strict=False)
            ),
            format_name=self.format_name,
            overwrite=self.overwrite,
            strict=self.strict,
            options=self.full_options,
            when_lost=self._note,
        )
        self._tell_sizes()

    @property
    def written(self) -> list[WrittenFile]:
        """The files that this command wrote so far; recorded only with --json or -v."""
        files: list[WrittenFile] = _report()["files"]
        return files

    def add_to_report(self, **more: Any) -> None:
        """Add a key to the report of --json."""
        _report().update(more)

    def report(self) -> None:
        """Print the report of --json."""
        as_json(_report(), err=self.path == "-")

    def _told(self, path: str, schema: Schema, batches: Iterable[Batch]) -> Iterable[Batch]:
        """Return the batches, counted for --json and -v."""
        if not (is_json() or is_verbose()):
            return batches
        from lodcli.reports.counting import Counts

        counts = Counts(schema)
        self.written.append(
            {"file": path, "format": self.kind.name, "bytes": None, "tensors": counts.tensors}
        )
        return counts.counting(batches)

    def tell_written(self, schema: Schema) -> None:
        """Record for --json and -v what other processes wrote to this target."""
        from lodcli.reports.counting import described

        if is_json() or is_verbose():
            tensors = [described(spec) for spec in schema]
            self.written.append(
                {"file": self.path, "format": self.kind.name, "bytes": None, "tensors": tensors}
            )
        self._tell_sizes()

    def _tell_sizes(self) -> None:
        """Record the sizes of the files, which are known once they are written."""
        for file in self.written:
            if file["bytes"] is None and os.path.isfile(file["file"]):
                file["bytes"] = os.path.getsize(file["file"])
            if is_verbose():
                note(_line(file))

    def _note(self, loss: Loss) -> None:
        """Print a note about lost content; not for text on a terminal."""
        if not is_terminal_output(self.path):
            note(f"note: {loss}")


def _report() -> dict[str, Any]:
    """Return the report of --json of the current command."""
    report: dict[str, Any] = click.get_current_context().meta.setdefault(_REPORT, {"files": []})
    return report


def _line(file: WrittenFile) -> str:
    """Return a line about a written file, for -v."""
    name = "standard output" if file["file"] == "-" else file["file"]
    size = "" if file["bytes"] is None else f", {size_text(file['bytes'])}"
    held = listing(f"{one['name']} {plural(one['rows'], 'row')}" for one in file["tensors"])
    return f"wrote {name}: {file['format']}{size}: {held}"
