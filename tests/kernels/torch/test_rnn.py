"""Layers for torch against torch's own, run over each sequence alone."""

from __future__ import annotations

import copy
import gc
import importlib
import io
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli import LoDTensor
from lodcli.errors import (
    InvalidDataError,
    InvalidLoDError,
    LodError,
    ShapeMismatchError,
    UnsupportedError,
)
from lodcli.kernels.rnn.stack.stack import StackTape, stack_backward

torch: Any = pytest.importorskip("torch")
ours: Any = lodcli.torch
autograd: Any = importlib.import_module("lodcli.kernels.torch.autograd")
rnn: Any = importlib.import_module("lodcli.kernels.torch.rnn")
run_layers = autograd.run_layers

LENGTHS = [2, 0, 4, 1, 4, 0, 3]  # ties, and empty ones
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("LSTM", {}),
    "lstm-deep": ("LSTM", {"num_layers": 2, "bidirectional": True}),
    "lstm-without-bias": ("LSTM", {"bias": False, "num_layers": 2}),
    "lstm-projection": ("LSTM", {"proj_size": 2, "bidirectional": True}),
    "gru": ("GRU", {"bidirectional": True}),
    "gru-deep": ("GRU", {"num_layers": 3, "dropout": 0.0}),
    "tanh": ("RNN", {"num_layers": 2}),
    "relu": ("RNN", {"nonlinearity": "relu", "bidirectional": True}),
}
FORMS = ["jagged", "jagged-gaps", "packed", "padded", "padded-batch-first", "varlen", "lod"]
# Sums over other orders of terms, in float64.
TOLERANCE = 1e-10


def layers(name: str, **more: Any) -> tuple[Any, Any]:
    """Return a layer of ours and one of torch with the same weights."""
    kind, options = CASES[name]
    torch.manual_seed(0)
    options = {"dtype": torch.float64, **options, **more}
    mine, theirs = (getattr(one, kind)(3, 4, **options) for one in (ours, torch.nn))
    mine.load_state_dict(theirs.state_dict())
    return mine, theirs


def states_of(layer: Any, count: int) -> Any:
    number = layer.num_layers * (2 if layer.bidirectional else 1)
    sizes = [layer.proj_size or layer.hidden_size, layer.hidden_size]
    hidden, cell = (
        torch.randn(number, count, size, dtype=torch.float64).requires_grad_() for size in sizes
    )
    return (hidden, cell) if layer.mode == "LSTM" else (hidden,)


def one_by_one(layer: Any, parts: list[Any], states: Any) -> tuple[Any, tuple[Any, ...]]:
    """Run torch's own layer over each sequence alone."""
    rows, last = [], []
    for place, part in enumerate(parts):
        begin = tuple(each[:, place] for each in states)
        if not len(part):
            last.append(begin)
            continue
        out, end = layer(part, begin if layer.mode == "LSTM" else begin[0])
        rows.append(out)
        last.append(end if layer.mode == "LSTM" else (end,))
    return torch.cat(rows), tuple(torch.stack(each, 1) for each in zip(*last, strict=True))


def given_as(form: str, parts: list[Any]) -> tuple[Any, dict[str, Any]]:
    lengths = torch.tensor([len(part) for part in parts])
    if form == "jagged":
        return torch.nested.as_nested_tensor(parts, layout=torch.jagged), {}
    if form == "packed":
        return torch.nn.utils.rnn.pack_sequence(parts, enforce_sorted=False), {}
    if form == "varlen":
        bounds = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).int()
        return ours.Varlen(torch.cat(parts), bounds, int(lengths.max())), {}
    if form == "lod":
        return LoDTensor(torch.cat(parts).detach().numpy(), [lengths.tolist()]), {}
    first = form != "padded"
    box = torch.nn.utils.rnn.pad_sequence(parts, batch_first=first, padding_value=7.0)
    if form == "jagged-gaps":
        starts = torch.zeros(len(parts), dtype=torch.int64)
        return torch.nested.narrow(box, 1, starts, lengths, layout=torch.jagged), {}
    return box, {"lengths": lengths}


