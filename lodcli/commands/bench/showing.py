"""Runs the plan of a measuring command, prints the result and saves the report."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from lodcli.bench.measure.harness import Effort
from lodcli.bench.measure.machine import machine, versions
from lodcli.bench.measure.peer_set import chosen_peers
from lodcli.bench.report.results import report_of, without_folders
from lodcli.bench.session import Findings, Job, run_jobs
from lodcli.bench.suites.cases import Case, custom_case
from lodcli.bench.suites.lengths import parse_lengths
from lodcli.bench.suites.plan import Plan
from lodcli.commands.bench.options import MOST, Settings
from lodcli.formats.storage.interrupts import Interrupted
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.suggestions import or_near
from lodcli.shell import output
from lodcli.shell.device import require_device
from lodcli.shell.opened import opened

# Benchmarks that a GPU can take part in.
ON_GPU = ("kernels", "rnn")


def run_and_show(suite: str, plan: Plan, settings: Settings) -> None:
    """Measure a plan and print the results."""
    peers = {name: chosen_peers(suite, settings.against, name) for name in settings.device}
    _require_devices(suite, settings.device)
    _require_target(settings, plan.cases)
    plan.check(settings.device)
    effort = Effort(
        rounds=settings.rounds,
        least_rounds=min(Effort.least_rounds, settings.rounds),
        most_rounds=3 * settings.rounds,
        budget_seconds=settings.budget,
    )
    jobs = [
        Job(suite, plan, effort, threads, peers[name], settings.pythons, settings.seed, name)
        for name in settings.device
        # Measurements on a GPU do not depend on the number of threads.
        for threads in (settings.threads if name == "cpu" else [max(settings.threads)])
    ]
    found = Findings()
    try:
        run_jobs(jobs, found, _tell)
    except Interrupted:
        if found.rows and settings.out:
            count = len(found.rows)
            report = _report(found, settings, {"what was left": "interrupted"})
            _keep(report, settings.out, force=settings.force)
            output.note(f"interrupted; {settings.out} holds the {count} results so far")
        raise
    for name, why in found.missing.items():
        output.note(f"without {name}: {why}")
    failed = {title: str(error) for title, error in found.failed.items()}
    errors = list(found.failed.values())
    if found.rows or not errors:
        show(_report(found, settings, failed), settings)
    for error in errors[1:]:
        output.note(str(error))
    if errors:
        raise errors[0]


def _report(found: Findings, settings: Settings, failed: dict[str, str]) -> dict[str, Any]:
    return report_of(
        shlex.join(["lod", *sys.argv[1:]]),
        machine() | found.machine,
        versions() | found.versions,
        found.rows,
        threads=list(settings.threads),
        limits=found.limits,
        missing=found.missing,
        skipped=found.skipped,
        failed=failed,
    )


def show(report: Mapping[str, Any], settings: Settings) -> None:
    """Print a report in the format of the settings; write its file and its plot."""
    if settings.out:
        _keep(report, settings.out, force=settings.force)
    if settings.plot:
        from lodcli.bench.report.plot import draw

        draw(report, settings.plot, force=settings.force)
    if settings.as_json:
        output.as_json(report)
    elif settings.export:
        from lodcli.bench.report.export import EXPORTERS

        output.text(EXPORTERS[settings.export](report).rstrip("\n"))
    elif "-" not in (settings.plot, settings.out):
        from lodcli.bench.report.text_table import report_text

        output.text(report_text(report, colour=output.colours(sys.stdout), width=output.width()))


def _keep(report: Mapping[str, Any], path: str, *, force: bool) -> None:
    with Output(path, overwrite=force) as kept:
        kept.write(as_lines(without_folders(report)).encode())


def as_lines(report: Mapping[str, Any]) -> str:
    """Return a report as JSON with one line for each result, for line-based diffs."""
    head = {key: value for key, value in report.items() if key != "results"}
    rows = ",\n".join(json.dumps(row) for row in report["results"])
    return f'{json.dumps(head)[:-1]},\n"results": [\n{rows}\n]}}\n'


def compare_and_show(old: str, new: str, *, threshold: float, alpha: float, as_json: bool) -> None:
    """Print how the times of lod changed between two reports.

    Raises:
        RegressionError: a measurement is slower, beyond chance and the threshold.
    """
    from lodcli.bench.measure.errors import RegressionError
    from lodcli.bench.report.compare import compared, read_report
    from lodcli.bench.report.text_table import time_text

    before, after = read_report(old), read_report(new)
    changes = compared(before, after, threshold=threshold, alpha=alpha)
    if before["machine"] != after["machine"]:
        output.note("the two were measured on different machines")
    if as_json:
        output.as_json({"changes": [vars(change) for change in changes]})
    else:
        headers = ["verdict", "new / old", "machine", "p-value", "old", "new", "measured"]
        rows = [
            [
                *(one.verdict, f"{one.ratio:.3f}", f"{one.machine:.3f}", f"{one.chance:.4f}"),
                *(time_text(one.old), time_text(one.new), one.command),
            ]
            for one in changes
        ]
        output.text(output.table(headers, rows))
    unclear = sum(change.verdict == "unclear" for change in changes)
    if unclear:
        output.note(
            f"{output.plural(unclear, 'measurement')} of {len(changes)} changed while the machine "
            "was busy; measure again on an idle machine"
        )
    slower = [change.command for change in changes if change.verdict == "slower"]
    if slower:
        raise RegressionError(
            f"{output.plural(len(slower), 'measurement')} of {len(changes)} slower by more than "
            f"{threshold:.0%}: {', '.join(slower[:3])}{' ..' if len(slower) > 3 else ''}"
        )


def _tell(what: str) -> None:
    if sys.stderr.isatty():
        output.note(what)


def _require_devices(suite: str, devices: Sequence[str]) -> None:
    """Raise UnsupportedError for a missing GPU, or a suite that does not run on a GPU."""
    for device in devices:
        if device == "cpu":
            continue
        if suite not in ON_GPU:
            raise UnsupportedError(
                f"--device {device}: only {' and '.join(ON_GPU)} are measured on a GPU; use "
                "--device cpu"
            )
        require_device(device)


def _require_target(settings: Settings, cases: Sequence[Case]) -> None:
    """Raise errors of writing or drawing the result before anything is measured."""
    if settings.plot:
        from lodcli.bench.report.plot import require_drawing

        require_drawing(settings.plot, [case.name for case in cases])
    for path in (settings.out, settings.plot):
        if path and path != "-":
            # Creates the partial file, and removes it again.
            Output(path, overwrite=settings.force).abort()


def cases_of(
    known: Mapping[str, Case],
    names: str | None,
    seed: int,
    *,
    sweep: str | None = None,
    usual: str | None = None,
    base: str | None = None,
    lengths: str | None = None,
    **sizes: int | None,
) -> list[Case]:
    """Return the cases that options choose: named ones, a custom one, or a sweep.

    Args:
        usual: the cases that are measured if none is named; None: all.
        base: the case with the default sizes; None: the first usual one.

    Raises:
        SelectionError: an invalid name, length or value.
    """
    custom = lengths is not None or any(value is not None for value in sizes.values())
    single = custom or sweep is not None
    default = base if single and base else usual
    chosen = _named(known, default if names is None else names)
    if single and names is not None and len(chosen) > 1:
        raise SelectionError(
            f"--case {names}: expected one case with --sweep, --lengths or sizes such as --rows, "
            f"found {len(chosen)}"
        )
    if custom:
        drawn = None if lengths is None else parse_lengths(lengths, file_lengths)
        given = {"rows": None, "features": None, "sequences": None, "hidden": None, **sizes}
        chosen = [custom_case(chosen[0], lengths=drawn, seed=seed, **given)]
    elif seed:
        chosen = [replace(case, seed=seed) for case in chosen]
    return chosen if sweep is None else _swept(chosen[0], sweep)


def usual(cases: Mapping[str, str], devices: Sequence[str]) -> str:
    """Return which cases are measured if none is named: those of the CPU if it takes part."""
    return cases["cpu" if "cpu" in devices else "cuda"]


def _named(known: Mapping[str, Case], names: str | None) -> list[Case]:
    if names is None:
        return list(known.values())
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in wanted:
        if name not in known:
            raise SelectionError(
                f"--case {name}: expected one of {', '.join(known)}{or_near(name, known)}"
            )
    return [known[name] for name in wanted]


def _swept(case: Case, sweep: str) -> list[Case]:
    parameter, _, rest = sweep.partition("=")
    try:
        values = [float(value) for value in rest.split(",")]
    except ValueError:
        values = []
    least = 0.0 if parameter == "skew" else 1.0
    if not values or not all(least <= v <= MOST and (not least or v % 1 == 0) for v in values):
        raise SelectionError(f"--sweep {sweep}: expected WHAT=N,N,.. such as rows=1e4,1e5,1e6")
    found = []
    for value in values:
        changed = case.with_value(parameter, value)
        found.append(replace(changed, name=f"{parameter}={value:g}"))
    return found


def file_lengths(name: str) -> Offsets:
    """Return the lengths of the finest level of a file.

    Raises:
        TooLargeError: a file does not store the number of its items, and exceeds the memory.
    """
    import numpy as np

    from lodcli.formats.arrays.budget import WHOLE_COPIES, fits
    from lodcli.formats.core.errors import TooLargeError
    from lodcli.shell.references import parse_reference

    found: list[Offsets] = []
    size_bytes = 0
    with opened(parse_reference(name, None)) as file:
        tensor = file.tensor()
        if tensor.rows is not None:
            return np.diff(file.source.read_index(tensor.name).absolute(-1))
        for part in file.tensors():
            found.append(np.diff(part.lod.absolute(-1)))
            size_bytes += found[-1].nbytes
            if not fits(size_bytes, WHOLE_COPIES):
                raise TooLargeError(
                    f"the first {size_bytes // 8} lengths fill the memory budget; choose a file "
                    "of fewer sequences"
                )
    return np.concatenate(found)


def parse_ops(given: str | None, known: Sequence[str], option: str = "--op") -> list[str]:
    """Return the ops named, or all that are known."""
    if given is None:
        return list(known)
    wanted = list(dict.fromkeys(name.strip().replace("-", "_") for name in given.split(",")))
    for name in wanted:
        if name not in known:
            raise click.UsageError(
                f"{option} {name}: expected one of {', '.join(known)}{or_near(name, known)}"
            )
    return wanted
