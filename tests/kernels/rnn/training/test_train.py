"""Training: the loss, the optimizer and the whole step against torch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lodcli.kernels.errors import EmptySequenceError, InvalidDataError, ShapeMismatchError
from lodcli.kernels.rnn.training.adam import Adam, clipped
from lodcli.kernels.rnn.training.classifier import (
    Classifier,
    classifier_from_arrays,
    classifier_gradients,
    classify,
    seeded_classifier,
)
from lodcli.kernels.rnn.training.loss import softmax_cross_entropy
from lodcli.kernels.rnn.training.train import Labelled, Recipe, accuracy, evaluate, train
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.kernels.rnn.training.classifier_torch import (
    check_gradients,
    check_training,
    torch_loss,
    torch_model,
    torch_scores,
)
from tests.oracles_rnn import close, offsets_of

LENGTHS = [3, 1, 5, 2, 5, 4]
# float64, some dozen steps of some dozen products.
TOLERANCE = 1e-10


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def examples(copies: int = 1) -> Labelled:
    """Return sequences whose class is the sign of the first value of their last row."""
    rng = np.random.default_rng(0)
    lengths = LENGTHS * copies
    data = rng.normal(size=(sum(lengths), 4))
    labels = (data[offsets_of(lengths)[1:] - 1, 0] > 0).astype(np.int64)
    return Labelled(LoDTensor(data, [lengths]), labels)


def model(pool: str = "last", seed: int = 1, dtype: Any = np.float64, **more: Any) -> Classifier:
    return seeded_classifier(
        "lstm", 4, 3, 2, pool=pool, rng=np.random.default_rng(seed), dtype=dtype, **more
    )


def test_the_loss_is_torchs(torch: Any) -> None:
    rng = np.random.default_rng(0)
    scores, labels = rng.normal(size=(7, 4)) * 10, rng.integers(0, 4, 7)
    leaf = torch.from_numpy(scores).requires_grad_()
    wanted = torch.nn.functional.cross_entropy(leaf, torch.from_numpy(labels))
    wanted.backward()
    found = softmax_cross_entropy(scores, labels)
    close(found.value, wanted.item(), 1e-14)
    close(found.grad, leaf.grad.numpy(), 1e-14)
    assert found.right == int((scores.argmax(axis=1) == labels).sum())


def test_scores_that_are_huge_do_not_overflow() -> None:
    found = softmax_cross_entropy(np.array([[1e30, -1e30]], np.float32), np.array([1]))
    assert found.value == pytest.approx(2e30)
    assert found.grad.tolist() == [[1, -1]]


def test_a_loss_of_nothing_is_zero() -> None:
    found = softmax_cross_entropy(np.zeros((0, 3)), np.zeros(0, np.int64))
    assert (found.value, found.grad.shape, found.right) == (0.0, (0, 3), 0)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (np.array([0, 3]), "position 1: expected 0 to 2, found 3"),
        (np.array([-1, 0]), "position 0: expected 0 to 2, found -1"),
        (np.array([0.0, 1.0]), "expected whole numbers, found float64"),
        (np.array([0]), r"expected shape \(2,\)"),
    ],
)
def test_labels_that_are_none_are_refused(labels: Any, said: str) -> None:
    with pytest.raises(InvalidDataError, match=said):
        softmax_cross_entropy(np.zeros((2, 3)), labels)


@pytest.mark.parametrize("dtype", ["uint8", "uint64", "int8"])
def test_labels_of_any_whole_dtype_make_the_same_model(dtype: str) -> None:
    wide = examples()
    narrow = Labelled(wide.sequences, wide.labels.astype(dtype))
    assert narrow.classes == wide.classes
    models = []
    for one in (wide, narrow):
        start = seeded_classifier("gru", 4, 3, 2, rng=np.random.default_rng(0))
        *_, last = train(start, one, Recipe(epochs=2))
        models.append(last.model.arrays())
    for name, array in models[0].items():
        np.testing.assert_array_equal(models[1][name], array)


def test_labels_that_are_no_numbers_are_refused() -> None:
    one = LoDTensor(np.ones((2, 1)), [[1, 1]])
    classes = seeded_classifier("gru", 1, 2, 2, rng=np.random.default_rng(0))
    with pytest.raises(InvalidDataError, match="found float64; cast them to int64"):
        evaluate(classes, Labelled(one, np.array([0.0, 1.0])))
    with pytest.raises(InvalidDataError, match=r"found float32; they number .* has targets\.mean"):
        evaluate(classes, Labelled(one, np.array([0.0, 1.5], "f4")))
    with pytest.raises(InvalidDataError, match="position 1: expected 0 to 3, found -1"):
        Labelled(one, np.array([3, -1]))
    assert Labelled(one[:0], np.zeros(0, np.uint8)).classes == 0


def test_adam_is_torchs(torch: Any) -> None:
    rng = np.random.default_rng(0)
    arrays = {"a": rng.normal(size=(3, 2)), "b": rng.normal(size=4)}
    leaves = {name: torch.from_numpy(array).clone() for name, array in arrays.items()}
    theirs, ours = torch.optim.Adam(leaves.values(), lr=0.01), Adam()
    for _ in range(5):
        gradients = {name: rng.normal(size=array.shape) for name, array in arrays.items()}
        for name, leaf in leaves.items():
            leaf.grad = torch.from_numpy(gradients[name])
        theirs.step()
        before = {name: array.copy() for name, array in arrays.items()}
        moved = ours.moved(arrays, gradients, rate=0.01)
        assert all(np.array_equal(before[name], arrays[name]) for name in arrays)
        arrays = moved
    for name, leaf in leaves.items():
        close(arrays[name], leaf.numpy(), 1e-13, name)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_weights_of_two_bytes_have_moments_in_float32(dtype: Any) -> None:
    weights, gradients = {"a": np.ones(2, dtype)}, {"a": np.array([1e-4, -1e-4], dtype)}
    moved = Adam().moved(weights, gradients, rate=0.0625)["a"]
    # The first step is the rate, but for epsilon: 1e-4 of it here.
    assert (moved.dtype, moved.astype(np.float32).tolist()) == (dtype, [0.9375, 1.0625])


def test_gradients_are_scaled_by_their_common_length() -> None:
    gradients = {"a": np.array([3.0]), "b": np.array([[4.0]])}
    assert clipped(gradients, 5.0)["a"].tolist() == [3.0]
    found = clipped(gradients, 0.5)
    close(found["a"], [0.3], 1e-15)
    close(found["b"], [[0.4]], 1e-15)


@pytest.mark.parametrize("pool", ["last", "mean"])
@pytest.mark.parametrize("more", [{}, {"layers": 2, "bidirectional": True}], ids=["one", "deep"])
def test_scores_and_gradients_are_torchs(pool: str, more: dict[str, Any]) -> None:
    given = examples()
    check_gradients(model(pool, **more), given, given.rows()[0])


def test_dropout_zeroes_a_share_and_scales_the_rest() -> None:
    made, given = model(), examples(copies=200)
    plain = classify(made, *given.rows())
    scored = classify(made, *given.rows(), keep=True, dropout=0.25, rng=np.random.default_rng(0))
    ratio = scored.pooled / plain.pooled
    assert sorted(set(np.round(ratio, 9).ravel())) == [0, round(1 / 0.75, 9)]
    # 3,600 draws: the share is off by less than 0.03 in all but one run of 30,000.
    assert abs(np.mean(ratio == 0) - 0.25) < 0.03
    grad = np.ones_like(scored.scores)
    gradients = classifier_gradients(made, scored, grad)
    close(gradients["out.weight"], grad.T @ scored.pooled, 1e-12)


def test_the_gradient_of_a_run_with_dropout_is_that_of_its_own_zeros() -> None:
    made, given = model("mean"), examples()

    def loss(dropped: Classifier) -> float:
        rng = np.random.default_rng(5)
        scored = classify(dropped, *given.rows(), keep=True, dropout=0.5, rng=rng)
        return softmax_cross_entropy(scored.scores, given.labels).value

    rng = np.random.default_rng(5)
    scored = classify(made, *given.rows(), keep=True, dropout=0.5, rng=rng)
    grad = softmax_cross_entropy(scored.scores, given.labels).grad
    gradients = classifier_gradients(made, scored, grad)
    name, place = "rnn.weight_hh_l0", (2, 1)
    moved = {n: array.copy() for n, array in made.arrays().items()}
    moved[name][place] += 1e-6
    slope = (loss(made.with_arrays(moved)) - loss(made)) / 1e-6
    # A difference of step 1e-6: 1e-6 of truncation, 1e-10 of rounding.
    assert gradients[name][place] == pytest.approx(slope, rel=1e-4)


def test_a_whole_training_is_torchs() -> None:
    check_training(model(), examples())


def test_an_evaluation_has_torchs_loss_for_batches_of_any_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, given = model("mean"), examples(copies=3)
    scores = torch_scores(torch_model(made), given, "mean")
    wanted = torch_loss(scores, given).item()
    share = float((scores.detach().numpy().argmax(axis=1) == given.labels).mean())
    for rows in (1, 8, 10**6):
        monkeypatch.setattr("lodcli.kernels.rnn.training.train.SCORED_ROWS", rows)
        found = evaluate(made, given)
        close(found.loss, wanted, TOLERANCE)
        assert found.accuracy == accuracy(made, given) == share
    none = Labelled(LoDTensor(np.zeros((0, 4)), [[]]), np.zeros(0, np.int64))
    assert np.isnan(evaluate(made, none)).all()


def test_training_learns_and_the_same_seed_gives_the_same_bits() -> None:
    given, recipe = examples(copies=8), Recipe(epochs=15, rate=0.05, dropout=0.1, seed=3)
    start = model(dtype=np.float32)
    epochs = list(train(start, given, recipe))
    assert [epoch.number for epoch in epochs] == list(range(1, 16))
    assert epochs[-1].loss < epochs[0].loss / 2
    assert accuracy(epochs[-1].model, given) > 0.95
    again = list(train(start, given, recipe))
    for name, array in epochs[-1].model.arrays().items():
        assert array.dtype == np.float32
        assert np.array_equal(array, again[-1].model.arrays()[name])
    other = list(train(start, given, Recipe(epochs=1, rate=0.05, dropout=0.1, seed=4)))
    assert not np.array_equal(other[0].model.weight, epochs[0].model.weight)


def test_a_training_that_continues_after_an_epoch_has_the_same_bits() -> None:
    given, recipe = examples(copies=3), Recipe(epochs=5, batch=4, rate=0.1, dropout=0.2)
    epochs = list(train(model(), given, recipe))
    for epoch in epochs:  # in this order: continuing does not change an epoch
        more = list(train(epoch, given, recipe))
        assert [one.number for one in more] == list(range(epoch.number + 1, 6))
        for one in more:
            wanted = epochs[one.number - 1]
            assert (one.loss, one.accuracy) == (wanted.loss, wanted.accuracy)
            for name, array in one.model.arrays().items():
                assert np.array_equal(array, wanted.model.arrays()[name])
                assert np.array_equal(one.adam.second[name], wanted.adam.second[name])


def test_between_is_called_after_every_step_and_may_end_the_training() -> None:
    calls: list[None] = []

    def count() -> None:
        calls.append(None)
        if len(calls) == 4:
            raise KeyboardInterrupt

    run = train(model(), examples(), Recipe(epochs=2, batch=2), between=count)
    assert next(run).number == 1
    assert len(calls) == 3
    with pytest.raises(KeyboardInterrupt):
        next(run)


def test_the_arrays_of_a_classifier_make_it_again() -> None:
    made = model("mean", layers=2, bidirectional=True)
    again = classifier_from_arrays(made.arrays(), pool="mean")
    assert again.arrays().keys() == made.arrays().keys()
    given = examples()
    close(classify(again, *given.rows()).scores, classify(made, *given.rows()).scores, 0)


def test_invalid_arguments_are_errors() -> None:
    data = LoDTensor(np.zeros((3, 4)), [[1, 0, 2]])
    with pytest.raises(EmptySequenceError, match=r"sequence 1 has no rows .* lod filter"):
        Labelled(data, np.zeros(3, np.int64))
    with pytest.raises(ShapeMismatchError, match="expected 3, one per sequence"):
        Labelled(data, np.zeros(2, np.int64))
    with pytest.raises(InvalidDataError, match="expected one level, found 0"):
        Labelled(LoDTensor(np.zeros((3, 4))), np.zeros(3, np.int64))
    given = examples()
    with pytest.raises(InvalidDataError, match="position 0: expected 0 to 1, found 5"):
        next(train(model(), Labelled(given.sequences, given.labels + 5), Recipe()))
    none = Labelled(LoDTensor(np.zeros((0, 4)), [[]]), np.zeros(0, np.int64))
    with pytest.raises(InvalidDataError, match="no sequences"):
        next(train(model(), none, Recipe()))
    broken = given.sequences.with_data(given.sequences.data * np.nan)
    with pytest.raises(InvalidDataError, match="epoch 1: the loss is nan"):
        next(train(model(), Labelled(broken, given.labels), Recipe()))
    single = {name: array.astype(np.float32) for name, array in model().arrays().items()}
    with pytest.raises(InvalidDataError, match=r"epoch 1: rnn\.weight_ih_l0 has values that are"):
        next(train(model().with_arrays(single), given, Recipe(epochs=1, batch=999, rate=1e300)))
    with pytest.raises(InvalidDataError, match=r"out\.bias is missing"):
        classifier_from_arrays({"out.weight": np.zeros((2, 3))})
    with pytest.raises(ShapeMismatchError, match=r"out\.weight: expected \(classes, 3\)"):
        Classifier(model().rnn, np.zeros((2, 4)), np.zeros(2))
    for wrong in ({"epochs": -1}, {"batch": 0}, {"rate": 0.0}, {"dropout": 1.0}, {"clip": -1.0}):
        with pytest.raises(InvalidDataError, match=next(iter(wrong))):
            Recipe(**wrong)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"epochs": 1.5}, "Recipe: epochs: expected an int, found float"),
        ({"batch": 2.5}, "Recipe: batch: expected an int, found float"),
        ({"seed": None}, "Recipe: seed: expected an int, found None"),
        ({"seed": -1}, "seed: expected at least 0, found -1"),
    ],
)
def test_a_recipe_of_other_numbers_is_refused(wrong: Any, said: str) -> None:
    with pytest.raises(InvalidDataError, match=said):
        Recipe(**wrong)


def test_a_training_of_other_objects_says_what_is_expected() -> None:
    start, given = model(), examples()
    wrong: list[tuple[Any, str]] = [
        (
            (given, given, Recipe()),
            "train: model: expected a Classifier or an Epoch, found Labelled",
        ),
        ((start, given.sequences, Recipe()), "train: examples: expected a Labelled, found LoDT"),
        ((start, given, {"epochs": 2}), "train: recipe: expected a Recipe, found dict"),
    ]
    for arguments, said in wrong:
        with pytest.raises(InvalidDataError, match=said):
            train(*arguments)


@pytest.mark.parametrize("classes", [0, -1, None, 1.5, "2"])
def test_a_classifier_of_no_classes_is_refused(classes: Any) -> None:
    with pytest.raises(InvalidDataError, match=f"classes: expected at least 1, found {classes!r}"):
        seeded_classifier("gru", 3, 4, classes, rng=np.random.default_rng(0))


def test_a_gradient_of_scores_has_their_shape() -> None:
    model = seeded_classifier("gru", 3, 4, 2, rng=np.random.default_rng(0))
    scored = classify(model, np.ones((3, 3), np.float32), np.array([0, 1, 3]), keep=True)
    with pytest.raises(ShapeMismatchError, match=r"grad: expected \(2, 2\), found \(2, 3\)"):
        classifier_gradients(model, scored, np.ones((2, 3), np.float32))


def test_arrays_that_a_classifier_needs_are_named() -> None:
    model = seeded_classifier("gru", 3, 4, 2, rng=np.random.default_rng(0))
    for name in model.arrays():
        others = {key: array for key, array in model.arrays().items() if key != name}
        with pytest.raises(InvalidDataError, match=f"arrays: expected one of {name}, found none"):
            model.with_arrays(others)


def test_scores_of_another_form_are_refused() -> None:
    labels = np.array([0, 1])
    with pytest.raises(InvalidDataError, match="scores: expected floating numbers, found int64"):
        softmax_cross_entropy(np.zeros((2, 3), np.int64), labels)
    with pytest.raises(ShapeMismatchError, match=r"scores: expected shape \(S, C\), found \(2,\)"):
        softmax_cross_entropy(np.zeros(2), labels)


@pytest.mark.parametrize("limit", [0.0, -1.0, np.nan])
def test_a_limit_that_would_turn_gradients_around_is_refused(limit: float) -> None:
    with pytest.raises(InvalidDataError, match="limit: expected a number above 0"):
        clipped({"w": np.ones(2)}, limit)


@pytest.mark.parametrize(
    ("grad", "found"),
    [
        ([0.1, 0.2], "list"),
        (0.5, "float"),
        (np.array([3, 4]), "int64"),
        (np.array([0.1 + 1j]), "complex128"),
    ],
)
def test_gradients_that_cannot_be_scaled_are_refused(grad: Any, found: str) -> None:
    said = f"gradients: w: expected a floating-point array, found {found}"
    with pytest.raises(InvalidDataError, match=said):
        clipped({"v": np.ones(2), "w": grad}, 1.0)


def test_adam_refuses_what_does_not_fit_and_stays_as_it_was() -> None:
    weights = {"v": np.ones(2), "w": np.ones(2)}
    adam, same = Adam(), Adam()
    gradients = {"v": np.ones(2), "w": np.full(2, 0.5)}
    adam.moved(weights, gradients, rate=0.1)
    same.moved(weights, gradients, rate=0.1)
    wrong: list[tuple[Any, Any, float, str]] = [
        (weights, {"v": np.ones(2)}, 0.1, "gradients: expected one of w, found none"),
        (weights, {**gradients, "w": np.ones(1)}, 0.1, r"w: .* of shape \(2,\), found \(1,\)"),
        ({"v": np.ones(3)}, {"v": np.ones(3)}, 0.1, r"v: .* of shape \(3,\), found \(2,\)"),
        (weights, gradients, -0.1, "rate: expected 0 or more, found -0.1"),
        (weights, gradients, np.nan, "rate: expected 0 or more, found nan"),
    ]
    for given, grads, rate, said in wrong:
        with pytest.raises(InvalidDataError, match=said):
            adam.moved(given, grads, rate=rate)
    found = adam.moved(weights, gradients, rate=0.1)
    close(found["w"], same.moved(weights, gradients, rate=0.1)["w"], 0)
    for name, value in (("beta1", 1.0), ("beta2", 1.5), ("beta1", -0.1), ("epsilon", -1.0)):
        with pytest.raises(InvalidDataError, match=name):
            Adam(**{name: value})  # type: ignore[arg-type]


def test_missing_arguments_of_a_training_run_are_named() -> None:
    data, offsets = np.zeros((3, 4)), np.array([0, 3])
    with pytest.raises(InvalidDataError, match="rng: dropout needs one"):
        classify(model(), data, offsets, dropout=0.5)
    scored = classify(model(), data, offsets)
    with pytest.raises(InvalidDataError, match="keep=True"):
        classifier_gradients(model(), scored, np.zeros_like(scored.scores))


@pytest.mark.parametrize("pool", ["last", "mean"])
@pytest.mark.parametrize("kind", [np.int32, ">i8", np.uint64, list])
def test_offsets_of_a_classifier_are_any_integers(kind: Any, pool: str) -> None:
    rng = np.random.default_rng(0)
    model = seeded_classifier("gru", 3, 4, 5, pool=pool, rng=rng)
    data = rng.normal(size=(10, 3)).astype(np.float32)
    offsets = np.array([0, 3, 5, 10])
    given = offsets.tolist() if kind is list else offsets.astype(kind)
    expected, found = (classify(model, data, each, keep=True) for each in (offsets, given))
    np.testing.assert_array_equal(found.scores, expected.scores)
    grads = [
        classifier_gradients(model, one, np.ones_like(one.scores)) for one in (expected, found)
    ]
    for name, grad in grads[0].items():
        np.testing.assert_array_equal(grads[1][name], grad)


@pytest.mark.parametrize(
    ("weights", "gradient", "rate", "said"),
    [
        ([1.0], np.ones(1), 0.1, "weights: a: expected a floating-point array, found list"),
        (np.ones(1, int), np.ones(1), 0.1, "weights: a: expected .* found int64"),
        (np.ones(1), np.ones(1, int), 0.1, "gradients: a: expected .* found int64"),
        (np.ones(1), np.ones(1), "x", "rate: expected a float, found 'x'"),
    ],
)
def test_adam_names_arguments_of_wrong_types(
    weights: Any, gradient: Any, rate: Any, said: str
) -> None:
    with pytest.raises(InvalidDataError, match=said):
        Adam().moved({"a": weights}, {"a": gradient}, rate=rate)
