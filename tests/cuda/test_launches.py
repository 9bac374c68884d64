"""How often ops and gradients launch something on a GPU, and whether they wait for it.

Counted by the stand-in for cupy, where every launch and every call of cupy that needs one is noted;
of short sequences, whose index is on the device. Longer ones take a launch more for each level of
partial results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.commands.apply.arguments import described
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cuda.test_public import INDEX_OPS, moved, rows_for, there
from tests.kernels.ops import gradient_families
from tests.kernels.ops.gradient_cases import CASES
from tests.kernels.ops.gradient_parts import Setting, plain
from tests.kernels.ops.op_arguments import arguments
from tests.kernels.ops.test_gradients import LODS, arrays_of

cupy: Any = pytest.importorskip("cupy")
counts: Any = pytest.importorskip("cupy.counts", reason="only the stand-in for cupy counts")
pytestmark = pytest.mark.gpu

MOST = 2
# What has another number of rows than its input: its index is waited for, in main memory. Rows are
# marked, then placed; the unique ones are sorted first.
FILTERS = {"ctc_align": 2, "deduplicate": 2, "erase": 2, "unique": 3, "unique_counts": 3}
# Invalid rows are an error, which requires reading them on the device first.
CHECKED = {"scatter", "searchsorted"}
OPS_THAT_WAIT = FILTERS.keys() | CHECKED

GRADIENT_LIMITS = {
    # The forward pass, then queries, then keys.
    "attention": 3,
    # Contexts, the two products with them, and what rows gather.
    **{"conv": 4, "conv after, stride": 4},
}
GRADIENTS_THAT_WAIT = {"scatter"}


def asked(kind: str) -> list[str]:
    """Return the number of requests to the device of a kind."""
    return [name for one, name in counts.asked if one == kind]


def within(limit: int, waits: bool) -> None:
    """Fail if more was requested from the device, or less than a listed exception."""
    launches, waited = asked(counts.LAUNCH), asked(counts.WAIT)
    assert len(launches) <= limit, launches
    assert limit <= MOST or len(launches) == limit, "the exception is out of date"
    assert len(waited) == int(waits), waited


@pytest.mark.parametrize("name", sorted(OPS.keys() - INDEX_OPS))
def test_an_op_is_two_launches_and_waits_for_nothing(name: str) -> None:
    op, given = described(OPS[name]).function, moved(name, arguments(name, rows_for(name), "auto"))
    op(**given)
    counts.asked.clear()
    op(**given)
    within(FILTERS.get(name, MOST), name in OPS_THAT_WAIT)


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_is_a_few_launches_and_waits_for_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    setting = Setting(LODS["some"], case.levels[-1], "auto")
    ids = there(gradient_families.scatter_ids(setting))
    monkeypatch.setattr(gradient_families, "scatter_ids", lambda _: ids)
    given = case.arguments(setting, [cupy.asarray(one) for one in arrays_of(name, setting)])
    results = case.results(given)
    shape = (sum(len(plain(one)) for one in results), *plain(results[0]).shape[1:])
    upstream = case.upstream(results, cupy.asarray(np.ones(shape)))
    case.gradients(upstream, given)
    counts.asked.clear()
    case.gradients(upstream, given)
    within(GRADIENT_LIMITS.get(name, MOST), name in GRADIENTS_THAT_WAIT)


def test_exceptions_are_of_ops_that_there_are() -> None:
    assert FILTERS.keys() <= OPS.keys()
    assert GRADIENT_LIMITS.keys() <= CASES.keys()


@pytest.mark.parametrize("given", [np.float16, np.float32])
def test_halves_are_normalised_as_they_are(given: Any) -> None:
    tensor = LoDTensor(np.ones((3, 4), np.float16), [[2, 1]]).to_device("cuda")
    weight, bias = (cupy.asarray(np.full(4, value, given)) for value in (2, 3))
    counts.asked.clear()
    OPS["layer_norm"].load()(tensor, weight=weight, bias=bias)
    assert len(asked(counts.LAUNCH)) == 1
