"""Commands over datasets, shard by shard in several processes: `--jobs`, `--scheduler`."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, suppress
from dataclasses import replace
from importlib.metadata import version
from os import PathLike, fspath
from typing import Any, NamedTuple, cast

import click

from lodcli.formats.core.errors import DamagedFileError, naming, naming_os
from lodcli.formats.dataset import job as jobs
from lodcli.formats.dataset import manifest as manifests
from lodcli.formats.dataset.source import DatasetSource
from lodcli.formats.remote.urls import is_url, shown
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import TargetExistsError
from lodcli.kernels.errors import LodError
from lodcli.kernels.platform import environment
from lodcli.kernels.runtime.worker_processes import in_processes
from lodcli.shell import failures
from lodcli.shell.jobs.fingerprint import digest, file_digest
from lodcli.shell.limits import chosen_limits
from lodcli.shell.output import QUIET, is_json, note, plural, progressing
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target

# Reads a file and writes another: `work(source, target, *args)`.
Work = Callable[..., None]
# Of shards that failed, those that are listed.
_MOST_LISTED = 20


class _Task(NamedTuple):
    """One shard to compute.

    Attributes:
        work, args: see `by_shards`.
        source, target: the shard, and where its result goes.
        label: of the command.
        meta: what the options of the command left in the context.
        job: that the result is of.
    """

    work: Work
    args: tuple[Any, ...]
    source: Reference
    target: Target
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
    """Do `work(source, target, *args)`, with --jobs or --scheduler for each shard by itself.

    Each shard is computed with one thread, so its bytes do not depend on the number of processes.

    Args:
        work: a function of a module, whose result for a shard depends on nothing but the shard, the
            arguments and the files.
        source: a dataset, if `target.shard_option` is given.
        target: where to.
        args: what can be pickled.
        files: what `work` reads beside the source.

    Raises:
        click.UsageError: the source is no dataset.
        TargetExistsError: the target holds something else than shards of this job.
        DamagedFileError: some shards are damaged; each was reported.
        LodError, OSError: of the first shard that failed for another reason.
    """
    option = target.shard_option
    if option is None:
        work(source, target, *args)
        return
    _require_dataset(source, option)
    files = [*files]
    _require_files(files, option)
    with naming_os(source.label), naming(source.label), Input(source.path) as folder:
        dataset = DatasetSource(folder)
        try:
            dataset.check()
        finally:
            dataset.close()
    meta, label = chosen_limits(), click.get_current_context().command_path
    made = (source.name, target.options, target.strict, args, meta)
    job = {
        "command": label,
        "lod": version("lodcli"),
        "options": digest(made, files),
        "source": file_digest(os.path.join(source.path, manifests.NAME)),
    }
    names = dataset.shard_names
    with jobs.writing(target.path, job, len(names), overwrite=target.overwrite) as writing:
        missing = writing.missing()
        if len(missing) < len(names):
            note(f"continues {target.path}: {len(names) - len(missing)} of {len(names)} shards")
        alone = replace(target, format_name="lod.h5", overwrite=False, jobs=None, scheduler=None)
        tasks = [
            _Task(
                work,
                args,
                Reference(os.path.join(source.path, names[number]), source.name),
                replace(alone, path=str(writing.path(number))),
                label,
                meta,
                job,
            )
            for number in missing
        ]
        found = _results(tasks, target)
        _compute(source.file, tasks, found, [dataset.shard_rows(number) for number in missing])
        target.tell_written(writing.finish())


def _require_dataset(source: Reference, option: str) -> None:
    """Raise click.UsageError unless the source is a dataset."""
    if source.path == "-" or not os.path.isfile(os.path.join(source.path, manifests.NAME)):
        raise click.UsageError(
            f"{option} computes the shards of a dataset, and {source.label} is none; "
            "`lod shard FILE FOLDER` makes one"
        )


def _require_files(files: Iterable[str | PathLike[str]], option: str) -> None:
    """Raise click.UsageError for what cannot be read once for each shard."""
    for file in files:
        if fspath(file) == "-" or is_url(file):
            what = "standard input" if fspath(file) == "-" else shown(fspath(file))
            raise click.UsageError(f"{option} reads {what} for each shard; name a file")


_Results = Generator[tuple[int, Exception | None], None, None]


def _results(tasks: list[_Task], target: Target) -> _Results:
    """Return what computes shards: their numbers, and what went wrong."""
    if target.scheduler is None:
        return in_processes(_one, tasks, target.jobs or 1, lost=_lost, threads=1)
    from lodcli.shell.jobs.scheduled_dask import on_scheduler

    return on_scheduler(_one, tasks, target.scheduler, target.jobs, lost=_lost)


def _compute(source: str, tasks: list[_Task], found: _Results, rows: list[int]) -> None:
    """Compute shards; report each that is damaged once the others are finished.

    All else, such as a full disk or an option that fits no shard, ends the command.
    """
    failed: dict[int, DamagedFileError] = {}
    done = 0

    def sizes(result: tuple[int, Exception | None]) -> tuple[int, int]:
        number, error = result
        return (0, 0) if error else (rows[number], os.path.getsize(tasks[number].target.path))

    def share(result: tuple[int, Exception | None]) -> float:
        nonlocal done
        done += 1
        return done / len(tasks)

    with closing(found):
        for number, error in progressing(found, sizes, share):
            if isinstance(error, DamagedFileError):
                failed[number] = error
            elif error is not None:
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


def _one(task: _Task) -> Exception | None:
    """Compute one shard, unless it is there already; return what went wrong."""
    context = click.Context(click.Command(task.label), info_name=task.label)
    context.meta.update({**task.meta, QUIET: True})
    with context:
        try:
            jobs.require(os.path.dirname(task.target.path), task.job)
            # A process may be killed after it has renamed the file, and before it could say so.
            if not os.path.exists(task.target.path):
                with suppress(TargetExistsError):  # by a worker that was taken for dead
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