def rows_of(form: str, found: Any, lengths: list[int]) -> Any:
    if form.startswith("jagged"):
        assert found.layout == torch.jagged
        return found.values()
    if form == "varlen":
        assert found.cu_seqlens.diff().tolist() == lengths
        return found.values
    if form == "lod":
        assert found.lod.lengths(-1).tolist() == lengths
        return torch.from_numpy(np.asarray(found.data))
    if form == "packed":
        found, _ = torch.nn.utils.rnn.pad_packed_sequence(found, batch_first=True)
    elif form == "padded":
        found = found.transpose(0, 1)
    mask = torch.arange(found.shape[1]) < torch.tensor(lengths)[:, None]
    assert (found[~mask] == 0).all()
    return found[mask]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CASES)
def test_a_layer_gives_what_torch_gives_for_each_sequence_alone(name: str, form: str) -> None:
    mine, theirs = layers(name, batch_first=form == "padded-batch-first")
    lengths = [each for each in LENGTHS if each or form != "packed"]
    parts = [torch.randn(each, 3, dtype=torch.float64).requires_grad_() for each in lengths]
    states = states_of(theirs, len(parts))
    inputs = [*parts, *states]

    rows, last = one_by_one(theirs, parts, states)
    weights = [torch.randn_like(each) for each in (rows, *last)]
    tracked = slice(1, None) if form == "lod" else slice(None)
    loss = sum((a * b).sum() for a, b in [*zip((rows, *last), weights, strict=True)][tracked])
    # The input of a LoDTensor is not tracked.
    wanted = torch.autograd.grad(loss, [*inputs, *theirs.parameters()], allow_unused=True)

    values, more = given_as(form, parts)
    outputs, ended = mine(values, states if mine.mode == "LSTM" else states[0], **more)
    ended = ended if mine.mode == "LSTM" else (ended,)
    found = rows_of(form, outputs, lengths)
    for a, b in zip((found, *ended), (rows, *last), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=TOLERANCE)
    loss = sum((a * b).sum() for a, b in [*zip((found, *ended), weights, strict=True)][tracked])
    got = torch.autograd.grad(loss, [*inputs, *mine.parameters()], allow_unused=True)
    if form == "lod":
        got, wanted = got[len(parts) :], wanted[len(parts) :]
    for a, b in zip(got, wanted, strict=True):
        if a is not None or (b is not None and b.numel() and b.any()):
            torch.testing.assert_close(
                a, torch.zeros_like(a) if b is None else b, rtol=0, atol=TOLERANCE
            )


