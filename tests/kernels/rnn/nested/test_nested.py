"""Nested RNNs against torch, one sequence at a time, forward and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.rnn.nested.backward import nested_backward
from lodcli.kernels.rnn.nested.initial_states import Boot, boot_shape
from lodcli.kernels.rnn.nested.nested import NestedLevel, NestedRNN, nested_forward
from lodcli.kernels.rnn.nested.run import run_nested
from lodcli.kernels.rnn.stack.stack import RNNWeights, seeded_weights
from lodcli.kernels.rnn.stack.state_dict import state_dict
from lodcli.kernels.tensor.gather import take_items
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.oracles_nested import TorchNested
from tests.oracles_rnn import close

# float64: sums of some dozen products a step, some dozen steps.
TOLERANCE = 1e-10
NAMES = ["book", "article", "sentence"]
# Ties, an empty book, an empty article, empty sentences.
LOD = LoD.from_lengths([[2, 0, 3], [3, 0, 2, 3, 1], [2, 0, 3, 1, 4, 2, 2, 0, 3]], names=NAMES)
ROWS = 17


def rnn_of(*specs: dict[str, Any], seed: int = 3, width: int = 4) -> NestedRNN:
    """Return a chain, outermost first; sizes that all differ where nothing must be equal."""
    rng = np.random.default_rng(seed)
    levels: list[NestedLevel] = []
    weights: list[RNNWeights] = []
    for spec in reversed(specs):
        more = {name: spec[name] for name in ("layers", "bidirectional") if name in spec}
        made = seeded_weights(
            spec.get("cell", "gru"), width, spec["hidden"], rng=rng, dtype=np.float64, **more
        )
        weights.insert(0, made)
        width = made.output_size
    for number, spec in enumerate(specs):
        boot = None
        if "boot" in spec:
            rows, columns = boot_shape(weights[number - 1], weights[number])
            full = {"weight": rng.normal(size=(rows, columns)), "bias": rng.normal(size=rows)}
            boot = Boot(**{name: full[name] for name in spec["boot"]})
        levels.append(
            NestedLevel(spec["level"], weights[number], boot, reverse=spec.get("reverse", False))
        )
    return NestedRNN(tuple(levels))


WORDS = {"level": "sentence", "hidden": 3}
CHAINS: dict[str, tuple[dict[str, Any], ...]] = {
    "one": (WORDS,),
    "apart": ({"level": "article", "hidden": 5}, WORDS),
    "apart, every kind": (
        {"level": "article", "hidden": 5, "cell": "lstm", "bidirectional": True},
        {**WORDS, "cell": "elman", "layers": 2, "bidirectional": True},
    ),
    "booted": ({"level": "article", "hidden": 5}, {**WORDS, "boot": ("weight", "bias")}),
    "booted by the state itself": (
        {"level": "article", "hidden": 3, "layers": 2},
        {**WORDS, "boot": (), "layers": 2, "bidirectional": True},
    ),
    "booted lstm": (
        {"level": "article", "hidden": 5, "cell": "lstm", "layers": 2},
        {**WORDS, "cell": "lstm", "layers": 2, "boot": ("weight",)},
    ),
    "booted, from the end": (
        {"level": "article", "hidden": 5, "reverse": True},
        {**WORDS, "boot": ("bias", "weight"), "reverse": True},
    ),
    "over a level between": ({"level": "book", "hidden": 5}, {**WORDS, "boot": ("weight",)}),
    "three apart": ({"level": "book", "hidden": 2}, {"level": "article", "hidden": 5}, WORDS),
    "three booted": (
        {"level": "book", "hidden": 2, "cell": "lstm"},
        {"level": "article", "hidden": 5, "boot": ("weight", "bias")},
        {**WORDS, "boot": ("weight",), "cell": "lstm"},
    ),
    "three, the upper booted": (
        {"level": "book", "hidden": 2},
        {"level": "article", "hidden": 5, "boot": ("weight",)},
        {**WORDS, "bidirectional": True},
    ),
    "three, the lower booted": (
        {"level": "book", "hidden": 2, "bidirectional": True},
        {"level": "article", "hidden": 5},
        {**WORDS, "boot": ("weight",)},
    ),
}


def words() -> LoDTensor:
    return LoDTensor(np.random.default_rng(1).normal(size=(ROWS, 4)), LOD)


def items(tensor: LoDTensor, levels: list[int | str]) -> tuple[Any, list[Any]]:
    """Return the rows as a leaf of torch, and nested lists of them down to the last level's."""
    torch = pytest.importorskip("torch")
    data = torch.from_numpy(tensor.data).requires_grad_()
    numbers = [tensor.lod.level(level) for level in levels]

    def below(depth: int, number: int) -> range:
        start, stop = number, number + 1
        end = tensor.lod.n_levels if depth + 1 == len(numbers) else numbers[depth + 1]
        for offsets in tensor.lod.levels[numbers[depth] : end]:
            start, stop = int(offsets[start]), int(offsets[stop])
        return range(start, stop)

    def tree(depth: int, number: int) -> Any:
        inside = below(depth, number)
        if depth + 1 == len(numbers):
            return data[inside.start : inside.stop]
        return [tree(depth + 1, one) for one in inside]

    return data, [tree(0, number) for number in range(tensor.lod.count(levels[0]))]


