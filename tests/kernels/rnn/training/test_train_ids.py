"""Training with an embedding: against torch, finite differences, and continuing."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.rnn.cells.registry import CELLS
from lodcli.kernels.rnn.stack.stack import stack_backward
from lodcli.kernels.rnn.training import train as training
from lodcli.kernels.rnn.training.classifier import (
    Classifier,
    classifier_from_arrays,
    classifier_gradients,
    classify,
    seeded_classifier,
)
from lodcli.kernels.rnn.training.loss import softmax_cross_entropy
from lodcli.kernels.rnn.training.train import Labelled, Recipe, accuracy, train
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.kernels.rnn.training.classifier_torch import check_gradients, check_training
from tests.oracles_rnn import offsets_of

LENGTHS = [3, 1, 5, 2, 5, 4]
NAME = "embedding.weight"
VOCABULARY = 9


def examples(copies: int = 1, dtype: Any = np.int64) -> Labelled:
    """Return sequences of ids whose class is whether the last one is odd."""
    rng = np.random.default_rng(0)
    lengths = LENGTHS * copies
    ids = rng.integers(0, VOCABULARY - 1, sum(lengths)).astype(dtype)  # the last id is not used
    return Labelled(LoDTensor(ids, [lengths]), ids[offsets_of(lengths)[1:] - 1] % 2)


def model(cell: str = "lstm", dtype: Any = np.float64, **more: Any) -> Classifier:
    rng = np.random.default_rng(1)
    return seeded_classifier(cell, 4, 3, 2, vocabulary=VOCABULARY, rng=rng, dtype=dtype, **more)


def data_of(given: Labelled) -> tuple[Any, Any]:
    return given.sequences.data, given.sequences.lod.levels[0]


@pytest.mark.parametrize("cell", ["lstm", "gru", "elman"])
@pytest.mark.parametrize("pool", ["last", "mean"])
@pytest.mark.parametrize("more", [{}, {"layers": 2, "bidirectional": True}], ids=["one", "deep"])
def test_loss_and_gradients_are_torchs(cell: str, pool: str, more: dict[str, Any]) -> None:
    given = examples(dtype=np.uint8)
    found = check_gradients(model(cell, pool=pool, **more), given, given.sequences.data)
    assert not found[NAME][VOCABULARY - 1].any()


@pytest.mark.parametrize("ids", [False, True])
def test_only_an_embedding_needs_the_gradient_of_the_input(
    monkeypatch: pytest.MonkeyPatch, ids: bool
) -> None:
    made, given = model("gru"), examples()
    data, offsets = data_of(given)
    if not ids:
        assert made.embedding is not None
        data, made = made.embedding[data], dataclasses.replace(made, embedding=None)
    scored = classify(made, data, offsets, keep=True)
    asked = []

    def noted(*args: Any, input_gradient: bool, **more: Any) -> Any:
        asked.append(input_gradient)
        return stack_backward(*args, input_gradient=input_gradient, **more)

    monkeypatch.setattr("lodcli.kernels.rnn.training.classifier.stack_backward", noted)
    classifier_gradients(made, scored, np.ones_like(scored.scores))
    assert asked == [ids]


@pytest.mark.parametrize("cell", CELLS)
def test_the_gradient_of_the_table_is_that_of_finite_differences(cell: str) -> None:
    made, given = model(cell, pool="mean"), examples()

    def loss(changed: Classifier) -> float:
        scores = classify(changed, *data_of(given)).scores
        return softmax_cross_entropy(scores, given.labels).value

    scored = classify(made, *data_of(given), keep=True)
    grad = softmax_cross_entropy(scored.scores, given.labels).grad
    found = classifier_gradients(made, scored, grad)[NAME]
    for place in ((0, 0), (5, 2), (VOCABULARY - 1, 1)):
        ends = []
        for step in (1e-5, -1e-5):
            table = made.arrays()[NAME].copy()
            table[place] += step
            ends.append(loss(made.with_arrays({**made.arrays(), NAME: table})))
        # Central differences of step 1e-5: 1e-10 of truncation, 1e-11 of rounding.
        assert found[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("cell", ["lstm", "gru", "elman"])
def test_a_whole_training_is_torchs(cell: str) -> None:
    check_training(model(cell), examples())


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_training_learns_and_continues_with_the_same_bits(dtype: Any) -> None:
    given, recipe = examples(copies=8), Recipe(epochs=6, batch=4, rate=0.1, dropout=0.1)
    epochs = list(train(model(dtype=dtype), given, recipe))
    assert accuracy(epochs[-1].model, given) > 0.95
    *_, last = train(epochs[2], given, recipe)
    for name, array in epochs[-1].model.arrays().items():
        assert array.dtype == dtype
        np.testing.assert_array_equal(last.model.arrays()[name], array)


def test_sequences_are_scored_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    made, given = model(), examples(copies=20)
    rows: list[int] = []

    def counted(model: Classifier, data: Any, offsets: Any, **more: Any) -> Any:
        rows.append(len(data))
        return classify(model, data, offsets, **more)

    whole = accuracy(made, given)
    monkeypatch.setattr(training, "classify", counted)
    for limit in (1, 7, 100):
        monkeypatch.setattr(training, "SCORED_ROWS", limit)
        rows.clear()
        assert accuracy(made, given) == whole
        assert sum(rows) == given.sequences.rows
        assert max(rows) <= max(limit, 5)


def test_a_random_embedding_is_normal_and_leaves_the_rest_as_it_is() -> None:
    made, plain = (
        seeded_classifier("gru", 40, 3, 2, vocabulary=size, rng=np.random.default_rng(1))
        for size in (900, None)
    )
    arrays = made.arrays()
    table = arrays.pop(NAME)
    # 36,000 draws: six standard deviations of the estimates.
    assert abs(table.mean()) < 0.04
    assert abs(table.std() - 1) < 0.03
    assert list(arrays) == list(plain.arrays())
    for name, array in plain.arrays().items():
        np.testing.assert_array_equal(arrays[name], array)


def test_arrays_with_an_embedding_make_the_classifier_again() -> None:
    made = model("gru")
    again = classifier_from_arrays(made.arrays())
    assert list(again.arrays()) == list(made.arrays())
    assert again.arrays()[NAME] is made.arrays()[NAME]


def test_invalid_arguments_are_errors() -> None:
    made, given = model(), examples()
    far = Labelled(given.sequences.with_data(given.sequences.data + 2), given.labels)
    said = "sequence 4, position 0: expected an id from 0 to 8, found 9"
    for run in (lambda: train(made, far, Recipe()), lambda: accuracy(made, far)):
        with pytest.raises(InvalidDataError, match=said):
            run()
    rows = Labelled(given.sequences.with_data(np.ones((20, 4))), given.labels)
    with pytest.raises(InvalidDataError, match="ids: expected whole numbers of shape"):
        train(made, rows, Recipe())
    with pytest.raises(InvalidDataError, match="vocabulary: expected at least 1, found 0"):
        seeded_classifier("gru", 2, 3, 2, vocabulary=0, rng=np.random.default_rng(0))
    table = {**made.arrays(), NAME: np.ones((9, 5))}
    with pytest.raises(ShapeMismatchError, match=r"weight: expected \(ids, 4\), found \(9, 5\)"):
        classifier_from_arrays(table)