@pytest.mark.parametrize("name", CASES)
def test_a_dense_batch_and_one_sequence_are_as_in_torch(name: str) -> None:
    for shape in [(5, 2, 3), (5, 3)]:
        for first in (False, True):
            mine, theirs = layers(name, batch_first=first)
            values = torch.randn(shape, dtype=torch.float64)
            outputs, last = mine(values)
            wanted, ended = theirs(values)
            torch.testing.assert_close(outputs, wanted, rtol=0, atol=TOLERANCE)
            torch.testing.assert_close(last, ended, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", ["lstm-deep", "gru", "relu"])
def test_gradcheck_passes(name: str) -> None:
    mine, _ = layers(name)
    states = states_of(mine, 3)
    rows = torch.randn(4, 3, 3, dtype=torch.float64, requires_grad=True)

    def run(rows: Any, *states: Any) -> Any:
        pair = states if mine.mode == "LSTM" else states[0]
        outputs, last = mine(rows, pair, lengths=[4, 0, 2])
        return (outputs, *last) if mine.mode == "LSTM" else (outputs, last)

    assert torch.autograd.gradcheck(run, (rows, *states))


def test_no_rows_and_no_sequences() -> None:
    mine, _ = layers("lstm-deep")
    for lengths in ([0, 0], []):
        rows = torch.zeros(0, 3, dtype=torch.float64, requires_grad=True)
        offsets = torch.zeros(len(lengths) + 1, dtype=torch.int64)
        jagged = torch.nested.nested_tensor_from_jagged(rows, offsets, min_seqlen=0, max_seqlen=0)
        outputs, (hidden, cell) = mine(jagged)
        assert outputs.values().shape == (0, 8)
        assert hidden.shape == cell.shape == (4, len(lengths), 4)
        (outputs.values().sum() + hidden.sum()).backward()
        assert rows.grad.shape == (0, 3)


def test_float32_runs_on_this_engine_and_other_dtypes_on_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def counted(*args: Any) -> Any:
        calls.append(args)
        return run_layers(*args)

    monkeypatch.setattr(rnn, "run_layers", counted)
    parts = [torch.randn(each, 3) for each in LENGTHS]
    for dtype, count in ((torch.float32, 1), (torch.bfloat16, 1)):
        mine, theirs = layers("lstm-deep", dtype=dtype)
        jagged = torch.nested.as_nested_tensor(
            [part.to(dtype) for part in parts], layout=torch.jagged
        )
        outputs, (hidden, _) = mine(jagged)
        assert outputs.dtype == hidden.dtype == dtype
        assert len(calls) == count
        wanted, _ = theirs(parts[2].to(dtype))
        torch.testing.assert_close(outputs.values()[2:6], wanted, rtol=0, atol=1e-2)


def test_threads_are_those_that_torch_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autograd, "thread_count", lambda: 3)
    for allowed, wanted in ((2, 2), (8, 3)):
        monkeypatch.setattr(torch, "get_num_threads", lambda allowed=allowed: allowed)
        assert autograd.threads() == wanted


@pytest.mark.parametrize("wanted", [False, True])
def test_the_gradient_of_the_input_is_computed_only_if_it_needs_one(
    monkeypatch: pytest.MonkeyPatch, wanted: bool
) -> None:
    asked = []

    def noted(*args: Any, input_gradient: bool, **more: Any) -> Any:
        asked.append(input_gradient)
        return stack_backward(*args, input_gradient=input_gradient, **more)

    monkeypatch.setattr("lodcli.kernels.torch.autograd.stack_backward", noted)
    layer, rows = rnn.LSTM(3, 4), torch.randn(5, 2, 3, requires_grad=wanted)
    layer(rows, lengths=torch.tensor([5, 2]))[0].sum().backward()
    assert asked == [wanted]
    assert (rows.grad is not None) == wanted
    assert layer.weight_ih_l0.grad is not None


def test_dropout_is_between_layers_and_while_training_only() -> None:
    mine, theirs = layers("lstm-deep", dropout=0.5)
    values = torch.randn(6, 2, 3, dtype=torch.float64)
    mine.eval()
    theirs.eval()
    torch.testing.assert_close(mine(values), theirs(values), rtol=0, atol=TOLERANCE)
    mine.train()
    torch.manual_seed(1)
    outputs, (hidden, _) = mine(values)
    assert hidden.shape == (4, 2, 4)
    torch.testing.assert_close(hidden[:2], mine.eval()(values)[1][0][:2])  # the first layer
    assert not torch.equal(outputs, mine(values)[0])
    # With all dropped, the second layer sees zeros.
    mine.train().dropout = 1.0
    zeros = torch.zeros(6, 2, 8, dtype=torch.float64)
    _, second = layers("lstm")
    second = torch.nn.LSTM(8, 4, bidirectional=True, dtype=torch.float64)
    second.load_state_dict(
        {
            key.replace("_l1", "_l0"): value
            for key, value in mine.state_dict().items()
            if "_l1" in key
        }
    )
    torch.testing.assert_close(mine(values)[0], second(zeros)[0], rtol=0, atol=TOLERANCE)


def test_tensors_changed_before_the_backward_pass_are_errors() -> None:
    mine, _ = layers("gru")
    values = torch.randn(5, 2, 3, dtype=torch.float64)
    outputs, _ = mine(values, lengths=[5, 5])
    with torch.no_grad():
        mine.weight_hh_l0 += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.sum().backward()


