"""The sequence ops for torch: against torch's own ops on each sequence alone, and gradcheck."""

from __future__ import annotations

import doctest
import importlib
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli import LoDTensor
from lodcli.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.runtime.threads import thread_count
from tests.slow import one_in
from tests.strategies import BFLOAT16

torch: Any = pytest.importorskip("torch")
ours: Any = lodcli.torch

LENGTHS = [2, 0, 4, 1]
OFFSETS = torch.tensor([0, 2, 2, 6, 7])
FULL = torch.tensor([0, 2, 5, 6, 7])
KEPT = torch.tensor([2, 0, 1, 1])
TRACKED = sorted(name for name, op in OPS.items() if op.tracked)


def jagged(rows: Any, offsets: Any = OFFSETS) -> Any:
    return torch.nested.nested_tensor_from_jagged(rows, offsets)


def drawn(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


# Each calls an op on rows drawn of the shapes, N rows of LENGTHS or of the offsets it names.
Case = tuple[list[tuple[int, ...]], Callable[..., Any]]
ROWS = (7, 3)


def plain(name: str, **options: Any) -> Case:
    return [ROWS], lambda x: getattr(ours, name)(jagged(x), **options)


def two(name: str) -> Case:
    return [ROWS, ROWS], lambda x, y: getattr(ours, name)(jagged(x), jagged(y))


TABLE = [[2, 4], [0, 2], [3, 1], [1, 0]]
MASK = np.array([True, False, True, False])
PLAIN = [
    "cumprod",
    "cumsum",
    "diff",
    "log_softmax",
    "max",
    "max_index",
    "mean",
    "min",
    "min_index",
    "reverse",
    "shift",
    "softmax",
    "sort",
    "sort_by_length",
    "sqrt",
    "sum",
]
CASES: dict[str, Case] = {
    **{name: plain(name) for name in PLAIN},
    **{
        name: ([ROWS], lambda x, n=name: getattr(ours, n)(jagged(x, FULL)))
        for name in ("first", "last")
    },
    **{name: two(name) for name in ("add", "sub", "mul", "dot")},
    "div": ([ROWS, ROWS], lambda x, y: ours.div(jagged(x), jagged(y.abs() + 1))),
    "attention": (
        [(7, 2, 3), (7, 2, 3), (7, 2, 4)],
        lambda q, k, v: ours.attention(jagged(q), jagged(k), jagged(v), causal=True),
    ),
    "concat": (
        [ROWS, (5, 3)],
        lambda x, y: ours.concat([jagged(x), jagged(y, torch.tensor([0, 1, 3, 3, 5]))]),
    ),
    "conv": (
        [ROWS, (9, 2), (2, 3)],
        lambda x, w, p: ours.conv(jagged(x), w, context_length=3, context_start=-1, padding=p),
    ),
    "deinterleave": ([(7, 3)], lambda x: ours.deinterleave(jagged(x), 2)),
    "expand": ([(4, 3)], lambda x: ours.expand(x, jagged(torch.zeros(7, 1)))),
    "expand_as": ([(4, 3)], lambda x: ours.expand_as(x, jagged(torch.zeros(7, 1)))),
    "im2sequence": ([(2, 1, 4, 4)], lambda x: ours.im2sequence(x, kernels=[2, 2])),
    "interleave": ([ROWS, ROWS], lambda x, y: ours.interleave([jagged(x), jagged(y)])),
    "layer_norm": (
        [ROWS, (3,), (3,)],
        lambda x, w, b: ours.layer_norm(jagged(x), weight=w, bias=b),
    ),
    "linear_scan": (
        [ROWS, ROWS, (4, 3)],
        lambda a, b, h: ours.linear_scan(jagged(a), jagged(b), initial=h),
    ),
    "merge_by_mask": (
        [(6, 3), (1, 3)],
        lambda x, y: ours.merge_by_mask(
            jagged(x, torch.tensor([0, 2, 6])), jagged(y, torch.tensor([0, 0, 1])), MASK
        ),
    ),
    "pad": plain("pad", pad_value=7.0),
    "reorder_by_rank": ([ROWS], lambda x: ours.reorder_by_rank(jagged(x), TABLE)),
    "reshape": ([(7, 4)], lambda x: ours.reshape(jagged(x), 2)),
    "rms_norm": ([ROWS, (3,)], lambda x, w: ours.rms_norm(jagged(x), weight=w)),
    "row_conv": ([ROWS, (2, 3)], lambda x, w: ours.row_conv(jagged(x), w)),
    "scatter": (
        [(4, 5), (7,)],
        lambda x, u: ours.scatter(x, jagged(torch.tensor([0, 1, 2, 3, 4, 2, 0])), jagged(u)),
    ),
    "slice": ([ROWS], lambda x: ours.slice(jagged(x), [1, 0, 1, 0], [1, 0, 2, 1])),
    "split_by_mask": ([ROWS], lambda x: ours.split_by_mask(jagged(x), MASK)),
    "topk": ([ROWS], lambda x: ours.topk(jagged(x), 2)),
    "truncate": plain("truncate", length=2),
    "unpad": ([(4, 3, 2)], lambda x: ours.unpad(x, KEPT)),
    "windows": ([ROWS], lambda x: ours.windows(jagged(x), 1)),
}


def floats(found: Any) -> tuple[Any, ...]:
    """Return the rows of results that have a gradient."""
    parts = found if isinstance(found, tuple) else (found,)
    rows = [part.values() if part.is_nested else part for part in parts]
    return tuple(each for each in rows if each.is_floating_point())


def test_there_is_a_case_for_every_op_with_a_gradient() -> None:
    assert sorted(CASES) == TRACKED
    assert set(TRACKED) <= set(dir(ours))


@pytest.mark.parametrize("name", one_in(2, [name for name in TRACKED if name != "windows"]))
def test_gradcheck_passes(name: str) -> None:
    torch.manual_seed(0)
    shapes, call = CASES[name]
    inputs = [drawn(*shape) for shape in shapes]
    assert torch.autograd.gradcheck(lambda *rows: floats(call(*rows)), inputs)


# Whose gradients have the same factors for complex numbers as for real ones, and linear_scan.
COMPLEX = [
    *("concat", "cumsum", "deinterleave", "expand", "expand_as", "first", "interleave", "last"),
    *("linear_scan", "mean", "merge_by_mask", "pad", "reorder_by_rank", "reshape", "reverse"),
    *("slice", "sort_by_length", "split_by_mask", "sqrt", "sum", "truncate"),
]


@pytest.mark.parametrize("name", one_in(3, COMPLEX))
def test_gradcheck_passes_for_complex_numbers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of nested tensors: torch has no gradient of complex ones."""

    def varlen(rows: Any, offsets: Any = OFFSETS) -> Any:
        return ours.Varlen(rows, offsets.int(), 0)

    def results(*rows: Any) -> tuple[Any, ...]:
        found = call(*rows)
        parts = (found,) if isinstance(found, torch.Tensor | ours.Varlen) else found
        parts = [part.values if isinstance(part, ours.Varlen) else part for part in parts]
        return tuple(part for part in parts if part.is_complex())

    monkeypatch.setattr(sys.modules[__name__], "jagged", varlen)
    torch.manual_seed(0)
    shapes, call = CASES[name]
    inputs = [torch.randn(*shape, dtype=torch.complex128, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(results, inputs)


def test_conjugated_and_negated_views_are_what_they_mean() -> None:
    x = torch.randn(7, 3, dtype=torch.complex64)
    for view in (x.conj(), x.conj().imag):
        assert view.is_conj() or view.is_neg()
        torch.testing.assert_close(ours.reverse(ours.reverse(jagged(view))).values(), view)
        assert LoDTensor.from_torch(view).data.tolist() == view.tolist()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TRACKED)
def test_the_fake_kernel_tells_what_the_real_one_returns(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch.library.opcheck: schema, fake kernel, autograd registration, with dynamic shapes."""
    module = importlib.import_module("lodcli.kernels.torch.ops")
    shapes, call = CASES[name]
    getattr(ours, name)
    calls = []

    def recorded(op: Any, args: Any, named: Any) -> Any:
        forward = op.forward

        class Spied:
            entry, parameters, several = op.entry, op.parameters, op.several

            @staticmethod
            def forward(*flat: Any) -> Any:
                calls.append((forward, flat))
                return forward(*flat)

        return applied(Spied, args, named)

    applied = module._applied
    monkeypatch.setattr(module, "_applied", recorded)
    try:
        call(*(drawn(*shape) for shape in shapes))
    except UnsupportedError:
        assert name == "windows"
    ((forward, flat),) = calls
    torch.library.opcheck(forward, flat)


def parts_of(rows: Any) -> Any:
    return torch.split(rows, LENGTHS)


def joined(rows: Any, call: Callable[[Any], Any]) -> Any:
    return torch.cat([call(part) for part in parts_of(rows) if len(part)])


def pooled(rows: Any, call: Callable[[Any], Any]) -> Any:
    """Of an empty sequence there are zeros."""
    zeros = torch.zeros_like(rows[0])
    return torch.stack([call(part) if len(part) else zeros for part in parts_of(rows)])


# What torch gives, sequence by sequence.
COMPOSED: dict[str, Callable[[Any], Any]] = {
    "softmax": lambda x: joined(x, lambda part: part.softmax(0)),
    "log_softmax": lambda x: joined(x, lambda part: part.log_softmax(0)),
    "cumsum": lambda x: joined(x, lambda part: part.cumsum(0)),
    "cumprod": lambda x: joined(x, lambda part: part.cumprod(0)),
    "reverse": lambda x: joined(x, lambda part: part.flip(0)),
    "sort": lambda x: joined(x, lambda part: part.sort(0).values),
    "sum": lambda x: pooled(x, lambda part: part.sum(0)),
    "mean": lambda x: pooled(x, lambda part: part.mean(0)),
    "sqrt": lambda x: pooled(x, lambda part: part.sum(0) / len(part) ** 0.5),
    "max": lambda x: pooled(x, lambda part: part.max(0).values),
    "min": lambda x: pooled(x, lambda part: part.min(0).values),
    "pad": lambda x: torch.nn.utils.rnn.pad_sequence(
        parts_of(x), batch_first=True, padding_value=7.0
    ),
    "sort_by_length": lambda x: torch.cat([parts_of(x)[place] for place in (2, 0, 3, 1)]),
    "truncate": lambda x: joined(x, lambda part: part[:2]),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (3,)),
    "rms_norm": lambda x: torch.nn.functional.rms_norm(x, (3,), eps=1e-5),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_values_and_gradients_are_those_of_torch_on_each_sequence(name: str) -> None:
    torch.manual_seed(0)
    x = drawn(*ROWS)
    call = getattr(ours, name)
    chosen: dict[str, dict[str, Any]] = {"pad": {"pad_value": 7.0}, "truncate": {"length": 2}}
    options = chosen.get(name, {})
    found = floats(call(jagged(x), **options))[0]
    wanted = COMPOSED[name](x)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    weights = torch.randn_like(wanted)
    a, b = (torch.autograd.grad((each * weights).sum(), x)[0] for each in (found, wanted))
    torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_attention_is_that_of_torch() -> None:
    torch.manual_seed(0)
    q, k, v = drawn(7, 2, 3), drawn(7, 2, 3), drawn(7, 2, 4)
    found = ours.attention(jagged(q), jagged(k), jagged(v), causal=True).values()
    wanted = torch.cat(
        [
            torch.nn.functional.scaled_dot_product_attention(
                *(each.transpose(0, 1) for each in part), is_causal=True
            ).transpose(0, 1)
            for part in zip(*map(parts_of, (q, k, v)), strict=True)
            if len(part[0])
        ]
    )
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    for a, b in zip(
        *(torch.autograd.grad((y**2).sum(), (q, k, v)) for y in (found, wanted)), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def given_as(form: str, rows: Any) -> Any:
    parts = torch.split(rows, LENGTHS)
    if form == "packed":
        return torch.nn.utils.rnn.pack_sequence([*parts[:1], *parts[2:]], enforce_sorted=False)
    box = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True, padding_value=9.0)
    if form == "padded":
        return box, torch.tensor(LENGTHS)
    if form == "gaps":
        starts = torch.zeros(4, dtype=torch.int64)
        return torch.nested.narrow(box, 1, starts, torch.tensor(LENGTHS), layout=torch.jagged)
    if form == "varlen":
        return lodcli.LoDTensor([0.0] * 7, [LENGTHS]).to_torch("varlen")._replace(values=rows)
    if form == "lod":
        return LoDTensor(rows.detach().numpy(), [LENGTHS])
    return jagged(rows)


def taken_from(form: str, found: Any) -> Any:
    """Return the rows of a form, sequence by sequence."""
    if form == "lod":
        return torch.from_numpy(np.array(found.data))
    if form == "packed":
        box, lengths = torch.nn.utils.rnn.pad_packed_sequence(found, batch_first=True)
        return torch.cat([part[:count] for part, count in zip(box, lengths, strict=True)])
    if form == "padded":
        box, lengths = found
        assert all((part[count:] == 0).all() for part, count in zip(box, lengths, strict=True))
        return torch.cat([part[:count] for part, count in zip(box, lengths, strict=True)])
    if form == "varlen":
        bounds = found.cu_seqlens
        assert bounds.dtype == torch.int32
        assert found.max_seqlen >= bounds.diff().max()
        return found.values
    assert found.layout == torch.jagged
    return found.values()


@pytest.mark.parametrize("form", ["packed", "padded", "gaps", "varlen", "lod", "jagged"])
@pytest.mark.parametrize("name", ["softmax", "truncate", "sum"])
def test_the_result_has_the_form_of_the_argument(name: str, form: str) -> None:
    """An index kept, one made anew, and one row of each sequence."""
    torch.manual_seed(0)
    x = drawn(*ROWS)
    options = {"length": 2} if name == "truncate" else {}
    found = getattr(ours, name)(given_as(form, x), **options)
    if name != "sum":
        found = taken_from(form, found)
    elif form == "lod":
        assert isinstance(found, LoDTensor)
        found = torch.from_numpy(np.array(found.data))
    wanted = COMPOSED[name](x)
    if name == "sum" and form == "packed":
        wanted = wanted[[0, 2, 3]]
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    if form != "lod":
        a, b = (torch.autograd.grad((each**2).sum(), x)[0] for each in (found, wanted))
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_a_kept_index_is_the_same_for_torch() -> None:
    x = jagged(drawn(*ROWS))
    assert ours.softmax(x).offsets() is x.offsets()
    assert (ours.softmax(x) + x).shape == x.shape  # torch adds tensors with the same offsets


def test_a_convolution_with_a_stride_has_an_index_of_its_own() -> None:
    x, weight = drawn(*ROWS), drawn(9, 2)
    options = {"context_length": 3, "context_start": -1}
    whole = ours.conv(jagged(x), weight, **options)
    found = ours.conv(jagged(x), weight, stride=2, **options)
    assert found.offsets().tolist() == [0, 1, 1, 3, 4]
    torch.testing.assert_close(found.values(), whole.values()[[0, 2, 4, 6]])


def test_differences_have_the_index_of_the_rows_only_with_a_pad_value() -> None:
    x = jagged(drawn(*ROWS))
    found = ours.diff(x)
    assert found.offsets().tolist() == [0, 1, 1, 4, 4]
    padded = ours.diff(x, pad_value=0)
    assert padded.offsets() is x.offsets()
    torch.testing.assert_close(padded.values()[[1, 3, 4, 5]], found.values())
    assert (padded + x).shape == x.shape
    assert ours.shift(x, -1).offsets() is x.offsets()


def test_rows_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def softmax(tensor: LoDTensor, **options: Any) -> LoDTensor:
        seen.append(tensor.data)
        return softmax_itself(tensor, **options)

    softmax_itself = lodcli.ops.softmax
    monkeypatch.setattr(sys.modules[softmax_itself.__module__], "sequence_softmax", softmax)
    x = torch.randn(*ROWS)
    ours.softmax(jagged(x))
    assert seen[0].ctypes.data == x.data_ptr()


@pytest.mark.parametrize("name", ["add", "reverse", "reshape", "sort_by_length"])
def test_a_result_never_shares_memory_with_an_argument(name: str) -> None:
    for lengths in ([2, 0, 4, 1], [1] * 7):
        shapes, _ = CASES[name]
        x = torch.randn(7, 4 if name == "reshape" else 3, requires_grad=True)
        offsets = torch.tensor([0, *np.cumsum(lengths)])
        args = [jagged(x, offsets)] * len(shapes)
        (found,) = floats(getattr(ours, name)(*args, *([4] if name == "reshape" else [])))
        found.sum().backward()
        before = x.detach().clone()
        found.data.zero_()
        x.grad.zero_()
        assert torch.equal(x, before)


def test_autocast_computes_in_float32() -> None:
    x = torch.randn(*ROWS)
    weight = torch.nn.Parameter(torch.randn(9, 2))
    with torch.autocast("cpu", torch.bfloat16):
        half = jagged(x @ torch.eye(3))
        assert half.dtype == torch.bfloat16
        for found in (
            ours.softmax(half),
            ours.sum(half),
            ours.conv(half, weight, context_length=3, context_start=-1),
        ):
            assert found.dtype == torch.float32
    found.values().sum().backward()
    assert weight.grad.dtype == torch.float32
    # Without autocast the dtype stays; sums are made in float32.
    assert ours.softmax(half).dtype == torch.bfloat16


def test_no_rows_and_no_sequences() -> None:
    for offsets in ([0, 0, 0], [0]):
        x = torch.zeros(0, 3, requires_grad=True)
        index = torch.tensor(offsets)
        given = torch.nested.nested_tensor_from_jagged(x, index, min_seqlen=0, max_seqlen=0)
        assert ours.softmax(given).values().shape == (0, 3)
        found = ours.sum(given)
        assert found.shape == (len(offsets) - 1, 3)
        found.sum().backward()
        assert x.grad.shape == (0, 3)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 5, 2), (3, 0, 2), (3, 4, 0), (3, 4, 2, 0)])
