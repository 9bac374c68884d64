"""Writes datasets shard by shard, each complete or absent, so that a killed job can continue."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.core.errors import DamagedFileError, naming, naming_os
from lodcli.formats.core.schema import Schema
from lodcli.formats.core.table import UNFINISHED
from lodcli.formats.dataset import manifest as manifests
from lodcli.formats.dataset.manifest import SHARDS, refuse_columns, shard_name, uncounted
from lodcli.formats.dataset.writer import Shards, write_manifest
from lodcli.formats.storage.durable import fsync_folder
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.journal import remove_unused
from lodcli.formats.storage.outputs import (
    Output,
    TargetExistsError,
    refuse_missing_folder,
    refuse_url,
)
from lodcli.formats.storage.partials import PARTIAL_NAME, is_partial_of
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.options import option
from lodcli.kernels.platform import files

# The file that describes the job of the shards in a folder, until the manifest is written.
NAME = UNFINISHED
_MOST_BYTES = 1 << 16
_OURS = re.compile(rf"{SHARDS}|{re.escape(manifests.NAME)}|{re.escape(NAME)}")

# Everything that the shards depend on, by name: short texts, and digests of longer data.
Job = Mapping[str, str]


class ShardedJob:
    """A folder that is locked by this process, and becomes a dataset.

    Use `writing`.

    Args:
        folder: it holds no other job.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self._count = count

    def path(self, number: int) -> Path:
        """Return the path of a shard."""
        return self._folder / shard_name(number, self._count)

    def missing(self) -> list[int]:
        """Return the numbers of the shards that are still to be written."""
        there = set(os.listdir(self._folder))
        return [n for n in range(self._count) if shard_name(n, self._count) not in there]

    @property
    def pattern(self) -> str:
        """A glob pattern for all shards, for a reader of several files."""
        return os.path.join(glob.escape(str(self._folder)), "data-*-of-*.lod.h5")

    def remove(self) -> None:
        """Remove the shards, when the file made of them is complete."""
        _discard(self._folder)
        self.clean()

    def finish(self) -> Schema:
        """Write the manifest, and return the schema of the dataset.

        Raises:
            InvalidDataError: a shard holds other tensors than the first.
        """
        shards = None
        for number in range(self._count):
            place = self.path(number)
            with naming(str(place)), Input(place) as file:
                fd = file.make_seekable().fileno()
                schema = uncounted(ContainerSource(fd, place.name).schema)
                shards = shards or Shards(schema)
                if schema != shards.schema:
                    raise InvalidDataError(
                        f"its tensors, {_described(schema)}, are not those of the first shard, "
                        f"{_described(shards.schema)}; so they are not a dataset"
                    )
                shards.add(fd, place.name)
        assert shards is not None
        refuse_columns(shards.schema)
        manifest = shards.manifest()
        self._remove_partials()
        with Output(self._folder / manifests.NAME, seekable=True, overwrite=True) as output:
            write_manifest(output, manifest, shards.attributes)
        os.unlink(self._folder / NAME)
        fsync_folder(self._folder)
        return manifest.counted()

    def clean(self) -> None:
        """Remove temporary files of killed processes; and the folder, if it holds no shard."""
        self._remove_partials()
        if set(os.listdir(self._folder)) == {NAME}:
            os.unlink(self._folder / NAME)
            os.rmdir(self._folder)

    def _remove_partials(self) -> None:
        for name, target in _partials(self._folder):
            with suppress(FileNotFoundError):
                remove_unused(self._folder / name, self._folder / target)


def require(folder: str, job: Job) -> None:
    """Raise InvalidDataError unless shards of this job are being written to the folder."""
    try:
        fd = os.open(os.path.join(folder, NAME), os.O_RDONLY | files.UNTRUSTED)
    except FileNotFoundError:
        known = None
    else:
        try:
            known = _read(fd, folder)
        finally:
            os.close(fd)
    if known != job:
        raise InvalidDataError(
            f"{folder}: holds no {NAME} of this command; every process that computes shards "
            "needs the same folder under this name, and nothing may remove it meanwhile"
        )


