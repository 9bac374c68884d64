"""What is no data, no index, no name of a level and no attribute is refused in our words."""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError, InvalidLoDError, LodError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Decimals, Marks, Times
from lodcli.kernels.tensor.nulls import Nulls
from lodcli.kernels.tensor.numpy_protocol import _AS_METHODS

WORDS = LoDTensor(np.arange(6.0), [[3, 1, 2]])
RAGGED = [[1, 2], [3]]
DAYS = LoDTensor.from_lists([[date(2024, 5, 1)], [date(2024, 5, 2)]])


def torch_tensor(make: str) -> Any:
    torch = pytest.importorskip("torch")
    return {
        "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(1)]),
        "jagged": lambda: torch.nested.nested_tensor(
            [torch.ones(2), torch.ones(1)], layout=torch.jagged
        ),
        "gradient": lambda: torch.ones(3, requires_grad=True),
        "sparse": lambda: torch.ones(3).to_sparse(),
        "bfloat16": lambda: torch.ones(3, dtype=torch.bfloat16),
    }[make]()


def other_array(make: str) -> Any:
    module, _, name = make.partition(".")
    return getattr(pytest.importorskip(module), name)(RAGGED)


NESTED_IN_ITSELF: list[Any] = []
NESTED_IN_ITSELF.append(NESTED_IN_ITSELF)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: RAGGED, r"flat rows and lengths, LoDTensor\(\[1, 2, 3\], \[\[2, 1\]\]\)"),
        (lambda: [[[1], [2]], [[3]]], "flat rows and lengths"),
        (
            lambda: RAGGED,
            "LoDTensor.from_lists takes nested lists and text, and from_arrays",
        ),
        (
            lambda: np.array([[1, 2], [3]], object),
            "found object; LoDTensor.from_lists takes nested lists",
        ),
        (lambda: other_array("awkward.Array"), "flat rows and lengths"),
        (lambda: other_array("pyarrow.array"), "flat rows and lengths"),
        (lambda: other_array("pandas.Series"), "flat rows and lengths"),
        (lambda: other_array("polars.Series"), "flat rows and lengths"),
        (lambda: torch_tensor("nested"), r"torch.cat\(nested.unbind\(\)\)"),
        (lambda: torch_tensor("jagged"), r"torch.cat\(nested.unbind\(\)\)"),
        (lambda: torch_tensor("gradient"), "detach"),
        (lambda: torch_tensor("sparse"), "no array can be made of this Tensor"),
        (
            lambda: torch_tensor("bfloat16"),
            r"from_lengths\(data, lengths\) takes bfloat16 of torch",
        ),
        (lambda: np.ma.array([1, 2], mask=[False, True]), r"nulls=Nulls.of\(\[None, ~data.mask"),
        (lambda: np.array(["2020"], "M8[s]"), "times are stored as int64 with a mark"),
        (lambda: np.array([1], "m8[s]"), r"found timedelta64\[s\]; times are stored as int64"),
        (lambda: np.zeros(2, "i4, f4"), "give each field as a separate tensor"),
        (lambda: np.zeros(2, np.longdouble), r'data.astype\("float64"\)'),
        (lambda: np.zeros(2, np.clongdouble), r'data.astype\("complex128"\)'),
        (lambda: np.array(["a"]), "text is stored as its bytes, uint8; LoDTensor.from_lists makes"),
        (lambda: np.array(["a"], object), "LoDTensor.from_lists takes nested lists and text"),
        (lambda: None, "found NoneType"),
        (lambda: {"a": [1]}, "found dict"),
        (lambda: {1, 2}, "found set"),
        (lambda: (n for n in range(3)), "found generator"),
        (lambda: "text", "found str"),
        (lambda: b"text", "found bytes"),
        (lambda: 2**70, "found int"),
        (lambda: WORDS, r"take tensor\.data"),
        (
            lambda: DAYS[0],
            r"a LoDTensor of date, which would be lost; as_numbers\(\) returns a ten",
        ),
        (
            lambda: list(DAYS),
            r"of date, .*; LoDTensor.from_lists\(\[one.to_list\(\) for one in data",
        ),
        (
            lambda: [list(DAYS)],
            r"of date, .*; LoDTensor.from_lists takes nested lists of what to_list\(\) of each",
        ),
        (lambda: [[1, 2], DAYS], r"of date, .*; LoDTensor.from_lists\(\[one.to_list"),
        (lambda: [(1, 2), list(DAYS)], r"of date, .*; LoDTensor.from_lists takes nested lists"),
        (lambda: [[[1, 2], [1, 2]], [[1, 2], DAYS]], r"of date, .*; LoDTensor.from_lists takes"),
        (lambda: NESTED_IN_ITSELF, "no array can be made of this list"),
    ],
)
def test_an_argument_that_is_no_data_is_refused_with_a_remedy(
    make: Callable[[], Any], said: str
) -> None:
    with pytest.raises(LodError, match=said) as caught:
        LoDTensor(make())
    assert "\n" not in str(caught.value)