def test_a_padded_batch_may_hold_nothing(shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape, requires_grad=True)
    lengths = torch.zeros(shape[0], dtype=torch.int64)
    found, kept = ours.softmax((x, lengths))
    assert found.shape == shape
    assert kept is lengths
    summed = ours.sum((x, lengths))
    assert summed.shape == (shape[0], *shape[2:])
    summed.sum().backward()
    assert x.grad.shape == shape


def test_whole_numbers_beside_what_has_a_gradient() -> None:
    x, whole = drawn(*ROWS), torch.arange(1, 22).reshape(ROWS)
    for name in ("add", "sub", "mul", "div", "dot"):
        op = getattr(ours, name)
        a, b = (
            torch.autograd.grad(floats(op(jagged(x), jagged(each)))[0].sum(), x)[0]
            for each in (whole, whole.double())
        )
        assert torch.equal(a, b)


def test_arrays_that_torch_does_not_take_are_copied() -> None:
    x, weight = jagged(torch.randn(*ROWS)), np.arange(6, dtype=np.float32).reshape(2, 3)
    wanted = ours.row_conv(x, torch.from_numpy(weight[::-1].copy())).values()
    for given in (weight[::-1], weight[::-1].astype(">f4"), weight[::-1].astype(BFLOAT16)):
        torch.testing.assert_close(ours.row_conv(x, given).values(), wanted)


