"""One file through `lod`: every command that only needs it, and its values compared."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lodcli.formats.core import io
from lodcli.formats.core import registry as table
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import LodError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.corpora.oracles import ORACLES, difference, hdf5_datasets
from tests.corpora.runs import Run, forked, run

# Larger files take long in the oracles.
MOST_COMPARED_BYTES = 50 << 20


# Options that a message may recommend, with example values.
ADVICE = {
    "--skip-unsupported": ("--skip-unsupported",),
    "--columns": ("--skip-unsupported",),
    "--dtype float64": ("--dtype", "float64"),
}


@dataclass
class Report:
    """The result for one file.

    Attributes:
        path: of the file.
        format_name: the format it was read as, "?" if unknown.
        outcome: "read", "partly read" if something was left out, "refused", or "unknown format".
        compared: number of tensors whose values were compared with another library.
        runs: the number of commands.
        faults: violated rules: a crash, a hang, a wrong value.
        disputed: the reported damage, if another library reads the file.
        messages: each message and the command that it came from.
    """

    path: str
    format_name: str = "?"
    outcome: str = "refused"
    compared: int = 0
    runs: int = 0
    faults: list[str] = field(default_factory=list)
    disputed: str | None = None
    messages: list[str] = field(default_factory=list)


def format_of(path: Path) -> str | None:
    """Return the format that `lod` detects for a file; None if it detects none."""
    try:
        with Input(path) as source:
            return table.of_input(source, ReadOptions())
    except (LodError, OSError):
        return table.of_name(path)


class Examination:
    """Runs the commands over one file; see `examine`."""

    def __init__(self, path: Path, format_name: str | None, folder: Path, *, compare: bool) -> None:
        self._path = path
        self._compares = compare and path.stat().st_size <= MOST_COMPARED_BYTES
        self._folder = folder
        self._size = path.stat().st_size
        self.report = Report(str(path), format_name or "?")

    def lod(self, *args: str) -> Run:
        """Run a command, and record violated rules."""
        done = run(*args, cwd=self._folder)
        self.report.runs += 1
        if fault := done.fault(self._size):
            self.report.faults.append(f"lod {' '.join(args)}: {fault}: {done.stderr[-300:]}")
        if done.stderr:
            told = done.stderr.replace(str(self._path), "FILE")
            self.report.messages.append(f"{done.code} {told.strip()[:500]}")
        return done

    def examine(self) -> None:
        """Run everything."""
        path = str(self._path)
        inspected = self.lod("inspect", path, "--json")
        verified = self.lod("verify", path)
        converted, options = self._converted(path)
        if converted is None:
            if verified.code == 0:
                self.report.faults.append("lod verify takes it, lod convert does not")
            self._hdf5(path)
            self._dispute(verified)
            return
        self.report.outcome = "partly read" if options else "read"
        content = io.read_all(converted)
        if inspected.code == 0:
            self._agrees(json.loads(inspected.stdout), content)
        self._slice(path, content, options)
        self._compare(content)

    def _converted(self, path: str) -> tuple[Path | None, tuple[str, ...]]:
        """Convert the file, with the options that messages recommend; return the result's path."""
        out = self._folder / "out.lod.h5"
        options: tuple[str, ...] = ()
        while True:
            done = self.lod("convert", path, str(out), *options)
            if done.code == 0:
                return out, options
            more = next(
                (
                    option
                    for advice, option in ADVICE.items()
                    if advice in done.stderr and option[0] not in options
                ),
                None,
            )
            if more is None:
                return None, options
            options += more

    def _agrees(self, shown: dict[str, Any], content: dict[str, Any]) -> None:
        for one in shown["tensors"]:
            item = content.get(one["name"])
            if isinstance(item, LoDTensor) and one["rows"] != item.rows:
                self.report.faults.append(
                    f"inspect counts {one['rows']} rows of {one['name']}, convert {item.rows}"
                )

    def _slice(self, path: str, content: dict[str, Any], options: tuple[str, ...]) -> None:
        if "--dtype" in options:
            return  # an option that slice lacks
        name, item = next(iter(content.items()))
        if not isinstance(item, LoDTensor) or not len(item):
            return
        out = self._folder / "slice.lod.h5"
        low = len(item) // 2
        done = self.lod("slice", f"{path}::{name}", f"{low}:{low + 1}", "-fo", str(out))
        if done.code == 0:
            found = io.read(out)
            assert isinstance(found, LoDTensor)
            if not found.identical(item[low : low + 1]):
                self.report.faults.append(f"slice {low} of {name} is not what convert gives")
        else:
            self.report.faults.append(f"slice refuses what convert takes: {done.stderr[:300]}")

    def _compare(self, content: dict[str, Any]) -> None:
        read = ORACLES.get(self.report.format_name)
        if read is None or not self._compares:
            return
        try:
            columns = read(self._path)
        except Exception as error:  # other libraries raise anything
            self.report.messages.append(f"oracle: {type(error).__name__}: {str(error)[:200]}")
            return
        for name, item in content.items():
            if not isinstance(item, LoDTensor):
                continue
            if self.report.format_name in ("npz", "safetensors") and name not in columns:
                continue  # named as NAME/data, which is no array
            found = difference(columns, name, item)
            self.report.compared += 1
            if found:
                self.report.faults.append(f"other values: {found}")

    def _hdf5(self, path: str) -> None:
        """Read the datasets of a file of HDF5 one by one."""
        if self.report.format_name not in ("hdf5", "lod.h5") or not self._compares:
            return
        try:
            datasets = hdf5_datasets(self._path)
        except Exception as error:  # of h5py, on damaged files
            self.report.messages.append(f"oracle: {type(error).__name__}: {str(error)[:200]}")
            return
        for name, expected in datasets.items():
            out = self._folder / "dataset.lod.h5"
            done = self.lod("convert", path, "-fo", str(out), "--from", "hdf5", "--data", name)
            if done.code:
                continue
            self.report.outcome = "read"
            self.report.compared += 1
            found = io.read(out)
            assert isinstance(found, LoDTensor)
            if not np.array_equal(found.data, expected, equal_nan=expected.dtype.kind in "fc"):
                self.report.faults.append(f"other values: dataset {name}")

    def _dispute(self, verified: Run) -> None:
        """Record that another library reads a file that lod reports as damaged."""
        read = ORACLES.get(self.report.format_name)
        if verified.code != 1 or read is None or not self._compares:
            return
        try:
            read(self._path)
        except Exception:
            return
        self.report.disputed = verified.stderr.replace(str(self._path), "FILE").strip()[:300]


