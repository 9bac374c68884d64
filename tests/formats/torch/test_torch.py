"""torch: its forms of sequences in .pt files, both ways, against torch itself."""

from __future__ import annotations

import argparse
import collections
import os
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lodcli
from lodcli.formats.core import io
from lodcli.formats.core.limits import Limits
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.schema import Item, StoredArray
from lodcli.kernels.errors import InvalidDataError, LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.formats.cases.opening import batches_of, content, pipe
from tests.formats.cases.processes import lod
from tests.formats.cases.writing import saved
from tests.sampling import many
from tests.strategies import tensors

torch = pytest.importorskip("torch")
rnn = torch.nn.utils.rnn

MADE = Path(__file__).parents[1] / "made"
SEQUENCES = [[[0, 1], [2, 3], [4, 5]], [[-9, -8]], [[1, 1], [1, 1]]]
ROWS = [row for sequence in SEQUENCES for row in sequence]
WORDS = LoDTensor(np.arange(15.0), LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]]))


def load(path: Path) -> Any:
    """Return what torch makes of a file, with nothing but what it takes for safe."""
    return torch.load(path, weights_only=True)


def only(path: Path) -> Item:
    (item,) = io.read_all(path).values()
    return item


def written(path: Path, content: Any, form: str | None = None, **more: Any) -> Any:
    io.write(path, content, overwrite=True, form=form, **more)
    return load(path)


# -- files of torch ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["nested", "padded", "list"])
def test_files_of_torch_are_read(name: str) -> None:
    found = content(MADE / f"{name}.pt")["data"]
    assert found.data.tolist() == ROWS
    assert found.dtype == np.float32
    assert found.recursive_sequence_lengths() == [[3, 1, 2]]


def test_a_packed_sequence_is_a_tensor_array_with_its_order() -> None:
    item = only(MADE / "packed.pt")
    assert isinstance(item, StoredArray)
    assert item.index_map.order.tolist() == [0, 2, 1]
    assert [step.rows for step in item.array] == [3, 2, 1]
    packed = item.array.pack(0, item.index_map)
    assert packed.data.tolist() == ROWS
    assert packed.recursive_sequence_lengths() == [[3, 1, 2]]


def test_a_dict_is_several_tensors() -> None:
    found = io.read_all(MADE / "several.pt")
    assert set(found) == {"nested", "packed", "deep", "plain", "half"}
    assert found["deep"].recursive_sequence_lengths() == [[3, 0, 1], [3, 1, 2, 3]]
    assert found["deep"].data.tolist() == ROWS + SEQUENCES[0]
    assert found["half"].dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize("first", [0, 1])
def test_a_nested_tensor_with_holes_and_of_the_older_kind(tmp_path: Path, first: int) -> None:
    whole = torch.arange(24.0).reshape(2, 4, 3)
    starts, lengths = torch.tensor([first, 1]), torch.tensor([2, 3])
    narrow = torch.nested.narrow(whole, 1, starts, lengths, layout=torch.jagged)
    found = content(saved(tmp_path, narrow))["data"]
    assert found.recursive_sequence_lengths() == [[2, 3]]
    expected = [row for part in narrow.unbind() for row in part.tolist()]
    assert found.data.tolist() == expected
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch, of its own prototype
        older = torch.nested.nested_tensor([torch.zeros(2, 3), torch.ones(1, 3)])
    assert content(saved(tmp_path, older))["data"].recursive_sequence_lengths() == [[2, 1]]


