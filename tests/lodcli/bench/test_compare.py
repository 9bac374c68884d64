"""Comparing reports: statistics against SciPy's, verdicts and exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.bench.report.compare import chance_of_slower, compared
from lodcli.kernels.errors import InvalidDataError
from tests.lodcli.conftest import Lod


@pytest.mark.parametrize(("n", "m"), [(3, 3), (5, 8), (11, 11), (12, 7), (30, 25), (13, 4)])
def test_the_chance_is_that_of_scipy(n: int, m: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(n * m)
    method = "exact" if max(n, m) <= 12 else "asymptotic"
    for shift in (-0.5, 0.0, 0.7):
        old, new = rng.normal(5, 1, n).tolist(), rng.normal(5 + shift, 1, m).tolist()
        expected = stats.mannwhitneyu(new, old, alternative="greater", method=method).pvalue
        assert chance_of_slower(old, new) == pytest.approx(expected, rel=1e-9)


def test_the_chance_with_ties_is_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    old, new = [1.0, 1.0, 2.0, 2.0, 3.0], [1.0, 2.0, 2.0, 4.0, 4.0, 4.0]
    expected = stats.mannwhitneyu(new, old, alternative="greater", method="asymptotic").pvalue
    assert chance_of_slower(old, new) == pytest.approx(expected, rel=1e-9)
    assert chance_of_slower([1.0] * 4, [1.0] * 4) == 1.0


def report(**times: list[float]) -> dict[str, Any]:
    rows = [
        {"command": name, "times": each, "ours": name != "peer"} for name, each in times.items()
    ]
    return {"schema_version": 1, "machine": {"cpu": "one"}, "results": rows}


STEADY = [1.00, 1.01, 0.99, 1.02, 0.98, 1.005]


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.0, "same"), (1.03, "same"), (1.2, "slower"), (0.8, "faster")]
)
def test_a_change_counts_beyond_chance_and_threshold(factor: float, verdict: str) -> None:
    new = [time * factor for time in STEADY]
    (change,) = compared(report(sum=STEADY), report(sum=new), threshold=0.05, alpha=0.01)
    assert change.verdict == verdict
    assert change.ratio == pytest.approx(factor)


def test_wall_time_is_not_compared_with_processor_time() -> None:
    new = report(sum=STEADY)
    new["results"][0]["clock"] = "processor"
    assert len(compared(new, new, threshold=0.05, alpha=0.01)) == 1
    with pytest.raises(InvalidDataError, match="old report has wall time and the new one proc"):
        compared(report(sum=STEADY), new, threshold=0.05, alpha=0.01)


def test_a_large_change_of_few_or_scattered_samples_is_no_verdict() -> None:
    few = compared(report(sum=[1.0, 1.1]), report(sum=[2.0, 2.1]), threshold=0.05, alpha=0.01)
    wild = [0.5, 3.0, 0.6, 2.5, 0.7, 2.9]
    scattered = compared(report(sum=STEADY), report(sum=wild), threshold=0.05, alpha=0.01)
    assert [few[0].verdict, scattered[0].verdict] == ["same", "same"]


def test_peers_and_what_only_one_report_has_do_not_count() -> None:
    old = report(sum=STEADY, peer=STEADY, gone=STEADY)
    new = report(sum=STEADY, peer=[9.0] * 6, fresh=STEADY)
    assert [one.command for one in compared(old, new, threshold=0, alpha=1)] == ["sum"]
    with pytest.raises(InvalidDataError, match="in common"):
        compared(report(a=STEADY), report(b=STEADY), threshold=0, alpha=1)


def measured(
    rng: np.random.Generator, code: float, *, machine: float, busy: float
) -> dict[str, Any]:
    """A report of eleven samples as a shared machine gives them.

    Each lasts `code` times `machine` and some per cent; a share of `busy` lasts up to three
    times as long. The limit's loop, beside it, knows the machine but not the code.
    """

    def times(work: float) -> list[float]:
        found = work * machine * rng.lognormal(0, 0.03, 11)
        found = found * np.where(rng.random(11) < busy, rng.uniform(1, 3, 11), 1)
        return [float(time) for time in found]

    row = {"command": "sum", "ours": True, "noisy": False, "dropped": 0, "samples": 11}
    return {"results": [row | {"times": times(code), "limit_times": times(1.0)}]}


@pytest.mark.parametrize(("busy", "least_found"), [(0.0, 300), (0.3, 180)])
@pytest.mark.parametrize("machine", [1.0, 1.3])
def test_noise_is_no_regression_and_half_as_slow_again_is(
    machine: float, busy: float, least_found: int
) -> None:
    rng = np.random.default_rng(3)
    verdicts: dict[float, list[str]] = {1.0: [], 1.5: []}
    for code, found in verdicts.items():
        for _ in range(300):
            old = measured(rng, 1.0, machine=1.0, busy=busy)
            new = measured(rng, code, machine=machine, busy=busy)
            (change,) = compared(old, new, threshold=0.05, alpha=0.01)
            found.append(change.verdict)
    assert verdicts[1.0].count("slower") <= 6
    assert verdicts[1.5].count("slower") >= least_found


def test_a_change_between_disturbed_samples_is_unclear(lod: Lod, tmp_path: Path) -> None:
    slower = report(sum=[1.5 * time for time in STEADY])
    slower["results"][0] |= {"dropped": 7, "samples": 6}
    (change,) = compared(report(sum=STEADY), slower, threshold=0.05, alpha=0.01)
    assert change.verdict == "unclear"
    for name, content in (("old", report(sum=STEADY)), ("new", slower)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    done = lod("bench", "--compare", tmp_path / "old.json", tmp_path / "new.json")
    assert done.code == 0
    assert "1 measurement of 1 changed while the machine was busy" in done.stderr


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    slower = report(sum=[1.3 * time for time in STEADY])
    slower["machine"] = {"cpu": "other"}
    for name, content in (("old", report(sum=STEADY)), ("slow", slower)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "newer.json").write_text(json.dumps({**report(), "schema_version": 9}))
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "binary.json").write_bytes(b"\x89" * 1000)
    (tmp_path / "deep.json").write_text("[" * 200_000)
    (tmp_path / "empty.json").write_text(json.dumps(report(sum=[])))
    return tmp_path


def test_a_regression_ends_with_1_after_the_table(lod: Lod, reports: Path) -> None:
    done = lod("bench", "--compare", reports / "old.json", reports / "slow.json")
    assert done.code == 1
    assert "slower       1.300" in done.stdout
    assert "different machines" in done.stderr
    assert "1 measurement of 1 slower by more than 5%: sum" in done.stderr
    done = lod("bench", "--compare", reports / "slow.json", reports / "old.json", "--json")
    assert (done.code, json.loads(done.stdout)["changes"][0]["verdict"]) == (0, "faster")
    options = ("--threshold", "40", "--quiet")
    assert lod("bench", "--compare", reports / "old.json", reports / "slow.json", *options).clean


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("other.json", 1, "is not a report of lod bench"),
        ("broken.json", 1, "is not a report of lod bench"),
        ("binary.json", 1, "is not a report of lod bench (UnicodeDecodeError)"),
        ("deep.json", 1, "is not a report of lod bench"),
        ("newer.json", 1, "expected schema_version 1, found 9"),
        ("empty.json", 1, "sum: no times"),
        ("missing.json", 3, "no such file"),
    ],
)
def test_an_invalid_report_is_an_error(
    lod: Lod, reports: Path, name: str, code: int, message: str
) -> None:
    done = lod("bench", "--compare", reports / "old.json", reports / name)
    assert (done.code, done.stdout) == (code, "")
    assert message in done.stderr
    assert len(done.stderr) < 300


def test_compare_stands_alone(lod: Lod, reports: Path) -> None:
    done = lod("bench", "--compare", reports / "old.json", reports / "old.json", "kernels")
    assert done.code == 2
    assert lod("bench").code == 2
    done = lod("bench", "--json", "kernels", "--op", "sum")
    assert (done.code, done.stdout) == (2, "")
    assert "--json goes after kernels" in done.stderr
    done = lod("bench", "--threshold", "3", "kernels", "--op", "sum")
    assert done.code == 2
    assert "--threshold needs --compare OLD.json NEW.json" in done.stderr