def test_marks_of_other_classes_are_ignored() -> None:
    class Student(np.ndarray):
        marks = 3

    graded = np.arange(2).view(Student)
    for given in (graded, [graded, graded]):
        np.testing.assert_array_equal(LoDTensor(given).data, np.asarray(given))


@pytest.mark.parametrize(
    ("lod", "said"),
    [
        ([2, 1], r"a list in a list, \[\[2, ..\]\]"),
        (np.array([2, 1]), "a list in a list"),
        (3, "found int"),
        ("ab", "found str"),
        ({"a": [2, 1]}, "found dict"),
        ([["a"]], "must be integers"),
        ([[2.0, 1.0]], "must be integers, found float64"),
        ([[True, False]], "must be integers, found bool"),
        ([[None]], "must be integers"),
        ([[[2, 1]]], "must be 1-D, found 2"),
        ([RAGGED], "must be a flat list of integers"),
        ([(count for count in (2, 1))], "must be a flat list of integers, found generator$"),
        (["21"], "must be a flat list of integers, found str$"),
        ([2, 1], r"those of one level are a list in a list, \[\[2, \.\.\]\]"),
        ([[2**62, 2**62]], "total below 2"),
        ([[2**63, 1]], "at most 2|must be integers"),
        ([[2**70]], "must be integers"),
        (WORDS, "must be integers|must be 1-D"),
        (object(), "found object"),
    ],
)
def test_an_argument_that_is_no_index_is_an_error_of_lod(lod: Any, said: str) -> None:
    with pytest.raises(InvalidLoDError, match=said):
        LoDTensor(np.zeros(3), lod)


@pytest.mark.parametrize("names", ["ab", 3, ["a", "b"], [3], [b"a"], ["1"], [""], {"a": 1}])
def test_invalid_names_of_levels_are_an_error_of_lod(names: Any) -> None:
    with pytest.raises(InvalidLoDError, match="name"):
        LoD([[0, 3]], names)


