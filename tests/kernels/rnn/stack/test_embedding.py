"""Lookup of ids and its gradient: by hand, against torch, for any number of threads, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError, LodError, ShapeMismatchError
from lodcli.kernels.rnn.stack.embedding import (
    EMBEDDING,
    check_ids,
    embed,
    embed_grad,
    id_of_code,
    ids_of,
)
from lodcli.kernels.rnn.stack.state_dict import beside_rnns
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, Marks, Values
from tests.oracles_rnn import close


def test_the_rows_of_ids_and_the_sums_by_id_are_those_by_hand() -> None:
    table = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert embed([2, 0, 2], table).tolist() == [[5, 6], [1, 2], [5, 6]]
    upstream = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
    assert embed_grad(upstream, [2, 0, 2], 4).tolist() == [[2, 20], [0, 0], [5, 50], [0, 0]]
    nothing = np.zeros(0, np.int64)
    assert embed(nothing, table).shape == (0, 2)
    assert embed_grad(upstream[:0], nothing, 3).tolist() == [[0, 0]] * 3


@pytest.mark.parametrize("dtype", ["uint8", "int32", "uint64", ">i8"])
@pytest.mark.parametrize("count", [7, 3000])
def test_lookup_and_gradient_are_torchs(dtype: str, count: int) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(count)
    table, upstream = rng.normal(size=(50, 9)), rng.normal(size=(count, 9))
    ids = rng.integers(0, 40, count).astype(dtype)
    module = torch.nn.Embedding.from_pretrained(torch.from_numpy(table), freeze=False)
    wanted = module(torch.from_numpy(ids.astype(np.int64)))
    wanted.backward(torch.from_numpy(upstream))
    np.testing.assert_array_equal(embed(ids, table), wanted.detach().numpy())
    # Sums of up to 110 numbers of float64, in another order.
    close(embed_grad(upstream, ids, 50), module.weight.grad.numpy(), 1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_gradient_has_the_same_bits_for_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch, dtype: Any
) -> None:
    rng = np.random.default_rng(0)
    # One id is that of most rows, as a blank in text.
    ids = np.where(rng.random(20_000) < 0.7, 3, rng.integers(0, 90, 20_000))
    upstream = rng.normal(size=(20_000, 33)).astype(dtype)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setenv("LOD_THREADS", str(threads))
        found.append(embed_grad(upstream, ids, 100))
    assert found[0].dtype == dtype
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_arrays_that_are_strided_or_read_only_are_taken() -> None:
    rng = np.random.default_rng(0)
    wide, ids = rng.normal(size=(20, 8)), rng.integers(0, 20, 3000)
    ids.flags.writeable = False
    np.testing.assert_array_equal(embed(ids, wide[:, ::2]), wide[ids][:, ::2])
    upstream = rng.normal(size=(6000, 4))[::2]
    wanted = embed_grad(np.ascontiguousarray(upstream), ids, 20)
    np.testing.assert_array_equal(embed_grad(upstream, ids, 20), wanted)


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ([0, 3], "position 1: expected an id from 0 to 2, found 3: the embedding has 3 rows"),
        ([1, -1, 9], "position 1: expected an id from 0 to 2, found -1"),
        (np.array([2**63], np.uint64), f"position 0: .* found {2**63}"),
        ([0.0], r"ids: expected whole numbers of shape \(N,\), found float64"),
        ([[0]], r"ids: expected whole numbers of shape \(N,\), found int64 of shape \(1, 1\)"),
        ([True], "found bool"),
    ],
)
def test_ids_that_are_none_are_refused(ids: Any, said: str) -> None:
    with pytest.raises(InvalidDataError, match=said):
        embed(ids, np.ones((3, 2)))
    with pytest.raises(InvalidDataError, match=said):
        embed_grad(np.ones((len(ids), 2)), ids, 3)


def test_a_wrong_id_is_named_by_its_sequence() -> None:
    ids, offsets = np.array([0, 1, 2, 7, 1]), np.array([0, 2, 2, 5])
    said = "sequence 12, position 1: expected an id from 0 to 6, found 7"
    with pytest.raises(InvalidDataError, match=said):
        check_ids(ids, 7, offsets, before=10)


def test_arrays_of_other_forms_are_refused() -> None:
    wrong: list[tuple[Any, str]] = [
        (lambda: embed([0], np.ones(3)), r"expected \(ids, D\), found \(3,\)"),
        (lambda: embed([0], np.ones((0, 3))), r"expected \(ids, D\), found \(0, 3\)"),
        (lambda: embed([0], np.ones((3, 1), int)), "embedding.weight: expected floating numbers"),
        (lambda: embed_grad(np.ones((2, 1)), [0], 3), r"upstream: expected shape \(1, D\)"),
        (lambda: embed_grad(np.ones((1, 1), int), [0], 3), "upstream: expected floating numbers"),
    ]
    for call, said in wrong:
        with pytest.raises(LodError, match=said):
            call()
    with pytest.raises(ShapeMismatchError):
        embed_grad(np.ones(2), [0, 1], 3)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["rnn.weight_ih_l0", "embedding.weight"], "embedding.weight"),
        (["module.rnn.weight_ih_l0", "module.embedding.weight"], "module.embedding.weight"),
        (["a.weight_ih_l0", "b.weight_ih_l0", "embedding.weight"], "embedding.weight"),
        (["weight_ih_l0", "embedding.weight"], "embedding.weight"),
        (["encoder.rnn.weight_ih_l0", "decoder.embedding.weight", "embedding.weight"], None),
        (["encoder.rnn.weight_ih_l0", "rnn.weight_ih_l0", "embedding.weight"], "embedding.weight"),
        (["rnn.weight_ih_l0", "my_embedding.weight"], None),
    ],
)
def test_the_table_is_that_of_the_module_of_the_rnn(names: list[str], found: str | None) -> None:
    assert beside_rnns({name: np.ones(1) for name in names}, EMBEDDING) == found


def test_codes_of_other_categories_become_ids_by_their_words() -> None:
    words = ("a", "b", "c")
    marks = Marks(unit=Categories(("c", "a")))
    codes = id_of_code(words, marks)
    assert codes is not None
    assert ids_of(LoDTensor(np.array([1, 0, 1]), marks=marks), codes).tolist() == [0, 2, 0]
    for known, same in ((words, Categories(words)), (words, None), ((), Categories(("c",)))):
        assert id_of_code(known, Marks(unit=same)) is None


def test_an_unknown_category_is_an_error_only_in_a_row() -> None:
    marks = Marks(unit=Categories(("c", "d")))
    codes = id_of_code(("a", "b", "c"), marks)
    assert ids_of(LoDTensor(np.array([0, 0]), marks=marks), codes).tolist() == [2, 2]
    with pytest.raises(InvalidDataError, match="category 1 is 'd', which the embedding does not"):
        ids_of(LoDTensor(np.array([0, 1]), marks=marks), codes)


@pytest.mark.parametrize("kind", ["text", "bytes"])
def test_text_is_not_taken_for_ids_that_are_words(kind: Values) -> None:
    with pytest.raises(InvalidDataError, match=f"ids of the embedding are 2 words; found {kind}"):
        id_of_code(("a", "b"), Marks(kind))
    assert id_of_code((), Marks(kind)) is None
