"""Candidates that do not agree are found, and named."""

from __future__ import annotations

import numpy as np
import pytest

from lodcli.bench.measure.checks import agreed, difference, digest
from lodcli.bench.measure.errors import DisagreementError

ONE = np.array([[1.0, 2.0], [3.0, 100.0]], np.float32)


OURS = {"lod", "lod out="}


def test_results_within_the_tolerance_agree() -> None:
    near = ONE * np.float32(1 + 1e-6)
    results = [("lod", [ONE]), ("peer", [near])]
    assert agreed("sum", results, 1e-5, OURS) == (digest([ONE]), {})


def test_a_peer_that_differs_from_the_majority_is_named_with_the_place() -> None:
    wrong = ONE.copy()
    wrong[1, 0] = 3.5
    results = [("lod", [ONE]), ("first", [ONE]), ("second sum", [wrong])]
    computed, odd = agreed("sum B1", results, 1e-5, OURS)
    assert computed == digest([ONE])
    assert odd.keys() == {"second sum"}
    assert odd["second sum"].startswith("second sum and lod, first have different results: ")
    assert "at (1, 0) 3.5" in odd["second sum"]


def test_the_result_of_lod_has_no_more_weight_than_that_of_a_peer() -> None:
    wrong = ONE + 1
    with pytest.raises(DisagreementError, match=r"^sum: lod and one, other have different results"):
        agreed("sum", [("lod", [wrong]), ("one", [ONE]), ("other", [ONE])], 1e-5, OURS)
    with pytest.raises(
        DisagreementError, match=r"^sum: lod, lod out= and peer have different results"
    ):
        agreed("sum", [("lod", [wrong]), ("lod out=", [wrong]), ("peer", [ONE])], 1e-5, OURS)
    with pytest.raises(
        DisagreementError, match=r"^sum: lod out= and lod, peer have different results"
    ):
        agreed("sum", [("lod", [ONE]), ("lod out=", [wrong]), ("peer", [ONE])], 1e-5, OURS)


@pytest.mark.parametrize(
    "other",
    [[], [ONE, ONE], [ONE[:1]], [np.full_like(ONE, np.nan)], [np.full_like(ONE, np.inf)]],
    ids=["none", "two", "shape", "nan", "inf"],
)
def test_other_numbers_of_results_shapes_and_no_numbers_differ(other: list[np.ndarray]) -> None:
    assert difference([ONE], other, 0.5) is not None


def test_without_tolerance_the_last_bit_counts() -> None:
    near = np.nextafter(ONE, np.float32(np.inf))
    assert difference([ONE], [near], 0.0) is not None
    assert difference([ONE], [near], 1e-6) is None
    assert difference([np.array([1, 2])], [np.array([1, 3])], 0.5) is not None


def test_nan_beside_nan_and_infinity_beside_infinity_agree() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert difference([odd], [odd.copy()], 1e-6) is None
    assert difference([odd], [odd.copy()], 0.0) is None
    assert difference([odd], [np.array([np.nan, np.inf, np.inf, 1.0])], 1e-6) is not None


def test_digests_of_other_bytes_shapes_and_dtypes_differ() -> None:
    found = {
        digest([ONE]),
        digest([ONE.reshape(-1)]),
        digest([ONE.view(np.int32)]),
        digest([ONE + 1]),
        digest([ONE, ONE]),
    }
    assert len(found) == 5
    assert digest([ONE.T]) == digest([np.ascontiguousarray(ONE.T)])


def test_a_difference_is_found_in_any_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lodcli.bench.measure.checks.BLOCK", 4)
    monkeypatch.setattr("lodcli.bench.measure.checks.DIGEST_BYTES", 16)
    rows = np.arange(33, dtype=np.float64).reshape(11, 3) + 1
    for tolerance in (0.0, 1e-3):
        for place in ((0, 0), (5, 1), (10, 2)):
            other = rows.copy()
            other[place] += 0.5
            found = difference([rows], [other], tolerance)
            assert found is not None
            assert found.startswith(f"at {place} ")
            assert digest([rows]) != digest([other])
        assert difference([rows], [rows.copy()], tolerance) is None
    # Allowed is a part of the greatest of all, which lies in another block.
    assert difference([rows], [rows + 0.03], 1e-3) is None
