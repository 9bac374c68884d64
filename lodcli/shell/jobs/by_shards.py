"""Commands over datasets and lod.h5 files, part by part in several processes.

For `--jobs` and `--scheduler`.
"""

from __future__ import annotations

import os
import pickle
import re
import traceback
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, suppress
from dataclasses import replace
from importlib.metadata import version
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple, cast

import click

from lodcli.formats.core.errors import DamagedFileError, naming, naming_os, rename_file
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.dataset import job as jobs
from lodcli.formats.loading.file import open_source
from lodcli.formats.remote.urls import is_url, shown
from lodcli.formats.storage.interrupts import shielded
from lodcli.formats.storage.outputs import TargetExistsError
from lodcli.formats.storage.partials import removed_together
from lodcli.kernels.errors import LodError
from lodcli.kernels.options import for_shell
from lodcli.kernels.platform import environment
from lodcli.kernels.runtime.worker_processes import in_processes
from lodcli.kernels.tensor.marks import attributes_text
from lodcli.shell import failures
from lodcli.shell.jobs.division import divided
from lodcli.shell.jobs.fingerprint import digest
from lodcli.shell.limits import chosen_limits
from lodcli.shell.output import QUIET, is_json, note, plural
from lodcli.shell.progress import Passed, progressing
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target

# Reads a file and writes another: `work(source, target, *args)`.
Work = Callable[..., None]
# Suffix of the folder that holds the parts of a file until they are joined.
_PARTS = ".parts"
# An error that has the position of a value in a shard.
_COUNTS = re.compile(r"\b(item|items from|sequence|row|position|record) <?[0-9]")
# The most shards that are listed after failures.
_MOST_LISTED = 20


class _Task(NamedTuple):
    """One shard to compute.

    Attributes:
        work, args: see `by_shards`.
        source, target: the shard, and the file for its result.
        part: the name of the shard in errors that count its items.
        label: of the command.
        meta: options of the command that are stored in its context.
        job: the job that the result belongs to.
    """

    work: Work
    args: tuple[Any, ...]
    source: Reference
    target: Target
    part: str
    label: str
    meta: dict[str, Any]
    job: jobs.Job


def by_shards(
    work: Work,
    source: Reference,
    target: Target,
    *args: Any,
    files: Iterable[str | PathLike[str]] = (),
) -> None:
    """Run `work(source, target, *args)` once for each shard.

    Each shard is computed with one thread, so its bytes do not depend on the number of processes.

    Args:
        work: a module-level function, whose result for a shard depends only on the shard, the
            arguments and the files.
        source: a dataset, or a lod.h5 file.
        target: the output, with a `shard_option`. Results become the shards of a dataset, or are
            joined to one file.
        args: further arguments; they can be pickled.
        files: files that `work` reads besides the source.

    Raises:
        click.UsageError: the source is neither a dataset nor a lod.h5 file.
        TargetExistsError: the target holds something else than shards of this job.
        DamagedFileError: some shards are damaged; each was reported.
        LodError, OSError: of the first shard that failed for another reason.
    """
    option = target.shard_option
    assert option is not None
    files = [*files]
    _require_files(files, option)
    with naming_os(source.label), naming(source.label):
        parts = divided(source, option)
    meta, label = chosen_limits(), click.get_current_context().command_path
    joins = target.kind.name != "lod.dataset"
    options = WriteOptions() if joins else target.options
    job = {
        "command": label,
        "lod": version("lodcli"),
        "options": digest((source.name, options, target.strict, args, meta), files),
        "source": parts.digest,
    }
    folder = f"{target.path}{_PARTS}" if joins else target.path
    with jobs.writing(folder, job, len(parts.sources), overwrite=target.overwrite) as writing:
        missing = writing.missing()
        if len(missing) < len(parts.sources):
            done = len(parts.sources) - len(missing)
            note(f"continues {folder}: {done} of {len(parts.sources)} shards")
        alone = replace(
            target,
            options=options,
            format_name="lod.h5",
            overwrite=False,
            jobs=None,
            scheduler=None,
        )
        tasks = [
            _Task(
                work,
                args,
                parts.sources[number],
                replace(alone, path=str(writing.path(number))),
                parts.labels[number],
                label,
                meta,
                job,
            )
            for number in missing
        ]
        found = _results(tasks, target)
        _compute(source.file, tasks, found, [parts.rows[number] for number in missing])
        if joins:
            _join(writing, replace(target, jobs=None, scheduler=None))
        else:
            target.tell_written(writing.finish())


