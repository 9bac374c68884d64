"""Training models that predict numbers: the loss against torch, errors against NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.rnn.stack.standardization import Standardization
from lodcli.kernels.rnn.training.classifier import (
    Classifier,
    classifier_from_arrays,
    classifier_gradients,
    classify,
    seeded_classifier,
)
from lodcli.kernels.rnn.training.loss import squared_error
from lodcli.kernels.rnn.training.train import (
    Labelled,
    Recipe,
    evaluate,
    prediction_errors,
    train,
)
from lodcli.kernels.tensor.lod_tensor import LoDTensor

SCALES = np.array([50.0, 1e-3])


def examples(count: int = 120, seed: int = 0) -> Labelled:
    """Return sequences and two values for each, of the last row, far from 0 and of other scales."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 7, count)
    data = rng.normal(size=(lengths.sum(), 2))
    last = data[np.cumsum(lengths) - 1]
    return Labelled(LoDTensor(data, [lengths]), 1000 + last * SCALES)


def model(given: Labelled, cell: str = "gru", dtype: Any = np.float64, **more: Any) -> Classifier:
    made = seeded_classifier(
        cell, 2, 8, given.classes, rng=np.random.default_rng(1), dtype=dtype, **more
    )
    return replace(made, targets=Standardization.of(given.labels))


def predicted(made: Classifier, given: Labelled) -> Any:
    assert made.targets is not None
    rows, offsets = made.rows(given.sequences.data), given.sequences.lod.levels[0]
    return classify(made.of_standardized(), rows, offsets).scores * made.targets.std + (
        made.targets.mean
    )


