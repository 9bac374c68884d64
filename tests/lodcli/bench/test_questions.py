"""The questions: every way answers the same, and padding costs what its ratio says."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lodcli.bench.runner import run_task
from lodcli.bench.suites.cases import QUESTION_CASES
from lodcli.bench.suites.questions import QUESTIONS
from tests.lodcli.bench.small import QUICK, small_case
from tests.lodcli.conftest import Lod
from tests.slow import slow

pytestmark = pytest.mark.usefixtures("compiled")
ASKED = [(question, op) for question, ops in QUESTIONS.items() for op in ops]


@pytest.mark.parametrize(
    ("question", "op"), [slow(*each) if each == ("padding", "lstm") else each for each in ASKED]
)
def test_every_way_gives_the_same(question: str, op: str) -> None:
    task = QUESTIONS[question][op](op, small_case(3, base=QUESTION_CASES["skew 0.8"]))
    found = run_task(task, QUICK, threads=1)
    assert not found["skipped"]
    names = [row["library"] for row in found["rows"]]
    assert names[0] == "lod"
    assert len(names) >= 2
    assert found["rows"][0]["best_peer"] in names[1:]


def test_a_case_without_padding_says_so() -> None:
    task = QUESTIONS["padding"]["sum"]("sum", small_case(3, lengths="fixed:10"))
    assert task.parameters["padding_ratio"] == 1.0
    skewed = small_case(3, rows=300)
    lengths = skewed.draw_lengths()
    task = QUESTIONS["padding"]["sum"]("sum", skewed)
    ratio = lengths.max() * lengths.size / lengths.sum()
    assert task.parameters["padding_ratio"] == pytest.approx(ratio, abs=1e-3)


def test_upper_items_cover_all_rows_once() -> None:
    task = QUESTIONS["levels"]["access"]("access", small_case(3, rows=300))
    result = task.candidates[0].result
    assert result is not None
    (found,) = result()
    assert found.shape == (1000, 2)
    assert np.all(found[:, 0] <= found[:, 1])
    assert (found.min(), found.max()) == (0, 300)


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_is_a_command(lod: Lod, question: str) -> None:
    assert lod("bench", question, "--op", "nonsense").code == 2
    assert "Examples:" in lod("bench", question, "--help").stdout


def test_a_question_is_answered_in_json(shell: Lod) -> None:
    done = shell(
        "lod bench levels --sequences 80 --features 2 --rounds 1 --budget 0 --threads 1 --json"
    )
    assert (done.code, done.stderr) == (0, "")
    rows = json.loads(done.stdout)["results"]
    assert [row["library"] for row in rows] == ["lod", "absolute", "summed"]
    assert rows[0]["bench"] == "levels"
