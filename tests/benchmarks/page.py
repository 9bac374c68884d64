"""Write docs/benchmarks.md from the reports in docs/benchmarks/, which measure.py makes.

    python -m tests.benchmarks.page            # writes the page, draws its plots
    python -m tests.benchmarks.page --intel    # writes docs/benchmarks-intel.md, a shorter page
    python -m tests.benchmarks.page --check    # exits with 1 if the page is out of date

docs/benchmarks/why.json holds the reasons for missed targets, by patterns of "bench op case".
The reports and reasons of an Intel processor are in docs/benchmarks/intel/.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lodcli.bench.report.text_table import rate_text
from tests.benchmarks import pictures
from tests.benchmarks.answers import answers, questions
from tests.benchmarks.measure import GROWTH, SCRIPTS, STARTUP, command_of
from tests.benchmarks.tables import costs, details, growth_table, startup_table
from tests.benchmarks.targets import Target, targets
from tests.benchmarks.verdicts import (
    AT_LIMIT,
    LIMITED,
    MISSED,
    REACHED,
    THREADS,
    UNCLEAR,
    UNMEASURED,
    Verdict,
)
from tests.benchmarks.verdicts import verdict as verdict_of

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "docs" / "benchmarks"
PAGE = ROOT / "docs" / "benchmarks.md"
INTEL_FOLDER = FOLDER / "intel"
INTEL_PAGE = ROOT / "docs" / "benchmarks-intel.md"
WHY = "why"

Reports = Mapping[str, Mapping[str, Any]]

INTRODUCTION = """# Benchmarks

*For* people who ask how fast `lod` is. *Afterwards* you know where it is faster than which
peer, where it is slower, and how to repeat it.

The speed of lod compared with other software and with the limits of the machine. A figure
is a ratio between candidates that ran interleaved on the same machine, so slow drift of the machine
affects all equally; absolute times depend on the machine. [benchmarking.md](benchmarking.md)
describes how `lod bench` measures. This page is generated from the reports in
[benchmarks/](benchmarks). [benchmarks-intel.md](benchmarks-intel.md) has the results for the same
targets on an Intel processor.

"""
INTEL_INTRODUCTION = """# Benchmarks on Intel

*For* people who run `lod` on an Intel processor. *Afterwards* you know which targets it reaches
there.

The targets of [benchmarks.md](benchmarks.md), measured by the same commands on an Intel processor
with AVX-512 and AMX. Its L3 cache, and while other guests use the host also its memory, are slower
than those of the AMD processor of that page, which limits RNNs with large weights and ops that copy
rows. This page is generated from the reports in [benchmarks/intel/](benchmarks/intel).

"""
SUMMARY = f"""## Summary

Each target compares a time of lod with that of the best peer or with the machine's limit, with
{THREADS} threads and, where possible, preallocated results. A target that is not reached is *at the
limit* if lod works at {AT_LIMIT:.0%} or more of what the machine can do, as measured in the same
rounds. It is *unclear* if most samples were disturbed by other load and do not agree.
"""


def read_reports(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the reports of a folder by name."""
    paths = sorted(path for path in folder.glob("*.json") if path.stem != WHY)
    return {path.stem: json.loads(path.read_bytes()) for path in paths}


def rows_of(reports: Reports) -> list[Mapping[str, Any]]:
    """Return the results of all reports of `lod bench`, without what only a picture shows."""
    chosen = [report for name, report in reports.items() if name != pictures.SCALING]
    return [row for report in chosen for row in report.get("results", [])]


def page(reports: Reports, why: Mapping[str, str]) -> str:
    """Return the whole page."""
    measured = {n: r for n, r in reports.items() if "results" in r}
    rows, verdicts = rows_of(reports), _verdicts(reports)
    lines = [INTRODUCTION + SUMMARY, *_summary(verdicts), *pictures.shown(FOLDER)]
    lines += [*_misses(verdicts, why), *answers(rows)]
    lines += ["## The targets", "", *_targets(verdicts), *questions(rows), *costs(rows)]
    lines += details(rows)
    if STARTUP in reports:
        lines += startup_table(reports[STARTUP])
    if GROWTH in reports:
        lines += growth_table(reports[GROWTH])
    return _joined([*lines, *_machine(measured.values()), *_commands(measured)])


def intel_page(reports: Reports, why: Mapping[str, str]) -> str:
    """Return the page of an Intel processor: the targets on it, and the machine."""
    verdicts = [one for one in _verdicts(reports) if one.target.device == "cpu"]
    lines = [INTEL_INTRODUCTION + SUMMARY, *_summary(verdicts), *_misses(verdicts, why)]
    measured = [report for report in reports.values() if "results" in report]
    return _joined([*lines, "## The targets", "", *_targets(verdicts), *_machine(measured)])