@pytest.mark.parametrize(
    ("offsets", "lengths"),
    [
        ([0, 4, 2, 6], [2, 2, 2]),  # in another order
        ([2, 4, 4], [2, 2]),  # the last one without room before the last offset
        ([0, 1, 6], [2, 2]),  # overlapping
        ([6, 6, 6], [0, 0]),
        ([0], []),
    ],
    ids=str,
)
def test_sequences_with_lengths_are_those_of_unbind(
    tmp_path: Path, offsets: list[int], lengths: list[int]
) -> None:
    rows = torch.arange(12.0).reshape(6, 2)
    counts = torch.tensor(lengths, dtype=torch.int64)
    nested = torch.nested.nested_tensor_from_jagged(rows, torch.tensor(offsets), counts)
    found = content(saved(tmp_path, nested))["data"]
    assert found.to_list() == [part.tolist() for part in nested.unbind()]


def test_flat_dicts_are_named_as_in_npz_and_chosen_likewise(tmp_path: Path) -> None:
    value = {
        "data": torch.arange(3),
        "lod.0": torch.tensor([0, 1, 3]),
        "x/data": torch.ones(3),
        "x/lod.0": torch.tensor([0, 1, 3], dtype=torch.int32),
    }
    found = content(saved(tmp_path, value))
    assert found["x"].lod is found["data"].lod
    assert found["x"].recursive_sequence_lengths() == [[1, 2]]
    ids = {"ids": torch.arange(3), "cu": torch.tensor([0, 1, 3]), "max": torch.tensor(2)}
    chosen = content(saved(tmp_path, ids), data="ids", offsets=("cu",))
    assert chosen["ids"].recursive_sequence_lengths() == [[1, 2]]


def test_offsets_without_data_leave_out_no_list(tmp_path: Path) -> None:
    value = {
        "ids": torch.arange(3),
        "cu": torch.tensor([0, 1, 3]),
        "list": [torch.arange(2), torch.arange(1)],
    }
    found = content(saved(tmp_path, value), offsets=("cu",))
    assert {name: item.to_list() for name, item in found.items()} == {
        "ids": [[0], [1, 2]],
        "list": [[0, 1], [0]],
    }
    path = saved(tmp_path, value | {"epoch": 5})
    with pytest.raises(UnsupportedError, match=r"epoch: expected tensors, .*, found int"):
        content(path, offsets=("cu",))


def test_views_conjugates_and_parameters_are_read(tmp_path: Path) -> None:
    numbers = torch.tensor([[1 + 2j, 3 - 1j]]).conj()
    value = {
        "conj": numbers,
        "turned": torch.arange(6).reshape(2, 3).T,
        "weight": torch.nn.Parameter(torch.ones(2, 2)),
    }
    found = content(saved(tmp_path, value))
    assert found["conj"].data.tolist() == numbers.tolist()
    assert found["turned"].data.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found["weight"].data.tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("name", ["nested", "packed", "several"])
def test_files_can_be_read_in_isolation(name: str) -> None:
    path = MADE / f"{name}.pt"
    assert list(lodcli.read_all(path, limits=Limits(isolate=True))) == list(io.read_all(path))


# -- what we write -------------------------------------------------------------------


@pytest.fixture
def sequences() -> LoDTensor:
    return LoDTensor(np.array(ROWS, np.float32), [[3, 1, 2]])


def test_the_default_form_is_a_dict_of_rows_and_offsets(
    tmp_path: Path, sequences: LoDTensor
) -> None:
    found = written(tmp_path / "x.pt", sequences)
    assert set(found) == {"data", "lod.0"}
    nested = torch.nested.nested_tensor_from_jagged(found["data"], found["lod.0"])
    assert [part.tolist() for part in nested.unbind()] == SEQUENCES
    mixed = {"words": WORDS, "rows": LoDTensor(np.ones(3)), "steps": stored(sequences)}
    found = written(tmp_path / "x.pt", mixed)
    assert set(found) == {"words/data", "words/lod.0", "words/lod.1", "rows", "steps"}
    again = io.read_all(tmp_path / "x.pt")
    assert set(again) == set(mixed)


