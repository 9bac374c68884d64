"""Array arguments of ops: any byte order; no value is lost in a cast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lodcli import ops
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import on_every_backend
from tests.kernels.ops.gradient_cases import CASES
from tests.kernels.ops.gradient_parts import Setting, plain
from tests.kernels.ops.test_gradients import LODS, arrays_of

WORDS = LoDTensor([1.0, 7.0, 3.0], [[2, 1]])


def turned(array: Any) -> Any:
    """Return the same values, their bytes in the other order."""
    return array.astype(array.dtype.newbyteorder())


@on_every_backend
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "linear_scan"])
def test_a_result_that_was_kept_may_have_its_bytes_in_another_order(
    name: str, dtype: str, backend: Any
) -> None:
    words = WORDS.astype(dtype)
    given = [words, words] if name == "linear_scan" else [words]
    result = getattr(ops, name)(*given, backend=backend).data
    gradient = getattr(ops, f"{name}_grad")
    found, expected = (
        gradient(result, *given, result=one, backend=backend) for one in (turned(result), result)
    )
    for one, two in zip(parts(found), parts(expected), strict=True):
        assert one.dtype == two.dtype
        assert one.tobytes() == two.tobytes()


def parts(found: Any) -> list[Any]:
    each = found if isinstance(found, tuple) else (found,)
    return [plain(one) for one in each if one is not None]


@on_every_backend
def test_edges_of_a_histogram_may_have_their_bytes_in_another_order(backend: Any) -> None:
    edges = np.array([0, 5, 2**63 + 2**62], np.uint64)
    found = ops.histogram(WORDS.astype("int64"), turned(edges), backend=backend)
    assert found.data.tolist() == [[1, 1], [1, 0]]


@on_every_backend
def test_a_masked_array_does_not_lose_its_mask(backend: Any) -> None:
    masked = np.ma.array([1, 2], mask=[False, True])
    with pytest.raises(InvalidDataError, match="k: a masked array, whose mask would be lost"):
        ops.topk(WORDS, masked, backend=backend)
    with pytest.raises(InvalidDataError, match="edges: a masked array, whose mask would be lost"):
        ops.histogram(WORDS, masked, backend=backend)


NO_NUMBERS = [np.dtype("U2"), np.dtype("S2"), np.dtype("datetime64[s]"), np.dtype(object)]


@pytest.mark.parametrize("dtype", NO_NUMBERS, ids=str)
@pytest.mark.parametrize("name", {case.op: name for name, case in CASES.items()}.values())
def test_an_upstream_gradient_holds_numbers(name: str, dtype: Any) -> None:
    case, setting = CASES[name], Setting(LODS["some"], CASES[name].levels[-1], "auto")
    arguments = case.arguments(setting, arrays_of(name, setting))
    results = case.results(arguments)
    if not all(isinstance(one, LoDTensor | np.ndarray) for one in results):
        return  # of tensors, which hold numbers
    flows = [np.ones(plain(one).shape, np.int64).astype(dtype) for one in results]
    with pytest.raises(InvalidDataError, match=r"must hold (real )?numbers, found|at most 64 bits"):
        case.gradients(flows if len(flows) > 1 else flows[0], arguments)


OBJECT: Any = object()
COMPLEX = np.array([1j, 2.0, 3.0])
TABLE = WORDS.with_data(WORDS.data.reshape(3, 1))
REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "upstream of softmax": (
        lambda backend: ops.softmax_grad(COMPLEX, WORDS, backend=backend),
        "softmax_grad: the upstream gradient must hold real numbers, found complex128",
    ),
    "upstream of cumprod": (
        lambda backend: ops.cumprod_grad(COMPLEX, WORDS, backend=backend),
        "must hold real numbers, found complex128",
    ),
    "upstream of layer_norm": (
        lambda backend: ops.layer_norm_grad(COMPLEX[:, None], TABLE, backend=backend),
        "must hold real numbers, found complex128",
    ),
    "upstream of rms_norm": (
        lambda backend: ops.rms_norm_grad(COMPLEX[:, None], TABLE, backend=backend),
        "must hold real numbers, found complex128",
    ),
    "upstream of linear_scan": (
        lambda backend: ops.linear_scan_grad(COMPLEX, WORDS, WORDS, backend=backend),
        "must hold real numbers, found complex128",
    ),
    "result of linear_scan": (
        lambda backend: ops.linear_scan_grad(WORDS, WORDS, WORDS, result=COMPLEX, backend=backend),
        "result: expected real numbers, found complex128",
    ),
    "initial of linear_scan": (
        lambda backend: ops.linear_scan(WORDS, WORDS, initial=COMPLEX[:2], backend=backend),
        "linear_scan: a and b are real, initial is complex128",
    ),
    "result of softmax": (
        lambda backend: ops.softmax_grad(WORDS, WORDS, result=np.arange(3), backend=backend),
        r"result: expected floating numbers, found int64; convert them with astype\('float32'\)",
    ),
    "index of max": (
        lambda backend: ops.max_grad(
            WORDS.data[:2], WORDS, index=np.array([1.0, 2.0]), backend=backend
        ),
        "max_grad: index must hold whole numbers, found float64",
    ),
    "pad_value": (
        lambda backend: ops.pad(WORDS, pad_value=1j, backend=backend),
        "pad: float64 cannot hold the pad_value 1j",
    ),
    "pad_value that is text": (
        lambda backend: ops.pad(WORDS, pad_value="x", backend=backend),
        "pad: float64 cannot hold the pad_value x",
    ),
    "pad_value that is an object": (
        lambda backend: ops.pad(WORDS, pad_value=OBJECT, backend=backend),
        "pad: float64 cannot hold the pad_value",
    ),
    "pad_value that would be infinite": (
        lambda backend: ops.pad(WORDS.astype("float32"), pad_value=1e300, backend=backend),
        r"pad: float32 cannot hold the pad_value 1e\+300",
    ),
    "pad_value of None": (
        lambda backend: ops.sum(WORDS, pad_value=None, backend=backend),  # type: ignore[arg-type]
        "sum: float64 cannot hold the pad_value None",
    ),
}


@on_every_backend
@pytest.mark.parametrize("name", REFUSED)
def test_values_that_would_be_lost_are_refused(name: str, backend: Any) -> None:
    call, said = REFUSED[name]
    with pytest.raises(InvalidDataError, match=said):
        call(backend)


@on_every_backend
@pytest.mark.parametrize("op", [ops.max_index, ops.min_index])
def test_values_and_rows_go_to_arrays_that_share_no_memory(op: Any, backend: Any) -> None:
    values = np.zeros(2)
    for out in ((values, values.view(np.int64)), (values,)):
        with pytest.raises(InvalidDataError, match="out must be two arrays that share no memory"):
            op(WORDS, out=out, backend=backend)


@on_every_backend
@pytest.mark.parametrize("number", [1 << 62, -(1 << 63), 1 << 70])
def test_a_context_that_no_index_reaches_is_refused(number: int, backend: Any) -> None:
    with pytest.raises(InvalidDataError, match=r"conv: .* must be below 2\*\*61, found"):
        ops.conv(TABLE, np.ones((2, 1)), context_length=2, context_start=number, backend=backend)


INFINITE = LoDTensor(np.array([[np.inf], [-np.inf], [np.inf]]), [[2, 1]])


@on_every_backend
@pytest.mark.filterwarnings("error")
def test_infinite_values_give_nan_without_a_warning(backend: Any) -> None:
    weight = np.ones((2, 200))
    found = ops.conv(INFINITE, weight, context_length=2, context_start=0, backend=backend)
    assert np.isnan(found.data[0]).all()
    ops.conv_grad(
        found, INFINITE, weight, context_length=2, context_start=0, stride=1, backend=backend
    )
    narrow = np.ones((2, 1))
    ops.row_conv(INFINITE, narrow, backend=backend)
    ops.row_conv_grad(INFINITE, INFINITE, narrow, backend=backend)
    ops.softmax_grad(INFINITE, TABLE, backend=backend)
    ops.log_softmax_grad(INFINITE, TABLE, backend=backend)
    ops.mean_grad(np.array([[np.inf + 1j], [1]]), INFINITE, backend=backend)
    ops.windows_grad(INFINITE.data[[0, 1]], INFINITE, 2, stride=1, backend=backend)
    ops.expand_grad(INFINITE.data, LoDTensor([[1.0]], [[1]]), LoDTensor([1.0] * 3, [[3]]))