def _verdicts(reports: Reports) -> list[Verdict]:
    rows, startup = rows_of(reports), reports.get(STARTUP, {}).get("rows", [])
    return [verdict_of(target, rows, startup) for target in targets()]


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"


def key_of(target: Target) -> str:
    """Return what why.json calls a target."""
    kind = "padded" if target.padded else target.peer or ""
    device = "" if target.device == "cpu" else target.device
    return " ".join(filter(None, (device, target.bench, target.op, target.case, kind)))


def name_of(target: Target) -> str:
    """Return the name of a target in a sentence."""
    what = " against padded input" if target.padded else f" against {target.peer}"
    ending = what if target.padded or target.peer else ""
    ending += "" if target.device == "cpu" else " on a GPU"
    case = f"by {target.case}" if target.spread else target.case
    return f"{target.op} {case}".strip() + ending


def reason(target: Target, why: Mapping[str, str]) -> str:
    """Return why a target is missed: the reason of the first pattern that matches."""
    key = key_of(target)
    return next((text for pattern, text in why.items() if fnmatch.fnmatch(key, pattern)), "")


def _summary(verdicts: Sequence[Verdict]) -> Iterator[str]:
    words = (REACHED, LIMITED, MISSED, UNCLEAR, UNMEASURED)
    yield "| | targets | reached | at the limit | missed | unclear | not measured |"
    yield "|---|---|---|---|---|---|---|"
    groups = dict.fromkeys(one.target.group for one in verdicts)
    for group in [*groups, ""]:
        chosen = [one for one in verdicts if group in ("", one.target.group)]
        counts = [sum(one.word == word for one in chosen) for word in words]
        cells = [group or "all", *map(str, [len(chosen), *counts])]
        yield f"| {' | '.join(cells if group else [f'**{cell}**' for cell in cells])} |"
    yield ""


def _misses(verdicts: Sequence[Verdict], why: Mapping[str, str]) -> Iterator[str]:
    """Yield what is not reached: at the limit, and the others grouped by reason."""
    limited: list[str] = []
    missed: dict[str, list[str]] = {}
    for one in verdicts:
        if one.word in (LIMITED, MISSED):
            assert one.share is not None
            figures = "; ".join(filter(None, (one.share.text(), one.roofline)))
            text = f"{name_of(one.target)} ({figures})"
            group = (
                missed.setdefault(reason(one.target, why), []) if one.word == MISSED else limited
            )
            group.append(text)
    if limited:
        yield (
            "At the limit: measured value over target, and the fraction of the machine's limit "
            f"measured in the same rounds: {', '.join(limited)}."
        )
        yield ""
    if missed:
        yield (
            "Missed: measured value over target, the fraction of the machine's limit measured in "
            "the same rounds, and why:"
        )
        yield ""
    for text, names in sorted(missed.items(), key=lambda one: one[0] == ""):
        yield f"- {', '.join(names)}: {text or 'the reason is not known'}."
    yield ""
    unmeasured = [one.target for one in verdicts if one.word == UNMEASURED]
    on_gpu = [one.word for one in verdicts if one.target.device != "cpu"]
    if on_gpu and set(on_gpu) == {UNMEASURED}:
        yield (
            "Nothing was measured on a GPU; its targets are listed below, and [gpu.md](gpu.md) "
            "describes how to measure them."
        )
        unmeasured = [target for target in unmeasured if target.device == "cpu"]
    names = [name_of(target) for target in unmeasured]
    if names:
        yield f"Not measured either: {', '.join(names)}."
    yield ""


def _targets(verdicts: Sequence[Verdict]) -> Iterator[str]:
    yield (
        "*By* is the measured value over the target. Two figures are the interquartile range of "
        "disturbed samples."
    )
    group = ""
    for one in verdicts:
        if one.target.group != group:
            group = one.target.group
            yield ""
            yield f"### {group}"
            yield ""
            if group == "On a GPU":
                yield "On an H200-class card; best peer torch, torch_scatter, FBGEMM, CuPy, cuDNN."
                yield ""
            yield "| work | case | target | measured | reached | by | against |"
            yield "|---|---|---|---|---|---|---|"
        target = one.target
        word = f"**{one.word}**" if one.word == MISSED else one.word
        share = "" if one.share is None else one.share.text()
        yield (
            f"| {target.op} | {target.case} | {asked(target)} | {one.found} | {word} | {share} "
            f"| {one.against} |"
        )
    yield ""