def test_outputs_may_be_changed_and_a_graph_used_twice() -> None:
    mine, _ = layers("gru")
    values = torch.randn(300, 20, 3, dtype=torch.float64)  # enough for compiled kernels
    outputs, _ = mine(values)
    wanted = torch.autograd.grad(outputs.sum(), mine.weight_hh_l0, retain_graph=True)
    outputs.data.zero_()
    torch.testing.assert_close(torch.autograd.grad(outputs.sum(), mine.weight_hh_l0), wanted)


def tapes() -> set[int]:
    gc.collect()
    return {id(each) for each in gc.get_objects() if type(each) is StackTape}


def test_a_loss_that_is_kept_keeps_no_tape_after_its_backward_pass() -> None:
    mine, _ = layers("lstm")
    before = tapes()
    loss = mine(torch.randn(5, 2, 3, dtype=torch.float64))[0].sum()
    loss.backward(retain_graph=True)
    assert tapes() - before
    loss.backward()
    assert tapes() <= before
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


@pytest.mark.parametrize("steps", [5, 500])  # by NumPy, and by compiled kernels
@pytest.mark.parametrize("name", ["lstm-deep", "gru"])
def test_a_checkpoint_keeps_no_tape_and_gives_the_same_gradients(name: str, steps: int) -> None:
    mine, _ = layers(name)
    values = torch.randn(steps, 20, 3, dtype=torch.float64, requires_grad=True)
    wanted = torch.autograd.grad(mine(values)[0].sum(), (values, *mine.parameters()))
    before = tapes()
    run = torch.utils.checkpoint.checkpoint
    outputs = run(lambda rows: mine(rows)[0], values, use_reentrant=False)
    assert tapes() <= before
    found = torch.autograd.grad(outputs.sum(), (values, *mine.parameters()))
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_saved_tensors_of_a_backward_pass_can_be_moved() -> None:
    mine, _ = layers("lstm")
    values = torch.randn(4, 2, 3, dtype=torch.float64)
    wanted = torch.autograd.grad(mine(values)[0].sum(), mine.weight_hh_l0)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.numpy().copy(), torch.from_numpy):
        outputs, _ = mine(values)
    torch.testing.assert_close(torch.autograd.grad(outputs.sum(), mine.weight_hh_l0), wanted)


@pytest.mark.parametrize("power", [1, 2])  # with 1 the gradient of the outputs is constant
def test_a_second_derivative_is_an_error(power: int) -> None:
    mine, _ = layers("lstm")
    values = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    outputs, _ = mine(values)
    (first,) = torch.autograd.grad(outputs.pow(power).sum(), values, create_graph=True)
    with pytest.raises(UnsupportedError, match="second derivatives are not supported"):
        (first.norm() + outputs.sum()).backward()


@pytest.mark.parametrize("name", ["hessian", "hvp", "vhp", "jvp"])
def test_functions_that_differentiate_twice_are_errors(name: str) -> None:
    mine, _ = layers("lstm")
    values = torch.randn(4, 2, 3, dtype=torch.float64)
    vector = () if name == "hessian" else (torch.ones_like(values),)
    with pytest.raises(UnsupportedError, match="second derivatives are not supported"):
        getattr(torch.autograd.functional, name)(lambda x: mine(x)[0].sum(), values, *vector)


def test_gradients_in_batches_are_an_error() -> None:
    mine, _ = layers("gru")
    values = torch.randn(4, 2, 3, dtype=torch.float64)
    with pytest.raises(UnsupportedError, match="gradients in batches are not supported"):
        torch.autograd.functional.jacobian(lambda x: mine(x)[0], values, vectorize=True)