def test_a_dtype_that_numpy_lacks_is_an_error() -> None:
    rows = torch.zeros(7, 3).to(torch.float8_e4m3fn)
    with pytest.raises(InvalidDataError, match=r"Float8.*convert them"):
        ours.sum(lodcli.torch.Varlen(rows, OFFSETS.int(), 4))


def test_an_op_is_registered_once_by_threads_that_ask_for_it_together() -> None:
    module = importlib.import_module("lodcli.kernels.torch.ops")
    registry = importlib.import_module("lodcli.kernels.torch.custom_ops")
    calls, begun = [], threading.Barrier(2)

    def registered(name: str) -> Any:
        calls.append(name)
        time.sleep(0.2)  # so that the other thread would register it, too
        return registry.custom_op(name)

    def asked() -> Any:
        begun.wait()
        return module.softmax

    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(module, "softmax", raising=False)
        patch.setattr(module, "custom_op", registered)
        with ThreadPoolExecutor(2) as threads:
            one, two = (each.result() for each in [threads.submit(asked) for _ in range(2)])
    assert one is two
    assert calls == ["softmax"]


def test_a_tuple_of_lod_tensors_is_taken_as_a_list() -> None:
    words = LoDTensor([1.0, 2.0, 3.0], [[2, 1]])
    assert ours.concat((words, words)).identical(lodcli.ops.concat([words, words]))