def asked(target: Target) -> str:
    """Return a target in words."""
    parts = []
    if target.ratio is not None:
        parts.append(f"{target.ratio:.3g}x" + (f" {target.peer}" if target.peer else ""))
    if target.fraction is not None:
        parts.append(f"{target.fraction:.0%} of limit")
    if target.padded is not None:
        parts.append(f"{target.padded:g} x padding ratio")
    if target.spread is not None:
        parts.append(f"time a byte within {target.spread:g}x")
    if target.most is not None:
        parts.append(f"at most {target.most:g}x")
    return ", ".join(parts)


def _machine(reports: Collection[Mapping[str, Any]]) -> Iterator[str]:
    machines = {json.dumps(report["machine"], sort_keys=True) for report in reports}
    yield f"## The machine{'s' * (len(machines) > 1)}"
    yield ""
    for text in sorted(machines):
        one = json.loads(text)
        yield from _one_machine(one, [r for r in reports if r["machine"] == one])


def _one_machine(one: Mapping[str, Any], reports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the hardware, software and limits of a machine, and what could not be measured."""
    memory = one["memory_bytes"] / 2**30
    gpu = ""
    if "gpu" in one:
        gpu = f" {one['gpu']}, {one['gpu_memory_bytes'] / 2**30:.0f} GiB."
    yield f"{one['cpu']}, {one['usable_cores']} cores, {memory:.0f} GiB, {one['system']}.{gpu}"
    versions: dict[str, str] = {}
    for report in reports:
        versions.update(report["versions"])
    yield ", ".join(f"{name} {number}" for name, number in versions.items()) + "."
    yield ""
    for threads in ("1", str(THREADS), "cuda"):
        for name in ("read", "write", "copy", "fma", "gemm numpy", "gemm torch", "gemm"):
            limits = [report["limits"].get(threads, {}) for report in reports]
            rates = [found[name] for found in limits if name in found]
            if rates:
                unit = "FLOP" if name[0] in "fg" else "B"
                lowest, highest = rate_text(min(rates), unit), rate_text(max(rates), unit)
                many = "s" * (threads != "1")
                by = "the GPU" if threads == "cuda" else f"{threads} thread{many}"
                yield f"- {name}, {by}: {lowest} to {highest} of {len(rates)} runs"
    yield ""
    missing = {name: why for report in reports for name, why in report["missing"].items()}
    for name, why in missing.items():
        if name not in versions:
            yield f"Not installed: {name} ({why})."
    left_out: dict[str, list[str]] = {}
    for report in reports:
        for task, skipped in report["skipped"].items():
            for name, why in skipped.items():
                left_out.setdefault(f"{name}: {why}", []).append(task)
    if left_out:
        yield "Left out, because they failed or took too long:"
        yield ""
        yield from (f"- {what} ({', '.join(tasks)})" for what, tasks in left_out.items())
        yield ""
    failed = {name: why for report in reports for name, why in report.get("failed", {}).items()}
    if failed:
        yield "Failed:"
        yield ""
        yield from (f"- {name}: {why}" for name, why in failed.items())
        yield ""


def _commands(reports: Reports) -> Iterator[str]:
    yield "## The commands"
    yield ""
    yield (
        "In an environment with the built package of `lod` (`pip install .`) and the peers, on an "
        "otherwise idle machine, "
        "`python -m tests.benchmarks.measure` writes all reports and "
        "`python -m tests.benchmarks.page` this page. The command of each report:"
    )
    yield ""
    yield from (f"    {report['command']}" for report in reports.values())
    for name in SCRIPTS:
        yield f"    {shlex.join(command_of(name, FOLDER, quick=False))}"


def main() -> int:
    """Write a page, or check it; say which misses are without a reason."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--intel", action="store_true", help="the page of an Intel processor")
    parser.add_argument("--folder", type=Path, help="of the reports")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    kept, target = (INTEL_FOLDER, INTEL_PAGE) if options.intel else (FOLDER, PAGE)
    target = options.page or target
    why = json.loads((kept / f"{WHY}.json").read_bytes())
    reports = read_reports(options.folder or kept)
    if not (options.check or options.intel):
        pictures.draw(reports, rows_of(reports), FOLDER)
    text = (intel_page if options.intel else page)(reports, why)
    if options.check:
        return int(target.read_text() != text)
    target.write_text(text)
    if "the reason is not known" in text:
        print(f"some targets are missed without a reason in {WHY}.json", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