def test_a_model_is_replaced_in_place_and_back() -> None:
    class Special(torch.nn.LSTM):  # type: ignore[misc]
        pass

    model = torch.nn.ModuleDict(
        {"a": torch.nn.LSTM(3, 4), "b": torch.nn.Sequential(torch.nn.RNN(3, 4)), "c": Special(3, 4)}
    )
    names, parameters = list(model.state_dict()), list(model.parameters())
    assert ours.replace(model) is model
    assert [type(model[key]) for key in "ac"] == [ours.LSTM, Special]
    assert type(model["b"][0]) is ours.RNN
    assert list(model.state_dict()) == names
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    assert type(copy.deepcopy(model)["a"]) is ours.LSTM
    file = io.BytesIO()
    torch.save(model["a"], file)
    assert b"lodcli.kernels" not in file.getvalue()
    file.seek(0)
    assert type(torch.load(file, weights_only=False)) is ours.LSTM
    ours.restore(model)
    assert [type(model[key]) for key in "ac"] == [torch.nn.LSTM, Special]
    alone = torch.nn.GRU(3, 4)
    assert type(ours.replace(alone)) is ours.GRU


@pytest.mark.parametrize(
    ("values", "more", "error", "said"),
    [
        (np.zeros((2, 3)), {}, InvalidDataError, "found ndarray"),
        (
            ours.Varlen(torch.zeros(5, 3), torch.tensor([0, 4]), 4),
            {},
            InvalidLoDError,
            r"position 1: .* \(expected 5, found 4\)",
        ),
        ((2, 5, 4), {}, ShapeMismatchError, "expected rows of 3 values, found \\(4,\\)"),
        ((3,), {}, ShapeMismatchError, "expected 2 or 3 dimensions"),
        ((2, 5, 3), {"lengths": [1, 3]}, InvalidDataError, "expected 5 whole numbers"),
        ((2, 2, 3), {"lengths": [1.0, 2.0]}, InvalidDataError, "of float64"),
        ((2, 2, 3), {"lengths": [1, 3]}, InvalidDataError, "position 1: expected 0 to 2 rows"),
        ((2, 2, 3), {"lengths": [-1, 3]}, InvalidDataError, "position 0: .* found -1"),
        (
            LoDTensor(np.zeros((2, 3)), [[1, 1]]),
            {"lengths": [1, 1]},
            InvalidDataError,
            "lengths: only for a padded tensor",
        ),
        ((2, 2, 3), {"hx": 3}, InvalidDataError, "hx: expected a pair"),
        ((2, 2, 3), {"hx": (np.zeros(3), 0)}, InvalidDataError, "hx: expected a tensor"),
    ],
)
def test_invalid_arguments_are_errors(
    values: Any, more: dict[str, Any], error: type[LodError], said: str
) -> None:
    mine, _ = layers("lstm")
    if type(values) is tuple:
        values = torch.zeros(values, dtype=torch.float64)
    with pytest.raises(error, match=said):
        mine(values, **more)


def test_only_a_module_has_layers_to_replace() -> None:
    nothing: Any = None
    for call in (lodcli.torch.replace, lodcli.torch.restore):
        with pytest.raises(
            InvalidDataError, match=r"model: expected a torch\.nn\.Module, found None"
        ):
            call(nothing)


