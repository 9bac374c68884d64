"""Standardization of rows: against numbers calculated by hand, large means, and classifiers."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.rnn.stack import standardization
from lodcli.kernels.rnn.stack.standardization import MEAN, STD, Standardization, standardization_in
from lodcli.kernels.rnn.training.adam import Adam
from lodcli.kernels.rnn.training.classifier import (
    classifier_from_arrays,
    classifier_gradients,
    classify,
    seeded_classifier,
)
from lodcli.kernels.rnn.training.loss import softmax_cross_entropy
from lodcli.kernels.rnn.training.train import Labelled, Recipe, accuracy, evaluate, train
from lodcli.kernels.tensor.lod_tensor import LoDTensor

LENGTHS = [3, 1, 5, 2, 4, 2]


def test_means_and_deviations_are_those_calculated_by_hand() -> None:
    # Means 2 and 40; squared deviations 1 1 and 900 900. The third value is always 0.1.
    rows = np.array([[1.0, 10.0, 0.1], [3.0, 70.0, 0.1]])
    found = Standardization.of(rows)
    np.testing.assert_array_equal(found.mean, [2, 40, 0.1])
    np.testing.assert_array_equal(found.std, [1, 30, 1])
    np.testing.assert_array_equal(found.applied(rows), [[-1, -1, 0], [1, 1, 0]])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8", "i8", "u1", "?"])
def test_standardized_rows_have_mean_0_and_deviation_1(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standardization, "_ROWS", 7)
    rng = np.random.default_rng(0)
    rows = (rng.normal(5, 3, (40, 2, 3)).clip(0) * 10 % 200 // 1 % 2**7).astype(dtype)
    rows.flags.writeable = False
    found = Standardization.of(rows)
    flat = rows.reshape(40, 6).astype("f8")
    np.testing.assert_allclose(found.mean, flat.mean(0), rtol=1e-14)
    np.testing.assert_allclose(found.std[flat.std(0) > 0], flat.std(0)[flat.std(0) > 0], rtol=1e-14)
    made = found.applied(rows[::-1])
    assert made.dtype == ("f8" if dtype.endswith("f8") else "f4")
    np.testing.assert_allclose(made, ((flat - found.mean) / found.std)[::-1], rtol=1e-6, atol=1e-7)
    assert found.applied(rows, "f8").dtype == "f8"
    assert found.applied(rows[:0]).shape == (0, 6)


def test_a_mean_that_is_large_costs_no_digits() -> None:
    # Seconds since 1970, a second apart: float32 would give all of them the same number.
    times = 1_700_000_000 + np.arange(100)
    made = Standardization.of(times).applied(times)
    assert made.dtype == np.float32
    wanted = (np.arange(100) - 49.5) / np.sqrt((100**2 - 1) / 12)
    np.testing.assert_allclose(made[:, 0], wanted, rtol=1e-6)


@pytest.mark.parametrize("power", [-1070, -700, -3, 0, 400, 1010])
def test_deviations_of_tiny_and_huge_values_are_those_of_others(power: int) -> None:
    rows = np.random.default_rng(1).integers(-8, 9, (50, 3)).astype(np.float64)
    found, usual = Standardization.of(np.ldexp(rows, power)), Standardization.of(rows)
    near = 0.3 if power < -1022 else 1e-15  # subnormal numbers have few bits
    np.testing.assert_allclose(found.std, np.ldexp(usual.std, power), rtol=near)
    if power >= -1022:
        expected = usual.applied(rows)
        np.testing.assert_allclose(found.applied(np.ldexp(rows, power)), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (np.zeros((0, 2)), "data: expected at least one row"),
        (np.ones((2, 2), complex), "data: expected real numbers"),
        (np.array([[1.0], [np.nan]]), "mean: expected finite"),
        (np.array([[1.7e308], [-1.7e308]]), "std: expected finite"),
    ],
)
def test_rows_without_means_are_refused(data: Any, said: str) -> None:
    with pytest.raises(InvalidDataError, match=said):
        Standardization.of(data)


def test_arrays_that_do_not_fit_are_refused() -> None:
    two = np.ones(2)
    for mean, std, said in (
        (two, np.ones(3), "^std: expected shape"),
        (np.ones((1, 2)), two, "^mean: expected shape"),
        (two, two - 1, "above 0"),
        (two.astype(int), two, "^mean: expected finite floating-point values, found int64"),
    ):
        with pytest.raises(InvalidDataError, match=said):
            Standardization(mean, std)
        for role in ("standardize", "targets"):
            entries = {f"{role}.mean": mean, f"{role}.std": std}
            with pytest.raises(InvalidDataError, match=said.replace("^", rf"^{role}\.")):
                standardization_in(entries, role)
    with pytest.raises(ShapeMismatchError, match=r"data: expected rows of 2 values, .* found 3"):
        Standardization(two, two).applied(np.ones((4, 3)))
    for data in (np.ones((4, 2), complex), np.ones((4, 2), "M8[s]")):
        with pytest.raises(InvalidDataError, match="expected real numbers, found"):
            Standardization(two, two).applied(data)
    assert standardization_in({"rnn.weight_hh_l0": two}) is None
    with pytest.raises(InvalidDataError, match=r"state dict: standardize.std is missing"):
        standardization_in({MEAN: two})


def examples(scale: Any, shift: Any) -> Labelled:
    """Return sequences whose class is the sign of the first value of the last row."""
    rng = np.random.default_rng(3)
    lengths = LENGTHS * 8
    rows = rng.normal(size=(sum(lengths), 2))
    labels = (rows[np.cumsum(lengths) - 1, 0] > 0).astype(np.int64)
    return Labelled(LoDTensor(rows * scale + shift, [lengths]), labels)


def test_a_classifier_of_raw_rows_is_that_of_standardized_rows() -> None:
    raw = examples([1e-4, 1e3], [52.5, 1e6])
    scaling = Standardization.of(raw.sequences.data)
    scaled = Labelled(raw.sequences.with_data(scaling.applied(raw.sequences.data)), raw.labels)
    start = seeded_classifier("lstm", 2, 6, 2, rng=np.random.default_rng(0))
    whole = dataclasses.replace(start, standardization=scaling)
    recipe = Recipe(epochs=12, rate=0.05, dropout=0.1)
    for one, other in zip(train(whole, raw, recipe), train(start, scaled, recipe), strict=True):
        assert one.loss == other.loss
        assert one.model.standardization is scaling
        arrays = one.model.arrays()
        for name, array in other.model.arrays().items():
            np.testing.assert_array_equal(arrays.pop(name), array)
        assert sorted(arrays) == [MEAN, STD]
        assert one.adam.first.keys() == other.adam.first.keys()
    assert evaluate(one.model, raw) == evaluate(other.model, scaled)
    assert accuracy(one.model, raw) > 0.9 > accuracy(other.model, raw)
    again = classifier_from_arrays(one.model.arrays())
    data, offsets = raw.sequences.data, raw.sequences.lod.levels[0]
    wanted = classify(other.model, scaled.sequences.data, offsets).scores
    np.testing.assert_array_equal(classify(again, data, offsets).scores, wanted)
    # The next epochs of a longer run.
    longer = dataclasses.replace(recipe, epochs=14)
    (continued, last) = train(one, raw, longer)
    assert continued.model.standardization is scaling
    assert last.number == 14


def test_a_standardization_is_not_trained() -> None:
    raw = examples([1, 100], [0, 1000])
    scaling = Standardization.of(raw.sequences.data)
    made = seeded_classifier("gru", 2, 3, 2, rng=np.random.default_rng(0), dtype="f8")
    made = dataclasses.replace(made, standardization=scaling)
    scored = classify(made, *raw.rows(), keep=True)
    loss = softmax_cross_entropy(scored.scores, raw.labels)
    found = classifier_gradients(made, scored, loss.grad)
    moved = made.with_arrays(Adam().moved(made.arrays(), found, rate=0.1))
    for name, array in ((MEAN, scaling.mean), (STD, scaling.std)):
        np.testing.assert_array_equal(moved.arrays()[name], array)
    assert not np.array_equal(moved.weight, made.weight)


def test_ids_are_not_standardized() -> None:
    ids = seeded_classifier("gru", 2, 3, 2, vocabulary=4, rng=np.random.default_rng(0))
    with pytest.raises(InvalidDataError, match=r"standardize.mean: expected none beside embedding"):
        dataclasses.replace(ids, standardization=Standardization(np.ones(2), np.ones(2)))
    rows = seeded_classifier("gru", 2, 3, 2, rng=np.random.default_rng(0))
    with pytest.raises(
        ShapeMismatchError, match=r"standardize.mean: expected \(2,\), found \(3,\)"
    ):
        dataclasses.replace(rows, standardization=Standardization(np.ones(3), np.ones(3)))