def _join(writing: jobs.ShardedJob, target: Target) -> None:
    """Write the results of all parts to one file, and remove them."""
    with open_source(writing.pattern) as parts:
        if target.options.attributes is None:
            target = target.with_options(attributes=attributes_text(parts.attributes))
        target.write(parts.schema, parts.batches())
    writing.remove()


def _require_files(files: Iterable[str | PathLike[str]], option: str) -> None:
    """Raise click.UsageError for a file that cannot be read again for each shard."""
    for file in (fspath(one) for one in files):
        if file == "-" or is_url(file):
            what = "standard input" if file == "-" else shown(file)
            raise click.UsageError(f"{option} reads {what} for each shard; name a file")


_Results = Generator[tuple[int, Exception | None], None, None]


def _results(tasks: list[_Task], target: Target) -> _Results:
    """Return a generator that computes shards, and yields their numbers and errors."""
    if target.scheduler is None:
        processes = target.jobs or 1
        return in_processes(_one, tasks, processes, lost=_lost, threads=1, shield=shielded)
    from lodcli.shell.jobs.scheduled_dask import on_scheduler

    return on_scheduler(_one, tasks, target.scheduler, target.jobs, lost=_lost)


def _compute(source: str, tasks: list[_Task], found: _Results, rows: list[int]) -> None:
    """Compute shards; report each that is damaged once the others are finished.

    Other errors, such as a full disk or an option that fits no shard, end the command.
    """
    failed: dict[int, DamagedFileError] = {}
    done = 0

    def counted(result: tuple[int, Exception | None]) -> Passed:
        number, error = result
        if error:
            return Passed(0, 0)
        return Passed(rows[number], os.path.getsize(tasks[number].target.path))

    def share(_: Passed) -> float:
        nonlocal done
        done += 1
        return done / len(tasks)

    with closing(found):
        for number, error in progressing(found, counted, share):
            if isinstance(error, DamagedFileError):
                failed[number] = error
            elif error is not None:
                if isinstance(error, LodError):
                    # Another error is the same for all shards.
                    name = tasks[number].part if _COUNTS.search(str(error)) else source
                    rename_file(error, tasks[number].source.label, name)
                raise error
    if not failed:
        return
    label = click.get_current_context().command_path
    for _, error in sorted(failed.items())[:_MOST_LISTED]:
        failures.report(error, label, as_json=is_json())
    more = "" if len(failed) <= _MOST_LISTED else f", of which {_MOST_LISTED} are listed"
    raise DamagedFileError(
        f"{plural(len(failed), 'shard')} of {source} {'is' if len(failed) == 1 else 'are'} "
        f"damaged{more}; the results of the others are kept: run the same command again once these "
        "are repaired"
    )


def _lost(task: _Task, error: OSError) -> Exception:
    error.filename = task.source.path
    return error


@for_shell()
def _one(task: _Task) -> Exception | None:
    """Compute one shard, unless its result exists already; return the error, or None."""
    context = click.Context(click.Command(task.label), info_name=task.label)
    context.meta.update({**task.meta, QUIET: True})
    folder = Path(task.target.path).parent
    with context, removed_together(folder):  # by `jobs.ShardedJob`
        try:
            jobs.require(str(folder), task.job)
            # A process may be killed after it has renamed the file, before it could report that.
            if not os.path.exists(task.target.path):
                with suppress(TargetExistsError):  # written by a worker that was considered dead
                    task.work(task.source, task.target, *task.args)
        except Exception as error:
            if environment.value("LOD_DEBUG") == "1":
                traceback.print_exception(error)
            return _sendable(error)
    return None


def _sendable(error: Exception) -> Exception:
    """Return an error that another process can read."""
    try:
        return cast("Exception", pickle.loads(pickle.dumps(error)))
    except Exception:
        kind = DamagedFileError if isinstance(error, DamagedFileError) else LodError
        return kind(failures.explained(error)[0])