def test_tensors_are_written_in_their_order(tmp_path: Path, sequences: LoDTensor) -> None:
    given = {
        "ids": LoDTensor(np.arange(3)),
        "words": WORDS,
        "steps": stored(sequences),
        "pairs": sequences,
        "sums": LoDTensor(np.ones(3)),
    }
    arrays = list(written(tmp_path / "x.pt", given))
    assert list(dict.fromkeys(name.partition("/")[0] for name in arrays)) == list(given)


def stored(tensor: LoDTensor) -> StoredArray:
    return StoredArray(*TensorArray.unpack(tensor, 0, sort_by_length=True))


def test_a_tensor_named_like_an_index_is_no_index(tmp_path: Path) -> None:
    whole = {"data": LoDTensor([1.0, 2.0]), "lod.0": LoDTensor([0, 2]), "x": LoDTensor([3])}
    io.write(tmp_path / "t.pt", whole)
    found = content(tmp_path / "t.pt")
    assert {name: item.to_list() for name, item in found.items()} == {
        "data": [1.0, 2.0],
        "lod.0": [0, 2],
        "x": [3],
    }


def test_one_level_can_be_a_nested_tensor(tmp_path: Path, sequences: LoDTensor) -> None:
    found = written(tmp_path / "x.pt", sequences, "nested")
    assert found.layout == torch.jagged
    assert [part.tolist() for part in found.unbind()] == SEQUENCES


def test_nested_tensors_that_share_offsets_can_be_added(
    tmp_path: Path, sequences: LoDTensor
) -> None:
    found = written(tmp_path / "x.pt", {"a": sequences, "b": sequences}, "nested")
    assert (found["a"] + found["b"]).unbind()[1].tolist() == [[-18, -16]]


def test_packed_is_what_pack_sequence_makes(tmp_path: Path, sequences: LoDTensor) -> None:
    found = rnn.PackedSequence(**written(tmp_path / "x.pt", sequences, "packed"))
    expected = rnn.pack_sequence([torch.tensor(s) for s in SEQUENCES], enforce_sorted=False)
    for part in ("data", "batch_sizes", "sorted_indices", "unsorted_indices"):
        assert getattr(found, part).tolist() == getattr(expected, part).tolist()
    padded, lengths = rnn.pad_packed_sequence(found, batch_first=True)
    assert lengths.tolist() == [3, 1, 2]
    assert padded[2, :2].tolist() == SEQUENCES[2]


def test_padded_and_list(tmp_path: Path, sequences: LoDTensor) -> None:
    found = written(tmp_path / "x.pt", sequences, "padded")
    assert found["lengths"].tolist() == [3, 1, 2]
    assert found["padded"].tolist()[1] == [[-9, -8], [0, 0], [0, 0]]
    listed = written(tmp_path / "x.pt", WORDS, "list")
    assert [[part.tolist() for part in item] for item in listed] == [
        [[0, 1, 2], [3, 4], [5, 6, 7, 8]],
        [[9]],
        [[10, 11], [12, 13, 14]],
    ]