def test_the_squared_error_is_torchs() -> None:
    torch: Any = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    scores, targets = rng.normal(size=(2, 7, 3))
    leaf = torch.from_numpy(scores).requires_grad_()
    wanted = torch.nn.functional.mse_loss(leaf, torch.from_numpy(targets))
    wanted.backward()
    found = squared_error(scores, targets)
    np.testing.assert_allclose(found.value, wanted.item(), rtol=1e-14)
    np.testing.assert_allclose(found.grad, leaf.grad.numpy(), rtol=1e-14)
    single = squared_error(scores.astype("f4"), targets)
    assert single.grad.dtype == np.float32
    none = squared_error(np.zeros((0, 2)), np.zeros((0, 2)))
    assert (none.value, none.grad.shape) == (0, (0, 2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pool", ["last", "mean"])
def test_values_are_learned_and_errors_are_in_their_units(pool: str, dtype: Any) -> None:
    given, others = examples(), examples(60, seed=1)
    start = model(given, dtype=dtype, pool=pool)
    *_, last = train(start, given, Recipe(epochs=25, rate=0.02))
    for one in (given, others):
        found = prediction_errors(last.model, one)
        errors = predicted(last.model, one) - one.labels
        near = 1e-10 if dtype == np.float64 else 1e-3
        np.testing.assert_allclose(found.rmse, np.sqrt(np.square(errors).mean(0)), rtol=near)
        baseline = np.sqrt(np.square(one.labels - given.labels.mean(0)).mean(0))
        np.testing.assert_allclose(found.baseline, baseline, rtol=1e-10)
        if pool == "last":
            assert (np.array(found.rmse) < 0.5 * np.array(found.baseline)).all()
        scaled = errors / given.labels.std(0)
        np.testing.assert_allclose(evaluate(last.model, one).loss, np.square(scaled).mean(), near)
        assert np.isnan(evaluate(last.model, one).accuracy)
    np.testing.assert_allclose(prediction_errors(last.model, given).baseline, given.labels.std(0))


def test_a_training_of_values_continues_with_the_same_bits() -> None:
    given = examples(30)
    whole = list(train(model(given), given, Recipe(epochs=4)))
    *_, last = train(whole[1], given, Recipe(epochs=4))
    for name, array in whole[-1].model.arrays().items():
        assert array.tobytes() == last.model.arrays()[name].tobytes()
    assert last.loss == whole[-1].loss
    assert np.isnan(last.accuracy)


def test_a_value_for_each_sequence_is_the_same_as_a_row_of_one() -> None:
    given = examples(30)
    one = Labelled(given.sequences, given.labels[:, 0].astype(np.float32))
    row = Labelled(given.sequences, given.labels[:, :1].astype(np.float32))
    losses = [[epoch.loss for epoch in train(model(row), x, Recipe(epochs=2))] for x in (one, row)]
    assert losses[0] == losses[1]
    assert (one.classes, row.classes, given.classes) == (1, 1, 2)


def test_the_arrays_of_a_model_of_values_are_all_of_it() -> None:
    given = examples(30)
    made = model(given)
    again = classifier_from_arrays(made.arrays())
    assert again.targets is not None
    np.testing.assert_array_equal(predicted(again, given), predicted(made, given))
    np.testing.assert_array_equal(
        predicted(made.with_arrays(made.arrays()), given), predicted(made, given)
    )
    rows, offsets = given.rows()
    scored = classify(made, rows, offsets, keep=True)
    gradients = classifier_gradients(made, scored, np.ones_like(scored.scores))
    assert gradients.keys() == made.arrays().keys()
    assert not gradients["targets.mean"].any()


def test_rows_and_targets_keep_their_standardizations_apart() -> None:
    given = examples(30)
    rows, targets = Standardization.of(given.sequences.data), Standardization.of(given.labels)
    made = replace(model(given), standardization=rows, targets=targets)
    *_, last = train(made, given, Recipe(epochs=1))
    for one in (made.moved("cpu"), last.model, classifier_from_arrays(last.model.arrays())):
        assert one.standardization is not None
        assert one.targets is not None
        np.testing.assert_array_equal(one.standardization.mean, rows.mean)
        np.testing.assert_array_equal(one.targets.mean, targets.mean)
        np.testing.assert_array_equal(one.arrays()["standardize.std"], rows.std)
        np.testing.assert_array_equal(one.arrays()["targets.std"], targets.std)


def test_invalid_arguments_are_errors() -> None:
    given = examples(10)
    made, sequences = model(given), given.sequences
    whole = Labelled(sequences, np.zeros(10, np.int64))
    for use in (evaluate, prediction_errors):
        with pytest.raises(InvalidDataError, match=r"labels: expected floating-point targets for"):
            use(made, whole)
    with pytest.raises(InvalidDataError, match=r"model: expected targets\.mean, as of a model"):
        prediction_errors(replace(made, targets=None), given)
    with pytest.raises(
        ShapeMismatchError, match=r"labels: expected 2 .* as targets.mean has, found 1"
    ):
        evaluate(made, Labelled(sequences, given.labels[:, 0]))
    with pytest.raises(InvalidDataError, match="labels: expected finite values"):
        Labelled(sequences, np.full(10, np.nan))
    for labels in (given.labels[:9], given.labels[:, :, None]):
        with pytest.raises(ShapeMismatchError, match="labels: expected 10, one per sequence"):
            Labelled(sequences, labels)
    for labels, said in (
        (np.full(10, 1j), "whole numbers, found complex128$"),
        (np.array(["a"] * 10), "found <U1; number the words, as np.unique"),
        (np.zeros(10, "m8[s]"), r"found timedelta64\[s\]; subtract times, and divide by"),
        (np.zeros(10, "M8[s]"), r"found datetime64\[s\]; subtract times, and divide by"),
        (np.zeros(10, bool), "found bool; cast them to int64"),
    ):
        with pytest.raises(InvalidDataError, match=said):
            Labelled(sequences, labels)
    with pytest.raises(ShapeMismatchError, match=r"targets.mean: expected \(2,\), as out.bias"):
        replace(made, targets=Standardization(np.ones(3), np.ones(3)))
    with pytest.raises(ShapeMismatchError, match=r"targets: expected shape \(2, 3\)"):
        squared_error(np.zeros((2, 3)), np.zeros((2, 1)))