@pytest.mark.parametrize("chain", CHAINS)
def test_states_and_gradients_are_those_of_torch(chain: str) -> None:
    torch = pytest.importorskip("torch")
    rnn, tensor, rng = rnn_of(*CHAINS[chain]), words(), np.random.default_rng(9)
    top = rnn.levels[0].weights
    count = len(top.layers) * top.directions
    sequences = tensor.lod.count(rnn.levels[0].level)
    hidden, cell = rng.normal(size=(2, count, sequences, top.hidden_size))
    has_cell = top.cell == "lstm"
    initial = {"initial_hidden": hidden} | ({"initial_cell": cell} if has_cell else {})
    found = run_nested(tensor, rnn, keep=True, **initial)

    model = TorchNested(rnn, torch)
    data, tree = items(tensor, [level.level for level in rnn.levels])
    starts = [torch.from_numpy(part).requires_grad_() for part in (hidden, cell)]
    outputs: list[list[Any]] = [[] for _ in rnn.levels]
    vectors, lasts = [], []
    for number, item in enumerate(tree):
        start = tuple(part[:, number] for part in starts)
        vector, state, steps = model.run(item, 0, start if has_cell else start[0])
        vectors.append(vector)
        lasts.append(state if has_cell else (state,))
        for whole, part in zip(outputs, steps, strict=True):
            whole.extend(part)
    joined = [torch.cat(part) for part in outputs]
    last = [torch.stack(part, dim=1) for part in zip(*lasts, strict=True)]
    for got, wanted in zip(found.states, joined, strict=True):
        close(got.data, wanted.detach().numpy(), TOLERANCE)
    close(found.last.data, torch.stack(vectors).detach().numpy(), TOLERANCE)
    close(found.last_hidden, last[0].detach().numpy(), TOLERANCE)

    upstream = [rng.normal(size=part.shape) for part in joined]
    upstream_last = [rng.normal(size=part.shape) for part in last]
    loss = sum(
        (part * torch.from_numpy(grad)).sum()
        for part, grad in zip([*joined, *last], [*upstream, *upstream_last], strict=True)
    )
    loss.backward()
    assert found.tape is not None
    gradients = nested_backward(
        found.tape,
        grad_states=tuple(upstream),
        grad_last_hidden=upstream_last[0],
        grad_last_cell=upstream_last[1] if has_cell else None,
    )
    close(gradients.input, data.grad.numpy(), TOLERANCE, "input")
    close(gradients.initial_hidden, starts[0].grad.numpy(), TOLERANCE, "initial hidden")
    if has_cell:
        close(gradients.initial_cell, starts[1].grad.numpy(), TOLERANCE, "initial cell")
    for level, module, boot in zip(gradients.levels, model.modules, model.boots, strict=True):
        wanted = dict(module.named_parameters())
        for name, array in state_dict(level.weights).items():
            close(array, wanted[name].grad.numpy(), TOLERANCE, name)
        arrays = {} if level.boot is None else level.boot.arrays()
        assert arrays.keys() == boot.keys()
        for name, array in arrays.items():
            close(array, boot[name].grad.numpy(), TOLERANCE, f"boot {name}")


