"""docs/benchmarks.md is what its reports say, and its verdicts are right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lodcli.bench.cases import CONVERT_CASES, KERNEL_CASES, RNN_CASES
from lodcli.bench.convert import CONVERSIONS
from lodcli.bench.ops import BENCH_OPS
from lodcli.bench.rnn import CELLS, PASSES
from tests.benchmarks.history import Commit, changes
from tests.benchmarks.page import FOLDER, PAGE, page, read_reports, verdict
from tests.benchmarks.targets import Target, targets


def test_the_page_is_written_from_its_reports() -> None:
    why = json.loads((FOLDER / "why.json").read_bytes())
    expected = page(read_reports(FOLDER), why)
    assert PAGE.read_text() == expected, "run python -m tests.benchmarks.page"


def test_every_target_can_be_measured() -> None:
    known = {("kernels", op, case) for op in BENCH_OPS for case in KERNEL_CASES}
    known |= {("rnn", f"{c} {p}", case) for c in CELLS for p in PASSES for case in RNN_CASES}
    known |= {("convert", op, case) for op in CONVERSIONS for case in CONVERT_CASES}
    assert {(one.bench, one.op, one.case) for one in targets()} <= known


def row(library: str, median: float, **more: Any) -> dict[str, Any]:
    return {
        "bench": "kernels", "op": "sum", "case": "B1", "threads": 2, "library": library,
        "label": "", "ours": library == "lod", "allocates": True, "median": median,
        "fraction_of_limit": 0.8, "ratio_to_best_peer": None, "best_peer": None, "limit": "read",
        "parameters": {}, **more,
    }  # fmt: skip


OURS = row("lod", 2.0, ratio_to_best_peer=1.5)
INTO = row("lod", 1.0, ratio_to_best_peer=3.0, label="out=", allocates=False)
PEERS = [row("torch", 3.0), row("numpy", 6.0)]


@pytest.mark.parametrize(
    ("target", "rows", "expected"),
    [
        (Target("kernels", "sum", "B1", 2.5), [OURS, INTO, *PEERS], (True, "3.00x", 1.2)),
        (Target("kernels", "sum", "B1", 2.5), [OURS, *PEERS], (False, "1.50x", 0.6)),
        (
            Target("kernels", "sum", "B1", 2.5, 0.9),
            [INTO, *PEERS],
            (False, "3.00x, 80%", 0.8 / 0.9),
        ),
        (Target("kernels", "sum", "B1", 5, peer="numpy"), [INTO, *PEERS], (True, "6.00x", 1.2)),
        (Target("kernels", "sum", "B1", 1, peer="paddle"), [INTO, *PEERS], (None, "", None)),
        (Target("kernels", "sum", "B2", 2.5), [OURS, *PEERS], (None, "", None)),
        (Target("kernels", "sum", "B1", 2.5), [{**OURS, "threads": 1}], (None, "", None)),
    ],
)
def test_a_target_is_reached_only_if_all_it_asks_is(
    target: Target, rows: list[dict[str, Any]], expected: tuple[bool | None, str, float | None]
) -> None:
    ok, found, share = verdict(target, rows)
    assert (ok, found) == expected[:2]
    assert share == (expected[2] if expected[2] is None else pytest.approx(expected[2]))


def test_padding_is_judged_by_the_engine_on_padded_input() -> None:
    target = Target("kernels", "sum", "B1", padded=0.9)
    plain = {**OURS, "parameters": {"padding_ratio": "4.0"}}
    padded = row("lod", 7.4, label="on padded input")
    assert verdict(target, [plain, padded])[:2] == (True, "0.93")
    assert verdict(target, [plain, {**padded, "median": 7.0}])[:2] == (False, "0.88")
    assert verdict(target, [plain]) == (None, "", None)


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
