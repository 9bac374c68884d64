"""The faults of tests/cuda/mutate.py apply to the current kernels."""

from __future__ import annotations

import pytest

from tests.cuda.hot import HEADERS, ROOT, SOURCES
from tests.cuda.mutants import MUTANTS, Mutant

TEXTS = {path: path.read_text("utf-8") for path in (*SOURCES.values(), *HEADERS)}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.kind} {mutant.old[:20]!r}")
def test_a_fault_is_planted_in_one_place(mutant: Mutant) -> None:
    assert sum(text.count(mutant.old) for text in TEXTS.values()) == 1
    assert mutant.new != mutant.old
    assert (ROOT / mutant.tests).exists()