def examine(path: Path, *, compare: bool = True) -> Report:
    """Return the report of a file.

    Args:
        path: of the file.
        compare: whether to read it with other libraries as well, which may crash.
    """
    name = format_of(path)
    folder = Path(tempfile.mkdtemp(prefix="lod-corpora-"))
    try:
        one = Examination(path, name, folder, compare=compare)
        if name is None:
            one.report.outcome = "unknown format"
            one.lod("inspect", str(path))
        else:
            try:
                one.examine()
            except Exception as error:
                one.report.faults.append(f"{type(error).__name__}: {str(error)[:300]}")
        return one.report
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def examined(paths: list[Path], jobs: int) -> Iterator[Report]:
    """Yield the report of each file, in any order; several are examined at once.

    Each is examined in a separate process, because other libraries crash on some of them.
    """
    waiting = [(path, True) for path in reversed(paths)]
    working: dict[int, tuple[Path, Path, bool]] = {}
    while waiting or working:
        while waiting and len(working) < jobs:
            path, compare = waiting.pop()
            handle, name = tempfile.mkstemp(prefix="lod-corpora-")
            os.close(handle)
            pid = forked(partial(_write, path, name, compare))
            working[pid] = path, Path(name), compare
        pid, status = os.wait()
        path, written, compare = working.pop(pid)
        if status == 0:
            yield Report(**json.loads(written.read_text()))
        elif compare:
            waiting.append((path, False))
        else:
            yield Report(str(path), faults=[f"ended with status {status}"])
        written.unlink()


def _write(path: Path, name: str, compare: bool) -> int:
    Path(name).write_text(json.dumps(dataclasses.asdict(examine(path, compare=compare))))
    return 0