def test_states_of_another_batch_are_an_error() -> None:
    mine, _ = layers("lstm")
    with pytest.raises(
        ShapeMismatchError, match=r"hx: expected shape \(1, 2, 4\) of torch.float64"
    ):
        mine(torch.zeros(5, 2, 3, dtype=torch.float64), states_of(mine, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_rows_of_another_dtype_than_the_weights_are_an_error(dtype: Any) -> None:
    mine, _ = layers("lstm")
    rows = torch.nested.nested_tensor(
        [torch.zeros(2, 3, dtype=dtype), torch.zeros(0, 3, dtype=dtype)], layout=torch.jagged
    )
    with pytest.raises(ShapeMismatchError, match=f"expected torch.float64, .* found {dtype}; conv"):
        mine(rows)


def test_the_advice_for_integers_is_to_convert_them() -> None:
    mine, _ = layers("lstm")
    with pytest.raises(ShapeMismatchError, match=r"int64; convert the input$"):
        mine(torch.zeros(2, 2, 3, dtype=torch.int64), lengths=[2, 2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_of_a_lod_tensor_stays(dtype: Any) -> None:
    mine, _ = layers("gru", dtype=dtype)
    jagged = torch.nested.as_nested_tensor(
        [torch.randn(each, 3).to(dtype) for each in LENGTHS], layout=torch.jagged
    )
    found, _ = mine(LoDTensor.from_torch(jagged))
    assert found.dtype.name == str(dtype).removeprefix("torch.")
    wanted = LoDTensor.from_torch(mine(jagged)[0].detach())
    assert found.identical(wanted)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the compiler
def test_a_compiled_model_gives_the_same() -> None:
    mine, _ = layers("gru-deep")
    values = torch.randn(5, 2, 3, dtype=torch.float64)

    def loss(values: Any) -> Any:
        outputs, last = mine(values * 2, lengths=[5, 3])
        return (outputs + 1).sum() + last.sum()

    wanted = loss(values)
    found = torch.compile(loss, backend="eager")(values)
    torch.testing.assert_close(found, wanted)
    for a, b in zip(
        *(torch.autograd.grad(each, [*mine.parameters()]) for each in (found, wanted)), strict=True
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.filterwarnings("ignore")
def test_a_layer_over_a_dense_tensor_is_traced_as_that_of_torch() -> None:
    mine, _ = layers("gru")
    first, second = torch.randn(2, 5, 2, 3, dtype=torch.float64)
    traced = torch.jit.trace(mine, (first,))
    torch.testing.assert_close(traced(second), mine(second), rtol=0, atol=TOLERANCE)
    with pytest.raises(UnsupportedError, match="over a dense tensor only"):
        torch.jit.trace(lambda values: mine(values, lengths=[5, 2])[0], (first,))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["lstm-deep", "gru"])
def test_a_layer_over_a_dense_tensor_is_exported_as_that_of_torch(name: str) -> None:
    mine, _ = layers(name)
    values = torch.randn(5, 2, 3, dtype=torch.float64)
    exported = torch.export.export(mine, (values,)).module()
    torch.testing.assert_close(exported(values), mine(values), rtol=0, atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("form", ["varlen", "lengths="])
def test_a_layer_over_sequences_says_that_it_cannot_be_exported(form: str) -> None:
    mine, _ = layers("gru")
    rows, bounds = torch.randn(4, 3, dtype=torch.float64), torch.tensor([0, 1, 4])

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.rnn = mine

        def forward(self, rows: Any, bounds: Any) -> Any:
            if form == "varlen":
                return self.rnn(ours.Varlen(rows, bounds, 3))[1]
            return self.rnn(rows[None], lengths=bounds[1:2])[1]

    with pytest.raises(UnsupportedError, match=r"torch.export.* over a dense tensor only, found"):
        torch.export.export(Model(), (rows, bounds), strict=False)


def test_layers_of_the_same_shapes_keep_their_own_options_and_arrays() -> None:
    rows = torch.randn(2, 5, 3, dtype=torch.float64)
    for nonlinearity in ("tanh", "relu", "tanh"):
        for seed in (0, 1):
            torch.manual_seed(seed)
            theirs = torch.nn.RNN(3, 3, nonlinearity=nonlinearity, dtype=torch.float64)
            mine = ours.RNN(3, 3, nonlinearity=nonlinearity, dtype=torch.float64)
            mine.load_state_dict(theirs.state_dict())
            torch.testing.assert_close(mine(rows)[0], theirs(rows)[0])


def test_a_weight_of_another_shape_is_refused_after_calls_that_fit() -> None:
    layer = ours.GRU(3, 4)
    rows = torch.ones(5, 1, 3)
    for _ in range(2):
        layer(rows)
    fitting, layer.bias_hh_l0 = layer.bias_hh_l0, torch.nn.Parameter(torch.ones(7))
    with pytest.raises(
        ShapeMismatchError, match=r"bias_hh_l0: expected shape \(12,\), found \(7,\)"
    ):
        layer(rows)
    layer.bias_hh_l0 = fitting
    layer(rows)