@pytest.mark.parametrize(
    ("of", "method", "given", "said"),
    [
        (WORDS.lod, "items", (0, "a", 2), r"LoD\.items: start: expected an int, found 'a'"),
        (WORDS.lod, "part", (0, 1, 2.5), r"LoD\.part: stop: expected an int, found float"),
        (WORDS.lod, "part", (1, 0, 1), "no level 1: there is 1 level"),
        (WORDS.lod, "difference", ([[3]],), r"difference: other: expected a LoD, .*lengths\)"),
        (WORDS.lod, "same_levels", (None,), r"other: expected a LoD, found None; .*lengths\)"),
        (WORDS, "concatenate", ({"a": WORDS},), "parts: expected a sequence of LoDTensor"),
        (WORDS, "concatenate", ({1: WORDS}.values(),), "of LoDTensor, found dict_values"),
        (WORDS, "__getitem__", ([[1], 2],), "key: no array can be made of it"),
        (WORDS, "cut", (1,), r"LoDTensor\.cut: selection: expected a Selection, found int"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(
    of: LoD | LoDTensor, method: str, given: tuple[Any, ...], said: str
) -> None:
    with pytest.raises(LodError, match=said):
        getattr(of, method)(*given)


def test_a_message_that_quotes_an_array_is_one_line() -> None:
    box: Any = np.ones((2, 2))
    with pytest.raises(LodError, match=r"not array\(\[\[1., 1.\], \[1., 1.\]\]\)$"):
        WORDS.lod.level(box)


@pytest.mark.parametrize("kind", ["pyarrow", "polars", "pandas.Int64", "pandas.arrow"])
def test_nulls_of_other_libraries_are_not_made_nan(kind: str) -> None:
    package, _, dtype = kind.partition(".")
    library, pa = pytest.importorskip(package), pytest.importorskip("pyarrow")
    values = [2**53 + 1, None]
    if package == "pandas":
        dtype = "int64[pyarrow]" if dtype == "arrow" else dtype
        array = library.Series(values, dtype=dtype)
    else:
        array = library.array(values) if package == "pyarrow" else library.Series(values)
    with pytest.raises(InvalidDataError, match=r"with nulls.*LoDTensor\.from_arrow\(.*keeps"):
        LoDTensor(array, [[2]])
    assert LoDTensor.from_arrow(pa.array(array)).to_list() == values
    assert LoDTensor(array[:1], [[1]]).data.tolist() == values[:1]


def test_not_a_number_is_no_null() -> None:
    pandas = pytest.importorskip("pandas")
    assert np.isnan(LoDTensor(pandas.Series([1.0, np.nan])).data).tolist() == [False, True]


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (Marks, [Times("date", "D")], r"found date\[D\], which is a unit: Marks\(unit=Times"),
        (Marks, ["words"], "Marks: values: expected 'text' or 'bytes' or None, found 'words'"),
        (Marks, [None, "text"], "Marks: unit: expected a Times or .*, found 'text'"),
        (Marks, [None, None, (), {}], "Marks: attributes: expected a str, found dict"),
        (Times, ["date", 1], "Times: unit: expected a str, found int"),
        (Times, ["timestamp", "s", 3], "Times: zone: expected a str or None, found int"),
        (Decimals, ["5", 2], "Decimals: precision: expected an int, found '5'"),
        (Nulls, [3], "Nulls: masks: expected a sequence of ndarray, found int"),
        (Nulls.of, [3], "Nulls.of: masks: expected a sequence, found int"),
        (Nulls.of, [[["x", []]]], "nulls: a mask: no array can be made of it"),
    ],
)
def test_marks_and_nulls_of_wrong_types_are_refused(kind: Any, given: list[Any], said: str) -> None:
    with pytest.raises(InvalidDataError, match=said):
        kind(*given)


def test_times_of_an_unknown_kind_are_refused() -> None:
    kind: Any = "day"
    with pytest.raises(InvalidDataError, match="kind timestamp, date, time, duration, found 'day'"):
        LoDTensor([1], marks=Marks(unit=Times(kind, "D")))


@pytest.mark.parametrize("name", ["argsort", "cumsum", "first", "max", "mean", "softmax", "sum"])
def test_a_method_that_is_an_op_is_an_attribute_error_that_names_the_op(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"{name}'; use lodcli\.ops\.{name}\(tensor\), which"):
        getattr(WORDS, name)


@pytest.mark.parametrize(
    "name", sorted({*_AS_METHODS, *set(dir(np.ndarray)) - set(dir(LoDTensor))})
)
def test_calls_advised_in_place_of_attributes_exist(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(WORDS, name)
    for package, function, given in re.findall(r"(np|ops)\.(\w+)\((.*?)\)", str(caught.value)):
        called = OPS[function].load() if package == "ops" else getattr(np, function)
        if not isinstance(called, np.ufunc):
            inspect.signature(called).bind(*given.split(", "))
    assert (name in _AS_METHODS) == ("lodcli.ops." in str(caught.value))
    for method in re.findall(r"tensor\.data\.(\w+)", str(caught.value)):
        assert hasattr(np.ndarray, method)


@pytest.mark.parametrize(
    "name", ["byteswap", "fill", "partition", "put", "resize", "setfield", "setflags", "sort"]
)
def test_methods_that_change_rows_in_place_are_not_advised(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(WORDS, name)
    assert "tensor.data" not in str(caught.value)


class Measured(LoDTensor):
    """A tensor with a property that reads an attribute that its rows do not have."""

    @property
    def measure(self) -> Any:
        return self.data.no_such  # type: ignore[attr-defined]


def test_the_error_of_a_property_is_that_of_what_it_read() -> None:
    with pytest.raises(AttributeError, match=r"^'numpy\.ndarray' object has .*'no_such'$"):
        _ = Measured(np.arange(3.0)).measure
    with pytest.raises(AttributeError) as caught:
        _ = LoDTensor.__new__(LoDTensor).data
    assert "use" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("shape", "len(tensor) is the number of items, tensor.data.shape the shape of the rows"),
        ("lengths", "tensor.lod.lengths() returns those of the finest level"),
        ("tolist", "to_list() returns nested lists"),
        ("cuda", "to_device('cuda') copies it to a GPU"),
        ("flat_values", "tensor.data has the rows"),
        ("row_splits", "tensor.lod.levels has the offsets of each level"),
        ("save", "lodcli.write(path, tensor) writes a file"),
        ("to_pandas", "to_arrow().to_pandas() returns a Series"),
        ("std", "use tensor.data.std of the rows"),
        ("sort", "use lodcli.ops.sort(tensor), which computes in each sequence"),
        (
            "argmax",
            "use lodcli.ops.max_index(tensor), which computes in each sequence, "
            "or tensor.data.argmax of the rows",
        ),
        ("truncate", "use lodcli.ops.truncate(tensor, length), which computes in each sequence"),
        ("clip", "np.clip(tensor, low, high) keeps the levels"),
        ("real", "np.real(tensor) keeps the levels"),
    ],
)
def test_an_attribute_of_arrays_is_an_error_that_says_what_a_tensor_has(
    name: str, said: str
) -> None:
    with pytest.raises(AttributeError) as found:
        getattr(WORDS, name)
    assert str(found.value) == f"'LoDTensor' object has no attribute {name!r}; {said}"


@pytest.mark.parametrize("name", ["groupby", "_rows", "__cuda_array_interface__"])
def test_other_attributes_are_missing_without_advice(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'$"):
        getattr(WORDS, name)


@pytest.mark.parametrize(
    "compute",
    [operator.eq, operator.add, lambda x, y: y - x, operator.iadd, np.maximum],
    ids=["==", "+", "reflected -", "+=", "np.maximum"],
)
def test_lists_of_other_lengths_beside_a_tensor_are_refused_with_what_makes_a_tensor(
    compute: Callable[[Any, Any], Any],
) -> None:
    tensor = LoDTensor([1, 2, 3], [[2, 1]])
    with pytest.raises(InvalidDataError, match="from_lists takes nested lists and text"):
        compute(tensor, RAGGED)
    same = compute(LoDTensor([1, 2, 3], [[2, 1]]), LoDTensor.from_lists(RAGGED))
    assert same.data.tolist() == compute(np.array([1, 2, 3]), np.array([1, 2, 3])).tolist()


@pytest.mark.parametrize("lengths", [[2, 2], [3, 1]])
@pytest.mark.parametrize("make", [LoDTensor.from_lists, LoDTensor.from_arrays])
def test_a_list_of_tensors_is_refused_whatever_their_lengths(
    make: Callable[[Any], LoDTensor], lengths: list[int]
) -> None:
    tensor = LoDTensor([1, 2, 3, 4], [lengths])
    said = r"expected arrays or lists at depth 0, found LoDTensor; give to_list\(\) of each$"
    for items in (list(tensor), [tensor, tensor], [tensor.data, tensor[0]]):
        with pytest.raises(InvalidDataError, match=said):
            make(items)
    for given in ([item.data for item in tensor], [item.to_list() for item in tensor]):
        assert make(given).identical(tensor)


@pytest.mark.parametrize(("levels", "depth"), [(0, 0), (1, 1)])
def test_tensors_among_lists_of_given_levels_are_refused(levels: int, depth: int) -> None:
    days = LoDTensor.from_lists([[date(2024, 1, 1)], [date(2024, 1, 2)]])
    items = [days[0], days[1]] if levels == 0 else [[days[0]], [days[1]]]
    with pytest.raises(InvalidDataError, match=f"at depth {depth}, found LoDTensor; give to_list"):
        LoDTensor.from_lists(items, levels=levels)
    again = LoDTensor.from_lists([item.to_list() for item in days])
    assert again.identical(days)