@contextmanager
def writing(path: str, job: Job, count: int, *, overwrite: bool) -> Iterator[ShardedJob]:
    """Make a folder for the shards of a job, or continue with an existing one.

    Args:
        path: of the folder. Its `job.json` describes the job of its shards.
        job: everything that the shards depend on.
        overwrite: whether to remove the shards of another, unfinished job.

    Raises:
        TargetExistsError: the folder holds something else, or is being written.
        DamagedFileError: its `job.json` is not a description of a job.
    """
    # As it was given, for messages; but a link cannot be removed like a folder.
    folder = Path(path)  # without a slash at the end, which would hide a link
    if folder.is_symlink():
        folder = Path(os.path.realpath(folder))
    with naming_os(f"{path}/{NAME}"):
        fd = _locked(folder, path, job, overwrite=overwrite)
    try:
        found = ShardedJob(folder, count)
        try:
            yield found
        finally:
            if (folder / NAME).exists():
                found.clean()
    finally:
        os.close(fd)


def _locked(folder: Path, label: str, job: Job, *, overwrite: bool) -> int:
    """Return a descriptor of the locked `job.json` of a folder that holds no other job."""
    _begin(folder, label, job)
    while True:
        fd = os.open(folder / NAME, os.O_RDWR | files.UNTRUSTED)
        try:
            if files.lock(fd) is False:
                raise TargetExistsError(f"{label}: another lod is writing it")
            known = _read(fd, label)
            differing = [key for key in {**known, **job} if known.get(key) != job.get(key)]
            if not differing:
                return fd
            finished = (folder / manifests.NAME).exists()
            if finished or not overwrite:
                force = "" if finished else f", or {option('force', True)} discards them"
                raise TargetExistsError(
                    f"{label}: holds shards of another job (other: {', '.join(differing)}); name "
                    f"another folder{force}"
                )
            _discard(folder)
            _write(folder, job, overwrite=True)
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def _begin(folder: Path, label: str, job: Job) -> None:
    """Make the folder with its `job.json`, unless it has one."""
    refuse_url(label)
    made = not folder.exists()
    if not made and not folder.is_dir():
        raise TargetExistsError(f"{label}: is not a folder and is left unchanged")
    try:
        if made:
            folder.mkdir()
        names = os.listdir(folder)
    except OSError as error:
        refuse_missing_folder(folder, label)
        error.filename2 = label
        raise
    if NAME in names:
        return
    # A process that was killed here left at most an incomplete `job.json`, which Output removes.
    if not all(is_partial_of(name, folder / NAME) for name in names):
        raise TargetExistsError(
            f"{label}: exists already and is not an unfinished dataset; remove it, or name another"
        )
    try:
        with suppress(TargetExistsError):  # of another lod, which began at the same time
            _write(folder, job, overwrite=False)
    except BaseException:
        if made:
            with suppress(OSError):
                folder.rmdir()
        raise


def _write(folder: Path, job: Job, *, overwrite: bool) -> None:
    with Output(folder / NAME, overwrite=overwrite) as output:
        output.write(json.dumps({**job}, indent=1).encode() + b"\n")


def _read(fd: int, label: str) -> Job:
    try:
        job = json.loads(files.pread(fd, _MOST_BYTES, 0))
        if isinstance(job, dict) and all(isinstance(value, str) for value in job.values()):
            return job
    except (ValueError, RecursionError):
        pass
    raise DamagedFileError(f"{label}: {NAME}: is not a description of a job; name another folder")


def _discard(folder: Path) -> None:
    """Remove the shards of a job. `job.json` stays, so that files left by a crash are still its."""
    for name, _ in _partials(folder):  # also those of processes that outlived their command
        os.unlink(folder / name)
    for name in os.listdir(folder):
        if re.fullmatch(SHARDS, name):
            os.unlink(folder / name)
    fsync_folder(folder)


def _partials(folder: Path) -> list[tuple[str, str]]:
    """Return the names of temporary files of shards, and of their targets."""
    found = [(name, PARTIAL_NAME.fullmatch(name)) for name in os.listdir(folder)]
    return [(name, one["target"]) for name, one in found if one and _OURS.fullmatch(one["target"])]


def _described(schema: Schema) -> str:
    return ", ".join(f"{spec.name} {spec.dtype} {spec.row_shape}" for spec in schema)