@pytest.mark.parametrize("chain", ["apart", "booted", "three booted"])
def test_the_order_and_the_size_of_the_batch_do_not_matter(chain: str) -> None:
    rnn, tensor = rnn_of(*CHAINS[chain]), words()
    whole = run_nested(tensor, rnn)
    order = [2, 0, 1]
    turned = run_nested(take_items(tensor, order), rnn)
    outermost = tensor.lod.level(rnn.levels[0].level) == 0
    for got, wanted in zip(turned.states, whole.states, strict=True):
        close(got.data, take_items(wanted, order).data, 1e-13)
    for book in range(3):
        alone = run_nested(tensor[book : book + 1], rnn)
        close(alone.states[-1].data, whole.states[-1][book].data, 1e-13)
        if outermost:
            close(alone.last.data, whole.last.data[book : book + 1], 1e-13)


def test_states_are_indexed_by_the_levels_above() -> None:
    found = run_nested(words(), rnn_of(*CHAINS["three booted"]))
    assert [state.lod for state in found.states] == [
        LOD.above("article"),
        LOD.above("sentence"),
        LOD,
    ]
    assert found.last.lod.n_levels == 0


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize(
    "lengths", [[[], [], []], [[0, 0], [], []], [[2], [0, 0], []], [[1], [1], [0]]]
)
def test_a_batch_without_rows_has_states_and_gradients(
    chain: str, lengths: list[list[int]]
) -> None:
    lod = LoD.from_lengths(lengths, names=NAMES)
    rnn = rnn_of(*CHAINS[chain])
    found = run_nested(LoDTensor(np.zeros((0, 4)), lod), rnn, keep=True)
    assert found.tape is not None
    gradients = nested_backward(found.tape, grad_last_hidden=np.ones_like(found.last_hidden))
    assert gradients.input.shape == (0, 4)
    assert gradients.initial_hidden.shape == found.last_hidden.shape
    if not sum(lengths[0]):
        assert gradients.initial_hidden.tolist() == np.ones_like(found.last_hidden).tolist()
        assert not found.last.data.any()
        assert all(
            not array.any()
            for level in gradients.levels
            for array in state_dict(level.weights).values()
        )


def test_float32_stays_float32_whatever_the_weights_are() -> None:
    tensor = words().with_data(words().data.astype(np.float32))
    found = run_nested(tensor, rnn_of(*CHAINS["three booted"]), keep=True)
    assert found.tape is not None
    gradients = nested_backward(found.tape, grad_last_hidden=np.ones_like(found.last_hidden))
    boot = gradients.levels[1].boot
    assert boot is not None
    arrays = [*boot.arrays().values(), gradients.input, *(state.data for state in found.states)]
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}


