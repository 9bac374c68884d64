"""Forms of sequences of torch: results in the form that the stub declares, and mixtures."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli import LoDTensor
from lodcli.errors import InvalidDataError, ShapeMismatchError
from tests.make_stubs import stub

torch: Any = pytest.importorskip("torch")
ours: Any = lodcli.torch

BOUNDS = torch.tensor([0, 2, 3, 7])
ROWS = torch.arange(28.0).reshape(7, 4)
LENGTHS = BOUNDS.diff()
FORMS: dict[str, Any] = {
    "jagged": torch.nested.nested_tensor_from_jagged(ROWS, BOUNDS),
    "varlen": ours.Varlen(ROWS, BOUNDS.int(), 4),
    "packed": torch.nn.utils.rnn.pack_sequence(ROWS.split([2, 1, 4]), enforce_sorted=False),
    "padded": (
        torch.nn.utils.rnn.pad_sequence(ROWS.split([2, 1, 4]), batch_first=True),
        LENGTHS,
    ),
    "lod": LoDTensor(ROWS.numpy(), [LENGTHS.tolist()]),
}
# Calls of every op whose stub returns the type of its one tensor, and the index of which is new.
CALLS: dict[str, Any] = {
    "concat": lambda x: ours.concat([x, x]),
    "conv": lambda x: ours.conv(
        x, np.ones((4, 2), np.float32), context_length=1, context_start=0, stride=2
    ),
    "deinterleave": lambda x: ours.deinterleave(x, 1)[0],
    "diff": lambda x: ours.diff(x, lag=0),
    "interleave": lambda x: ours.interleave([x, x]),
    "reorder_by_rank": lambda x: ours.reorder_by_rank(
        x, lodcli.ops.rank_table(lodcli.LoD.from_lengths([LENGTHS.tolist()]))
    ),
    "reshape": lambda x: ours.reshape(x, 2),
    "slice": lambda x: ours.slice(x, [0, 0, 1], [1, 1, 2]),
    "sort_by_length": lambda x: ours.sort_by_length(x),
    "split_by_mask": lambda x: ours.split_by_mask(x, np.array([True, False, True]))[1],
    "topk": lambda x: ours.topk(x, 1)[0],
    "truncate": lambda x: ours.truncate(x, 2),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", CALLS)
def test_a_new_index_is_returned_in_the_form_of_the_argument(name: str, form: str) -> None:
    given = FORMS[form]
    found = CALLS[name](given)
    assert type(found) is type(given)
    assert form != "padded" or len(found) == 2


def test_the_stub_declares_these_results() -> None:
    text = stub("lodcli.torch")
    for name in CALLS:
        (declared,) = re.findall(rf"^def {name}\([^)]*\) -> (.*): \.\.\.$", text, re.M)
        assert "_Given" in declared, name


def test_one_tensor_of_several_is_in_a_tuple_too() -> None:
    (found,) = ours.deinterleave(FORMS["jagged"], 1)
    assert torch.equal(found.values(), ROWS)


@pytest.mark.parametrize("form", ["jagged", "varlen", "packed"])
def test_a_list_of_lod_tensors_and_others_is_an_error(form: str) -> None:
    for given in ([FORMS["lod"], FORMS[form]], [FORMS[form], FORMS["lod"]]):
        with pytest.raises(InvalidDataError, match=r"concat: expected LoDTensors only, found a "):
            ours.concat(given)


@pytest.mark.parametrize("place", [0, 1])
def test_a_list_of_sequences_and_a_dense_tensor_is_an_error(place: int) -> None:
    given = [FORMS["jagged"]] * 2
    given[place] = ROWS
    said = (
        rf"^concat: tensors\[{place}\]: expected sequences as in the others, found a dense tensor"
    )
    with pytest.raises(InvalidDataError, match=said):
        ours.concat(given)


def test_an_op_without_a_gradient_is_found_elsewhere() -> None:
    with pytest.raises(AttributeError, match=r"attribute 'unique': .*; lodcli\.ops\.unique takes"):
        ours.unique  # noqa: B018


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda rows: ours.LSTM(4, 2)([rows, rows]), "layout=torch.jagged) makes one of a list"),
        (lambda rows: ours.GRU(4, 2)((rows, [7])), "padded tensor are given as lengths="),
        (lambda rows: ours.softmax([rows, rows, rows]), "torch.jagged) makes one of a list"),
        (lambda rows: ours.softmax([rows[0], rows[0]]), "torch.jagged) makes one of a list"),
        (
            lambda rows: ours.LSTM(4, 2)(rows[None], lengths=[7]),
            "expected 7 whole numbers, one for each sequence of axis 1 of the input, found",
        ),
        (
            lambda rows: ours.LSTM(4, 2, batch_first=True)(rows[:, None], lengths=[7]),
            "expected 7 whole numbers, one for each sequence of axis 0 of the input, found",
        ),
    ],
)
def test_an_error_about_a_form_says_how_to_give_it(call: Any, said: str) -> None:
    with pytest.raises(InvalidDataError, match=re.escape(said)):
        call(ROWS)


META = torch.device("meta")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: ours.sum(ours.Varlen(ROWS, BOUNDS.to(META), 4)),
            "sum: expected all tensors on the device cpu of the first, found one on the meta",
        ),
        (
            lambda: ours.add(ours.Varlen(ROWS, BOUNDS, 4), ROWS.to(META)),
            "add: expected all tensors on the device cpu of the first, found one on the meta",
        ),
        (
            lambda: ours.sum((ROWS[None], torch.tensor([7], device=META))),
            "lengths: is on the meta device, which has no values; make it on a CPU",
        ),
        (
            lambda: ours.GRU(4, 2)(ours.Varlen(ROWS, BOUNDS.to(META), 4)),
            "cu_seqlens: is on the meta device, which has no values; make it on a CPU",
        ),
        (
            lambda: ours.GRU(4, 2)(ours.Varlen(ROWS, BOUNDS, 4), torch.ones(1, 3, 2, device=META)),
            "hx: expected the device cpu of the input, found meta",
        ),
        (
            lambda: ours.GRU(4, 2)(ours.Varlen(ROWS.to(META), BOUNDS, 4)),
            "input: expected the device cpu of the weights, found meta; move the input",
        ),
        (
            lambda: LoDTensor.from_torch(ours.Varlen(ROWS, BOUNDS.to(META), 4)),
            "cu_seqlens: is on the meta device, which has no values; make it on a CPU",
        ),
        (
            lambda: LoDTensor.from_torch(
                torch.nested.nested_tensor_from_jagged(ROWS.to(META), BOUNDS.to(META))
            ),
            "offsets: is on the meta device, which has no values; make it on a CPU",
        ),
    ],
)
def test_tensors_on_several_devices_are_an_error(call: Any, said: str) -> None:
    with pytest.raises(InvalidDataError, match=re.escape(said)):
        call()


def test_varlen_moves_to_a_device_and_takes_other_rows() -> None:
    given = ours.Varlen(ROWS, BOUNDS.int(), 4)
    there = given.to("meta", non_blocking=True)
    assert isinstance(there, ours.Varlen)
    assert there.values.is_meta
    assert there.cu_seqlens.is_meta
    assert there.max_seqlen == 4
    ids = given.with_values(torch.arange(7))
    looked_up = ids.with_values(torch.nn.Embedding(7, 3)(ids.values))
    assert ours.LSTM(3, 2)(looked_up)[0].values.shape == (7, 2)
    assert looked_up.cu_seqlens is given.cu_seqlens


def test_a_dtype_is_that_of_the_values_of_a_varlen_alone() -> None:
    starts = torch.tensor([0, 2049, 4099], dtype=torch.int32)
    given = ours.Varlen(torch.zeros(4099), starts, 2050)
    half = torch.float16
    for found in (
        *(given.to(half), given.to("cpu", half), given.to("cpu", dtype=half), given.to(dtype=half)),
        given.to(torch.zeros(0, dtype=half)),
    ):
        assert found.values.dtype == half
        assert found.cu_seqlens.dtype == torch.int32
        assert found.cu_seqlens.tolist() == [0, 2049, 4099]
    assert given.to(device="meta").values.dtype == torch.float32
    assert given.to("meta", half).cu_seqlens.is_meta


@pytest.mark.parametrize("shape", [(6,), (8, 2), ()])
def test_another_number_of_rows_does_not_fit_a_varlen(shape: tuple[int, ...]) -> None:
    given = ours.Varlen(ROWS, BOUNDS.int(), 4)
    said = re.escape(f"values: expected 7 rows, found the shape {shape}")
    with pytest.raises(ShapeMismatchError, match=said):
        given.with_values(torch.zeros(shape))
    with pytest.raises(InvalidDataError, match="values: expected a tensor of torch, found list"):
        given.with_values([1] * 7)