def test_bfloat16_of_torch_goes_beside_a_lod_tensor() -> None:
    words = LoDTensor.from_torch(torch.randn(3, 2).bfloat16()).data
    rows = LoDTensor(words, [[2, 1]])
    weight = torch.tensor([1.0, 2.0], dtype=torch.bfloat16, requires_grad=True)
    wanted = lodcli.ops.layer_norm(rows, weight=np.array([1.0, 2.0]))
    assert ours.layer_norm(rows, weight=weight).identical(wanted)


def test_gradients_of_only_one_of_several_results() -> None:
    x = drawn(*ROWS)
    true, false = ours.split_by_mask(jagged(x), MASK)
    (found,) = torch.autograd.grad(false.values().sum(), x)
    assert found[:, 0].tolist() == [0, 0, 0, 0, 0, 0, 1]
    assert true.values().shape == (6, 3)


def test_a_second_derivative_is_an_error() -> None:
    x = drawn(4, 4, 3)
    found, _ = ours.softmax((x, LENGTHS))
    (first,) = torch.autograd.grad(found.pow(2).sum(), x, create_graph=True)
    with pytest.raises(UnsupportedError, match="softmax: second derivatives are not supported"):
        first.sum().backward()


def varlen(rows: Any) -> Any:
    return ours.Varlen(rows, OFFSETS.int(), 4)