def _level(level: int | str, width: int, hidden: int, **more: Any) -> NestedLevel:
    boot = more.pop("boot", None)
    rng = np.random.default_rng(0)
    return NestedLevel(level, seeded_weights("gru", width, hidden, rng=rng, **more), boot)


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ((), "at least one RNN"),
        ((_level(0, 4, 3, boot=Boot()),), "0: boots from the RNN above, but is the outermost"),
        ((_level(0, 4, 5), _level(1, 4, 3)), "0: weight_ih_l0 takes rows of 4, 1 gives 3"),
        (
            (_level(0, 3, 5, bidirectional=True), _level(1, 4, 3, boot=Boot())),
            "1: boots from 0, which is bidirectional",
        ),
        (
            (_level(0, 3, 5), _level(1, 4, 3, boot=Boot())),
            "the state above has 5 values, the initial state 3; a boot weight is needed",
        ),
        (
            (_level(0, 3, 5), _level(1, 4, 3, boot=Boot(np.zeros((5, 3))))),
            r"boot weight: expected shape \(3, 5\), found \(5, 3\)",
        ),
    ],
)
def test_a_chain_that_does_not_fit_is_refused(levels: Any, said: str) -> None:
    with pytest.raises(InvalidDataError, match=said):
        NestedRNN(levels)


def test_levels_and_shapes_that_do_not_fit_the_tensor_are_refused() -> None:
    with pytest.raises(SelectionError, match="no level named 'page'"):
        run_nested(words(), NestedRNN((_level("page", 4, 3),)))
    with pytest.raises(InvalidDataError, match=r"'sentence' \(level 2\) before 'book'"):
        run_nested(words(), NestedRNN((_level("sentence", 3, 3), _level("book", 4, 3))))
    chain = rnn_of(*CHAINS["booted"])
    with pytest.raises(ShapeMismatchError, match="hidden states: expected"):
        run_nested(words(), chain, initial_hidden=np.zeros((1, 2, 5)))
    found = run_nested(words(), chain, keep=True)
    assert found.tape is not None
    with pytest.raises(ShapeMismatchError, match="grad states: expected 2 of them, found 1"):
        nested_backward(found.tape, grad_states=(None,))
    for extra in (-1, 1):
        wrong = tuple(np.zeros((len(one.data) + extra, one.row_shape[0])) for one in found.states)
        for given in ((wrong[0], None), (None, wrong[1])):
            with pytest.raises(ShapeMismatchError, match=r"grad states, .*: expected shape"):
                nested_backward(found.tape, grad_states=given)
    deep = rnn_of(*CHAINS["booted by the state itself"])
    with pytest.raises(ShapeMismatchError, match="hidden states: expected"):
        run_nested(words(), deep, initial_hidden=np.zeros((5, 3)))


@pytest.mark.parametrize("scale", [1e30, 1e200])
def test_values_out_of_range_are_infinite_without_a_warning(scale: float) -> None:
    rng = np.random.default_rng(0)
    outer, inner = (
        seeded_weights("elman", width, 2, rng=rng, dtype=np.float64).with_options(
            nonlinearity="identity"
        )
        for width in (2, 3)
    )
    boot = Boot(weight=scale * rng.normal(size=(2, 2)), bias=np.zeros(2))
    rnn = NestedRNN((NestedLevel(0, outer), NestedLevel(1, inner, boot)))
    result = nested_forward(
        np.ones((5, 3), np.float32),
        (np.array([0, 3]), np.array([0, 2, 2, 5])),
        rnn,
        initial_hidden=np.full((1, 1, 2), 1e300),
        keep=True,
    )
    found = nested_backward(result.tape, grad_last_hidden=np.full((1, 1, 2), 1e300))
    assert not np.isfinite(found.initial_hidden).any()


@pytest.mark.parametrize("dtype", ["float16", "int64"])
def test_rows_that_are_neither_float32_nor_float64_are_refused(dtype: str) -> None:
    """In float16, ones added up by an outer RNN would stop at 2,048."""
    offsets = (np.array([0, 3]), np.arange(4))
    chain = rnn_of({"level": 0, "hidden": 2}, {"level": 1, "hidden": 2, "boot": ()})
    message = f"data: expected float32 or float64, found {dtype}"
    with pytest.raises(InvalidDataError, match=message):
        nested_forward(np.ones((3, 4), dtype), offsets, chain)