@pytest.mark.parametrize("rows", [6, 0])
def test_rows_that_share_memory_as_other_dtypes_are_written(rows: int, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    numbers = np.arange(2 * rows, dtype=np.float32)
    views: dict[str, Any] = {
        "a": numbers,
        "b": numbers.view(np.int32),
        "c": numbers.view(np.uint16),
    }
    lodcli.write(tmp_path / "t.pt", {name: LoDTensor(view) for name, view in views.items()})
    found = torch.load(tmp_path / "t.pt", weights_only=True)
    for name, view in views.items():
        np.testing.assert_array_equal(found[name].numpy(), view, strict=True)


def test_steps_that_share_memory_with_rows_of_another_dtype_are_written(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    numbers, lod = np.arange(6, dtype=np.float32), LoD.from_lengths([[3, 2, 1]])
    whole = stored(LoDTensor(numbers, lod))
    items: dict[str, Item] = {"rows": LoDTensor(numbers.view(np.int32), lod)}
    for dtype in (np.float32, np.int32, np.uint32):
        steps = LoDTensor(numbers.view(dtype), whole.array.steps.lod)
        items[np.dtype(dtype).name] = StoredArray(TensorArray.from_steps(steps), whole.index_map)
    for form in (None, "packed"):
        io.write(tmp_path / "t.pt", items, form=form, overwrite=True)
        found = io.read_all(tmp_path / "t.pt")
        for name, item in items.items():
            one = found[name]
            if isinstance(item, StoredArray):
                assert isinstance(one, StoredArray)
                rows, expected = one.array.steps.data, item.array.steps.data
                np.testing.assert_array_equal(rows, expected, strict=True)


def test_flat_and_cu_seqlens(tmp_path: Path) -> None:
    found = written(tmp_path / "x.pt", {"data": WORDS, "tags": WORDS}, "flat")
    assert found["tags/lod.1"].tolist() == [0, 3, 5, 9, 10, 12, 15]
    assert found["tags/lod.1"].data_ptr() == found["lod.1"].data_ptr()  # stored once
    packed = written(tmp_path / "x.pt", {"ids": WORDS}, cu_seqlens=("articles", "sentences"))
    assert set(packed) == {"ids", "articles", "sentences"}
    assert packed["articles"].dtype == torch.int32


FORMS = ("nested", "packed", "padded", "list", "flat")


@settings(
    deadline=None,
    max_examples=many(50, share=4),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(tensor=tensors(any_bits=True), form=st.sampled_from(FORMS))
def test_there_and_back_changes_no_bit_or_is_refused(
    tmp_path: Path, tensor: LoDTensor, form: str
) -> None:
    path = tmp_path / "x.pt"
    bare = LoDTensor(tensor.data, LoD(tensor.lod.levels))
    if not _holds(form, bare.lod):
        with pytest.raises(UnsupportedError, match=f"{form} holds"):
            io.write(path, bare, overwrite=True, form=form)
        return
    io.write(path, bare, overwrite=True, form=form)
    item = only(path)
    found = item.array.pack(0, item.index_map) if isinstance(item, StoredArray) else item
    assert found.identical(bare)


def _holds(form: str, lod: LoD) -> bool:
    if form == "flat":
        return True
    if form == "list":
        return lod.n_levels > 0 and lod.count(-1) > 0
    if form == "packed" and lod.n_levels == 1:
        return lod.count(0) > 0 and min(lod.recursive_sequence_lengths()[0]) > 0
    return lod.n_levels == 1


def test_a_tensor_array_comes_back_as_it_was(tmp_path: Path, sequences: LoDTensor) -> None:
    array, index_map = TensorArray.unpack(sequences, 0, sort_by_length=True)
    io.write(tmp_path / "x.pt", StoredArray(array, index_map))
    again = only(tmp_path / "x.pt")
    assert isinstance(again, StoredArray)
    assert again.index_map.order.tolist() == index_map.order.tolist()
    assert again.array.steps.data.tobytes() == array.steps.data.tobytes()


@pytest.mark.parametrize(
    ("form", "tensor", "message"),
    [
        ("nested", WORDS, "nested holds 1 level, data has 2; choose form='list' or 'flat'"),
        ("packed", WORDS, "packed holds 1 level"),
        ("padded", WORDS, "padded holds 1 level"),
        ("list", LoDTensor(np.zeros(3)), "list holds 1 level, data has 0; choose form='flat'"),
        ("packed", LoDTensor(np.zeros(2), [[2, 0]]), "holds no empty sequence, data has 1"),
        ("packed", LoDTensor(np.zeros(0), LoD([[0]])), "at least one sequence"),
    ],
)
def test_tensors_that_a_form_cannot_hold_are_refused(
    tmp_path: Path, form: str | None, tensor: LoDTensor, message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        io.write(tmp_path / "x.pt", tensor, form=form)
    assert not list(tmp_path.iterdir())


def test_a_tensor_array_that_is_not_sorted_is_refused(tmp_path: Path) -> None:
    tensor = LoDTensor(np.zeros(3), [[1, 2]])
    unsorted = StoredArray(*TensorArray.unpack(tensor, 0, sort_by_length=False))
    with pytest.raises(UnsupportedError, match="unpack data with sort_by_length=True"):
        io.write(tmp_path / "x.pt", unsorted)
    for form in ("nested", "flat"):
        with pytest.raises(UnsupportedError, match="only the form packed holds it"):
            io.write(tmp_path / "x.pt", unsorted, form=form)


def test_an_unknown_form_is_named(tmp_path: Path) -> None:
    with pytest.raises(SelectionError, match="no form 'x'; there are: nested, packed"):
        io.write(tmp_path / "x.pt", WORDS, form="x")


@pytest.mark.slow
def test_pipes_batches_and_a_full_disk(tmp_path: Path, sequences: LoDTensor) -> None:
    io.write(tmp_path / "x.pt", sequences)
    with pipe(tmp_path, ".bin", (tmp_path / "x.pt").read_bytes()) as path:
        assert content(path)["data"].identical(sequences)
    assert [batch["data"].rows for batch in batches_of(tmp_path / "x.pt", 1)] == [3, 1, 2]
    if Path("/dev/full").exists():
        code = (
            "import numpy as np\nfrom lodcli.formats.core import io\n"
            "from lodcli.kernels.tensor.lod_tensor import "
            "LoDTensor\nio.write('-', LoDTensor(np.zeros(10**6)), format_name='torch')"
        )
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", code],
                cwd=MADE.parents[2],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
            )
        size = "rows and offsets take 8,000,000 bytes"
        assert f"No space left on device; {size}: 'standard output'" in done.stderr


def test_without_torch_the_remedy_is_reported(tmp_path: Path) -> None:
    done = lod("inspect", MADE / "list.pt", without="torch")
    assert (done.returncode, done.stderr) == (0, "")
    assert "list.pt: torch, 1 tensor" in done.stdout
    done = lod("convert", MADE / "list.pt", tmp_path / "x.pt", without="torch")
    assert done.returncode == 4
    assert done.stderr == (
        f"lod convert: {tmp_path / 'x.pt'}: writing torch needs the package torch; "
        "pip install 'lodcli[torch]'\n"
    )


def test_a_big_file_is_in_memory_once(tmp_path: Path) -> None:
    path = saved(tmp_path, torch.zeros(1 << 22))
    tracemalloc.start()
    try:
        assert content(path)["data"].rows == 1 << 22
        assert tracemalloc.get_traced_memory()[1] < (16 << 20) + (4 << 20)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "value", [3, "x", None, {}, [], [[]], {None: torch.zeros(1)}, {"a": {"b": 3}}]
)
def test_values_that_are_no_tensors_are_named(tmp_path: Path, value: Any) -> None:
    with pytest.raises(LodError, match=r"expected|has no dtype|holds no tensor"):
        content(saved(tmp_path, value))


def test_values_of_a_dict_that_no_tensor_holds_can_be_left_out(tmp_path: Path) -> None:
    adam = torch.optim.Adam([torch.zeros(2)]).state_dict()
    model = {"weight": torch.arange(3.0), "num_batches_tracked": torch.tensor(7)}
    path = saved(tmp_path, {"epoch": 5, "model": model, "list": [torch.arange(2)], "adam": adam})
    others = "choose another tensor with FILE::NAME, or the rest with skip_unsupported=True"
    with pytest.raises(UnsupportedError, match=f"epoch: expected tensors, .*, found int; {others}"):
        io.read_all(path)
    skipping = ReadOptions(skip_unsupported=True)
    with lodcli.open(path, options=skipping) as file:
        assert list(file.left_out) == ["epoch", "adam.param_groups", "model.num_batches_tracked"]
        assert [spec.name for spec in file.schema] == ["list", "model.weight"]
    assert io.read(path, "model.weight").data.tolist() == [0, 1, 2]
    with pytest.raises(InvalidDataError, match="num_batches_tracked: is a single value"):
        io.read(path, "model.num_batches_tracked")
    with pytest.raises(UnsupportedError, match=r"epoch: expected tensors, .*, found int$"):
        io.read_all(saved(tmp_path, {"epoch": 5}), options=skipping)


def test_values_whose_keys_are_no_names_can_be_left_out(tmp_path: Path) -> None:
    odd = {0.5: torch.ones(1), None: 1, (1, 2): torch.ones(1), (3,): 1, torch.int8: {"x": 1}}
    path = saved(tmp_path, {"weight": torch.arange(3.0), "by": odd})
    with pytest.raises(
        UnsupportedError, match=r"by\.0\.5: a dict with the key 0\.5; expected name"
    ):
        io.read_all(path)
    with lodcli.open(path, skip_unsupported=True) as file:
        assert [spec.name for spec in file.schema] == ["weight"]
        reasons = [str(error) for error in file.left_out.values()]
    for what in ("the key 0.5", "the key None", "a key that is a tuple", "a key that is a Global"):
        assert sum(what in reason for reason in reasons) == 1, what


class _Many(list[int]):
    """A class derived from list: the pickle appends to its object."""


class _Named(dict[str, int]):
    """A class derived from dict: the pickle sets items of its object."""


def test_objects_of_other_classes_can_be_left_out(tmp_path: Path) -> None:
    bad = {
        "config": argparse.Namespace(layers=[1, 2], call=print),
        "many": _Many([1, 2]),
        "one": _Many([1]),
        "named": _Named(a=1, b=2),
        "names": collections.defaultdict(list, {"a": [1]}),
        "function": os.system,
        "sparse": torch.eye(2).to_sparse(),
        "small": torch.zeros(3).to(torch.float8_e5m2),
        "parameter": torch.nn.Parameter(torch.eye(2).to_sparse()),
        "list": [torch.zeros(2), argparse.Namespace()],
        "array": np.arange(3),
        "packed": {"data": _Many(), "batch_sizes": None, "sorted_indices": None,
                   "unsorted_indices": None},
        "padded": {"padded": torch.zeros(2, 2), "lengths": _Many()},
    }  # fmt: skip
    path = saved(tmp_path, {**bad, "weight": torch.arange(3.0)})
    refers = r"refers to argparse.Namespace; only tensors, lists, tuples and dicts are read"
    with pytest.raises(UnsupportedError, match=f"config: {refers}; choose another tensor with"):
        io.read_all(path)
    with lodcli.open(path, skip_unsupported=True) as file:
        assert set(file.left_out) == set(bad)
        assert [spec.name for spec in file.schema] == ["weight"]
        assert "a tensor of dtype float8_e5m2" in str(file.left_out["small"])
        assert "dicts are read; save arrays with torch.from_num" in str(file.left_out["array"])
        for name in bad.keys() - {"small"}:
            assert "refers to " in str(file.left_out[name]), name
    assert io.read(path, "weight").data.tolist() == [0, 1, 2]
    with pytest.raises(UnsupportedError, match=f"config: {refers}$"):
        io.read_all(saved(tmp_path, {"config": bad["config"]}))


@pytest.mark.parametrize(
    ("package", "remedy"),
    [("torch_geometric", r"save data\.to_dict\(\)"), ("tensordict", r"save td\.to_dict\(\)")],
)
def test_objects_of_other_packages_say_what_to_save(
    package: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType(package)
    kind = type("Data", (), {"__module__": package})
    monkeypatch.setattr(module, "Data", kind, raising=False)
    monkeypatch.setitem(sys.modules, package, module)
    torch.save(kind(), tmp_path / "x.pt")
    with pytest.raises(UnsupportedError, match=rf"{package}\.Data; .*; {remedy}$"):
        lodcli.read_all(tmp_path / "x.pt")