LAYER = ours.GRU(3, 4, batch_first=True).double()


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # of torch itself
@pytest.mark.parametrize(
    "call",
    [
        lambda x: ours.sum(varlen(x)),
        lambda x: ours.cumsum(varlen(x)).values,
        lambda x: ours.sum((x[None], [3])),
        lambda x: ours.concat([varlen(x)] * 2).values,
        lambda x: ours.mul(varlen(torch.ones(7, 3)), other=varlen(x)).values,
        lambda x: LAYER(x)[0],
        lambda x: LAYER(x[None], lengths=[3])[0],
    ],
)
def test_forward_mode_and_function_transforms_are_errors(call: Any) -> None:
    rows = drawn(*ROWS).detach()
    with torch.autograd.forward_ad.dual_level():
        call(rows)  # without a tangent
        dual = torch.autograd.forward_ad.make_dual(rows, torch.ones_like(rows))
        with pytest.raises(UnsupportedError, match="forward-mode differentiation are not supp"):
            call(dual)
    for transform, given in (
        (torch.func.grad(lambda x: call(x).sum()), rows),
        (torch.func.vmap(call), torch.stack([rows, rows])),
        (lambda x: torch.func.jvp(call, (x,), (x,)), rows),
    ):
        with pytest.raises(UnsupportedError, match=r"transforms of torch\.func"):
            transform(given)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: ours.softmax([1.0]), InvalidDataError, "or a padded tensor and lengths"),
        (lambda x: ours.softmax(3), InvalidDataError, "found int"),
        (lambda x: ours.softmax(x.values()), LodError, "no levels"),
        (lambda x: ours.softmax(x, levl=0), TypeError, "unexpected argument 'levl'"),
        (lambda x: ours.softmax(x, 0), TypeError, "takes 1 positional"),
        (lambda x: ours.truncate(x), TypeError, "needs the argument 'length'"),
        (lambda x: ours.softmax(x, level=1), LodError, "level"),
        (lambda x: ours.softmax(x, level="word"), LodError, "no names of levels, found 'word'"),
        (lambda x: ours.pad(x, level="word"), LodError, "pad: level: torch's forms have no names"),
        (lambda x: ours.softmax(x, level=1.5), LodError, "level: expected a whole number, found 1"),
        (lambda x: ours.sum(x, level=None), LodError, "level: expected a whole number, found None"),
        (lambda x: ours.sum(x, pad_value="x"), LodError, "sum: pad_value: expected a number"),
        (lambda x: ours.cumsum(x, reverse="x"), LodError, "reverse: expected True or False"),
        (lambda x: ours.truncate(x, 1, keep=None), LodError, "keep: expected a text, found None"),
        (lambda x: ours.topk(x, "a"), LodError, "topk: k: no tensor can be made of it"),
        (lambda x: ours.concat([]), LodError, "concat: tensors: expected at least one"),
        (lambda x: ours.concat(x), LodError, "expected a list of tensors, found NestedTensor"),
        (lambda x: ours.sum(ours.Varlen(x, [0, 7], 7)), LodError, "cu_seqlens: expected a tensor"),
        (lambda x: ours.windows(x, 2), UnsupportedError, "2 levels"),
        (
            lambda x: ours.sum(ours.Varlen(x.values(), OFFSETS / 1, 4)),
            InvalidDataError,
            "cu_seqlens: expected whole",
        ),
        (lambda x: ours.add(x, LoDTensor([1.0])), InvalidDataError, "LoDTensors only"),
        (lambda x: ours.softmax((x.values(), [3])), InvalidDataError, "lengths: expected 7"),
        (lambda x: ours.truncate(given_as("packed", x.values()), 0), InvalidDataError, "no empty"),
    ],
)
def test_invalid_arguments_are_errors(call: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call(jagged(torch.randn(*ROWS)))


@pytest.mark.parametrize("name", TRACKED)
def test_the_examples_of_a_docstring_run(name: str) -> None:
    """They are those of the op in lodcli.ops, on LoDTensors, under the short name."""
    function = getattr(ours, name)
    names = {"np": np, "LoDTensor": LoDTensor, "LoD": lodcli.LoD, name: function}
    text = function.__doc__
    for example in doctest.DocTestParser().get_examples(text):
        for other in OPS:
            if f"sequence_{other}(" in example.source:
                names[f"sequence_{other}"] = getattr(lodcli.ops, other)
    test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    results = doctest.DocTestRunner().run(test)
    assert results.failed == 0


def test_threads_are_those_that_torch_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []

    def softmax(tensor: LoDTensor, **options: Any) -> LoDTensor:
        counts.append(thread_count())
        return tensor * 1

    monkeypatch.setenv("LOD_THREADS", "3")
    monkeypatch.setattr(sys.modules[lodcli.ops.softmax.__module__], "sequence_softmax", softmax)
    for allowed in (2, 8):
        monkeypatch.setattr(torch, "get_num_threads", lambda allowed=allowed: allowed)
        ours.softmax(jagged(torch.randn(*ROWS)))
    assert counts == [2, 3]
    assert thread_count() == 3


class Model(torch.nn.Module):  # type: ignore[misc]
    """A kept index, a new one, and one row per sequence."""

    def forward(self, rows: Any, offsets: Any) -> Any:
        x = jagged(rows, offsets)
        x = ours.concat([ours.softmax(x * 2) * x, x])
        return ours.sum(ours.truncate(x, 4)).sum() + ours.pad(x)[0].mean()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the compiler
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_compiled_model_gives_the_same_in_one_graph(backend: str) -> None:
    torch.manual_seed(0)
    x, model = drawn(*ROWS), Model()
    torch.compiler.reset()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    for rows, offsets in ((x, OFFSETS), (drawn(9, 3), torch.tensor([0, 5, 5, 6, 9]))):
        found, wanted = compiled(rows, offsets), model(rows, offsets)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
        a, b = (torch.autograd.grad(each, rows)[0] for each in (found, wanted))
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_model_over_varlen_sequences_is_exported() -> None:
    """Not one over nested tensors: torch cannot export what makes them."""

    class Exported(torch.nn.Module):  # type: ignore[misc]
        def forward(self, rows: Any, cu_seqlens: Any) -> Any:
            given = lodcli.torch.Varlen(rows, cu_seqlens, 0)
            return ours.sum(ours.softmax(given))

    model, x = Exported(), torch.randn(*ROWS)
    dim = torch.export.Dim.AUTO
    exported = torch.export.export(
        model, (x, OFFSETS.int()), dynamic_shapes=({0: dim}, {0: dim})
    ).module()
    other, bounds = torch.randn(9, 3), torch.tensor([0, 0, 9], dtype=torch.int32)
    torch.testing.assert_close(exported(other, bounds), model(other, bounds))


class Forked(torch.utils.data.Dataset):  # type: ignore[misc]
    """Runs an op in a worker of a DataLoader, of enough rows for several threads."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, place: int) -> Any:
        return summed(place)


def summed(place: int) -> Any:
    rows = torch.full((70_000, 64), float(place), requires_grad=True)
    found = ours.sum(jagged(rows, torch.tensor([0, 30_000, 70_000])))
    found.sum().backward()
    return found.detach()[:, 0] + rows.grad[0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_worker_of_a_data_loader_computes(context: str) -> None:
    wanted = [summed(place).tolist() for place in range(3)]  # and the threads are there to fork
    loader = torch.utils.data.DataLoader(
        Forked(), batch_size=None, num_workers=1, multiprocessing_context=context, timeout=300
    )
    assert [each.tolist() for each in loader] == wanted
