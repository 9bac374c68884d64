"""docs/benchmarks.md matches its reports, and its verdicts are correct."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest

from lodcli.bench.suites.cases import (
    CONVERT_CASES,
    FILE_CASES,
    KERNEL_CASES,
    RNN_CASES,
    SLICE_SWEEP,
)
from lodcli.bench.suites.convert import CONVERSIONS
from lodcli.bench.suites.files import IO_OPS
from lodcli.bench.suites.ops import BENCH_OPS
from lodcli.bench.suites.plan import Plan
from lodcli.bench.suites.rnn import CELLS, PASSES
from lodcli.commands.bench.command import command as bench
from lodcli.kernels.ops.registry import OPS
from lodcli.shell.group import group
from tests.benchmarks import growth
from tests.benchmarks.answers import Cell, answers, cells_of, in_words
from tests.benchmarks.history import Commit, changes
from tests.benchmarks.measure import PARTS, SCRIPTS, STARTUP, chosen, command_of, measure
from tests.benchmarks.page import (
    FOLDER,
    INTEL_FOLDER,
    INTEL_PAGE,
    PAGE,
    WHY,
    intel_page,
    page,
    read_reports,
    reason,
    rows_of,
)
from tests.benchmarks.pictures import PICTURES, described
from tests.benchmarks.small_calls import small_calls
from tests.benchmarks.targets import Target, targets
from tests.benchmarks.verdicts import (
    LIMITED,
    MISSED,
    REACHED,
    UNCLEAR,
    UNMEASURED,
    Between,
    verdict,
)


def test_the_page_is_written_from_its_reports() -> None:
    why = json.loads((FOLDER / "why.json").read_bytes())
    expected = page(read_reports(FOLDER), why)
    assert PAGE.read_text() == expected, "run python -m tests.benchmarks.page"


def test_the_page_of_an_intel_processor_is_written_from_its_reports() -> None:
    why, reports = json.loads((INTEL_FOLDER / "why.json").read_bytes()), read_reports(INTEL_FOLDER)
    expected = intel_page(reports, why)
    assert INTEL_PAGE.read_text() == expected, "run python -m tests.benchmarks.page --intel"
    assert "the reason is not known" not in expected
    machines = {report["machine"]["cpu"] for report in reports.values() if "results" in report}
    assert all(name.startswith("Intel") for name in machines)


def test_the_pictures_show_the_reports() -> None:
    reports = read_reports(FOLDER)
    found = described(reports, rows_of(reports))
    assert set(found) == set(PICTURES)
    for name, figures in found.items():
        picture = ElementTree.parse(FOLDER / f"{name}.svg")
        said = picture.find(".//{http://purl.org/dc/elements/1.1/}description")
        assert said is not None
        assert said.text == figures, "run python -m tests.benchmarks.page"


def test_the_reports_are_those_that_the_script_makes() -> None:
    assert {path.stem for path in FOLDER.rglob("*.json")} <= {*PARTS, WHY}


# Suffixes of cases with rounded products.
_ROUNDED = (" tf32", " float16", " bfloat16")


def test_every_target_can_be_measured() -> None:
    sliced = [f"rows={float(rows):g}" for rows in SLICE_SWEEP.partition("=")[2].split(",")]
    known = {("kernels", op, case) for op in BENCH_OPS for case in KERNEL_CASES}
    cases = [f"{case}{kind}" for case in RNN_CASES for kind in ("", *_ROUNDED)]
    known |= {("rnn", f"{c} {p}", case) for c in CELLS for p in PASSES for case in cases}
    known |= {("io", op, case) for op in IO_OPS for case in FILE_CASES}
    known |= {("slice", "open_and_sequence", case) for case in sliced}
    known |= {("convert", op, case) for op in CONVERSIONS for case in CONVERT_CASES}
    own = [one for one in targets() if not (one.spread or one.most)]
    assert {(one.bench, one.op, one.case) for one in own} <= known


def test_every_target_is_measured_by_a_part() -> None:
    lines = [f"{words} " for words in PARTS.values()]
    for one in targets():
        if one.most:
            continue
        by = "--threads 2" if one.device == "cpu" else "--device cuda"
        op = f"--cell {one.op.split()[0]}" if one.bench == "rnn" else one.op
        case, _, kind = one.case.partition(" ")
        found = [
            line
            for line in lines
            if line.startswith(one.bench)
            and by in line
            and (one.bench in ("convert", "io", "slice") or case in line)
            and (f"--precision {kind}" in line if kind else "--precision" not in line)
            and (one.bench != "kernels" or one.op in line)
        ]
        assert found, op


def test_growth_is_measured_of_every_command_that_reads_rows() -> None:
    measured = {line.split()[0] for lines in growth.COMMANDS.values() for line in lines}
    assert {*measured, *growth.WITHOUT_ROWS} == set(group.list_commands(click.Context(group)))
    assert not measured & set(growth.WITHOUT_ROWS)


@pytest.mark.slow
def test_growth_measures_time_and_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    growth.make_files(1000)
    before = sorted(os.listdir())
    for command in ("slice a.lod.h5 1: -o OUT.lod.h5", "shard a.lod.h5 OUT --shards 2"):
        seconds, peak = growth.measure(command)
        assert seconds > 0
        assert 10 << 20 < peak < 200 << 20
    assert sorted(os.listdir()) == before
    with pytest.raises(SystemExit, match="lod slice none 1: exit 3"):
        growth.measure("slice none 1")


def test_each_part_is_a_command_that_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Plan] = []
    monkeypatch.setattr("lodcli.kernels.platform.machine.usable_cores", lambda: 2)
    monkeypatch.setattr(
        "lodcli.commands.bench.showing.run_and_show", lambda _, plan, __: plans.append(plan)
    )
    for name in PARTS:
        words = command_of(name, FOLDER, quick=False)
        assert words[-2:] == ["-o", f"docs/benchmarks/{name}.json"]
        if name not in SCRIPTS:
            bench.main(words[2:], prog_name="lod bench", standalone_mode=False)
    assert len(plans) == len(PARTS) - len(SCRIPTS)
    assert all(plan.cases for plan in plans)


def test_the_quick_form_measures_little() -> None:
    words = command_of("linear-rows", Path("/elsewhere"), quick=True)
    assert words[words.index("--sweep") + 1] == "rows=1e4"
    assert words[-6:] == ["--rounds", "1", "--budget", "0", "--rows", "20000"]
    assert "/elsewhere/linear-rows.json" in words
    words = command_of("gpu-rnn-large", Path("/elsewhere"), quick=True)
    assert words[-6:] == ["--rounds", "1", "--budget", "0", "--rows", "2000"]


def test_a_part_ends_when_the_time_is_up(tmp_path: Path) -> None:
    told = measure(STARTUP, tmp_path, quick=True, threads=1, limit_seconds=0.0)
    assert told == "was not done in the 0 s that were left"
    assert not list(tmp_path.iterdir())


def test_parts_are_chosen_by_patterns() -> None:
    on_gpu = chosen(["gpu-*"])
    assert [*chosen([]), *on_gpu] == list(PARTS)
    assert all("--device cuda" in PARTS[name] for name in on_gpu)
    assert not any("cuda" in PARTS[name] for name in chosen([]))
    assert chosen(["rnn-b", "linear-*"]) == [
        "rnn-b",
        *("linear-rows", "linear-sequences", "linear-skew"),
    ]
    with pytest.raises(SystemExit, match="no such part"):
        chosen(["nonsense"])


def row(library: str, median: float, **more: Any) -> dict[str, Any]:
    return {
        "bench": "kernels", "op": "sum", "case": "B1", "threads": 2, "library": library,
        "label": "", "ours": library == "lod", "allocates": True, "median": median,
        "min": 0.9 * median, "max": 1.5 * median, "dropped": 0,
        "times": [share * median for share in (0.9, 0.9, 1, 1.5, 1.5)],
        "noisy": False, "fraction_of_limit": 0.8, "ratio_to_best_peer": None, "best_peer": None,
        "limit": "read", "parameters": {}, "useful": 1.0, **more,
    }  # fmt: skip


OURS = row("lod", 2.0, best_peer="torch")
INTO = row("lod", 1.0, best_peer="torch", label="out=", allocates=False)
PEERS = [row("torch", 3.0), row("numpy", 6.0)]


@pytest.mark.parametrize(
    ("target", "rows", "word", "found", "share"),
    [
        (Target("kernels", "sum", "B1", 2.5), [OURS, INTO, *PEERS], REACHED, "3.00x", 1.2),
        (Target("kernels", "sum", "B1", 2.5), [OURS, *PEERS], MISSED, "1.50x", 0.6),
        (
            Target("kernels", "sum", "B1", 2.5, 0.9),
            [INTO, *PEERS],
            *(MISSED, "3.00x, 80%", 0.8 / 0.9),
        ),
        (Target("kernels", "sum", "B1", 5, peer="numpy"), [INTO, *PEERS], REACHED, "6.00x", 1.2),
        (Target("kernels", "sum", "B1", 1, peer="paddle"), [INTO, *PEERS], UNMEASURED, "", None),
        (Target("kernels", "sum", "B2", 2.5), [OURS, *PEERS], UNMEASURED, "", None),
        (Target("kernels", "sum", "B1", 2.5), [{**OURS, "threads": 1}], UNMEASURED, "", None),
        (
            Target("kernels", "sum", "B1", 2.5, device="cuda"),
            [OURS, *PEERS],
            *(UNMEASURED, "", None),
        ),
        (
            Target("kernels", "sum", "B1", 2.5, device="cuda"),
            [{**one, "device": "cuda", "threads": 1} for one in (INTO, *PEERS)] + [OURS],
            *(REACHED, "3.00x", 1.2),
        ),
    ],
)
def test_a_target_is_reached_only_if_all_it_asks_is(
    target: Target, rows: list[dict[str, Any]], word: str, found: str, share: float | None
) -> None:
    got = verdict(target, rows)
    assert (got.word, got.found) == (word, found)
    if share is None:
        assert got.share is None
    else:
        assert got.share is not None
        assert [got.share.low, got.share.high] == pytest.approx([share, share])


def test_a_verdict_says_how_near_the_limit_the_work_came() -> None:
    target = Target("kernels", "sum", "B1", 2.5)
    assert verdict(target, [OURS, *PEERS]).roofline == "80% of read"
    assert verdict(target, [{**OURS, "fraction_of_limit": None}, *PEERS]).roofline == ""


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"fraction_of_limit": 0.9}, LIMITED),
        ({"fraction_of_limit": 0.89}, MISSED),
        ({"fraction_of_limit": None}, MISSED),
        # If disturbed, three quarters of the samples must be that near, not the median.
        ({"fraction_of_limit": 1.0, "noisy": True}, MISSED),
        ({"fraction_of_limit": 1.4, "noisy": True}, LIMITED),
        ({"fraction_of_limit": 1.0, "median": 1.0}, REACHED),
    ],
)
def test_a_missed_target_is_at_the_limit_if_the_work_is(changed: dict[str, Any], word: str) -> None:
    assert verdict(Target("kernels", "sum", "B1", 2.5), [{**OURS, **changed}, *PEERS]).word == word


@pytest.mark.parametrize(
    ("asked", "word"), [(1.9, REACHED), (2.1, UNCLEAR), (3.2, UNCLEAR), (3.4, MISSED)]
)
def test_disturbed_samples_prove_what_all_of_them_say(asked: float, word: str) -> None:
    # lod takes 0.9 to 1.5, the peer 3: 2 to 3.33 times as long.
    for weak in ({"noisy": True}, {"dropped": 6}):
        got = verdict(Target("kernels", "sum", "B1", asked), [{**INTO, **weak}, *PEERS])
        assert (got.word, got.found) == (word, "2.00x to 3.33x")


def test_padding_is_judged_by_the_engine_on_padded_input() -> None:
    target = Target("kernels", "sum", "B1", padded=0.9)
    plain = {**OURS, "parameters": {"padding_ratio": "4.0"}}
    padded = row("lod", 7.4, label="on padded input")
    found = [verdict(target, [plain, each]) for each in (padded, {**padded, "median": 7.0})]
    assert [(one.word, one.found) for one in found] == [(REACHED, "0.93"), (MISSED, "0.88")]
    assert verdict(target, [plain]).word == UNMEASURED


def test_on_a_gpu_padding_is_judged_by_cudnn() -> None:
    target = Target("kernels", "sum", "B1", padded=1.0, device="cuda")
    there = {"device": "cuda", "parameters": {"padding_ratio": "4.0"}}
    plain, own = {**OURS, **there}, {**row("lod", 6.0, label="on padded input"), **there}
    assert verdict(target, [plain, own]).word == UNMEASURED
    got = verdict(target, [plain, own, {**row("torch", 8.4, label="padded"), **there}])
    assert (got.word, got.found, got.against) == (REACHED, "1.05", "torch padded")


def test_a_sweep_is_judged_by_its_time_a_byte() -> None:
    target = Target("kernels", "sum", "rows", spread=1.5)
    cases = [
        {**OURS, "case": f"rows={n}", "useful": n, "median": n * cost}
        for n, cost in ((10, 3.0), (100, 2.5), (1000, 2.2))
    ]
    got = verdict(target, cases)
    assert (got.word, got.found) == (REACHED, "1.36x")
    assert got.against == "slowest at 10, fastest at 1000"
    cases[0]["median"] *= 2
    assert verdict(target, cases).word == MISSED
    assert verdict(target, cases[:1]).word == UNMEASURED


def test_a_command_is_compared_with_its_peer() -> None:
    target = Target("startup", "lod --help / import click", "", most=2.0)
    startup = [{"name": "lod --help / import click", "ratio": 1.25}]
    got = verdict(target, [], startup)
    assert (got.word, got.found, got.against) == (REACHED, "1.25x", "import click")
    assert verdict(target, [], []).word == UNMEASURED


def test_the_first_pattern_that_fits_says_why() -> None:
    why = {"kernels sum *": "first", "kernels * B1": "second"}
    assert reason(Target("kernels", "sum", "B1"), why) == "first"
    assert reason(Target("kernels", "max", "B1"), why) == "second"
    assert reason(Target("kernels", "max", "B2"), why) == ""


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (Between(0.95, 1.05), "takes as long"),
        (Between(0.5, 0.5), "takes 0.5 times as long"),
        (Between(2.0, 3.5), "takes 2.0 to 3.5 times as long"),
        (Between(40.2, 40.2), "takes 40 times as long"),
        (None, "was not measured"),
    ],
)
def test_a_ratio_in_words(ratio: Between | None, words: str) -> None:
    assert in_words(ratio) == words


def test_an_answer_follows_the_figures() -> None:
    rows = [
        row(who, seconds, bench="levels", op="access", case="skew 0.8")
        for who, seconds in (("lod", 1.0), ("absolute", 0.7), ("summed", 20.0))
    ]
    (cell,) = cells_of("levels", rows)
    ratios = {"absolute": Between(0.7, 0.7), "summed": Between(20, 20)}
    assert cell == Cell("access", 0.8, None, ratios)
    text = " ".join(answers(rows))
    assert "absolute offsets takes 0.7 times as long as by nested offsets" in text
    assert "by sums of lengths it takes 20 times as long" in text


def test_the_history_says_which_commit_changed_what() -> None:
    def commit(name: str, seconds: float | None) -> Commit:
        times = [seconds * (1 + n / 1000) for n in range(8)] if seconds else []
        rows = [{"command": "kernels sum", "times": times, "ours": True}]
        report = {"results": rows, "machine": {}} if seconds else None
        return Commit(name, name, Path("nowhere"), report, "no lod bench there")

    commits = [commit("first", 1.0), commit("broken", None), commit("last", 0.5)]
    assert list(changes(commits, 0.05, 0.01)) == [
        "first",
        "      1.00 s  kernels sum",
        "broken",
        "  not measured: no lod bench there",
        "last",
        "      502 ms  kernels sum  faster (0.50 of before)",
    ]


def test_small_calls_are_those_of_every_op_and_gradient(tmp_path: Path) -> None:
    calls = small_calls(tmp_path)
    assert {f"op.{name}" for name in OPS} <= set(calls)
    assert {f"gradient.{name}" for name, entry in OPS.items() if entry.gradient} <= set(calls)
    for call in calls.values():
        call()
