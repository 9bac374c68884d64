"""Every public op and gradient on rows on a GPU: rows are never copied to main memory implicitly.

Runs where cupy and a GPU are, or with the stand-in that tests/cuda/run.sh puts in its place.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.commands.apply.arguments import described
from lodcli.kernels.errors import InvalidLoDError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.joining.expand import sequence_expand_as
from lodcli.kernels.ops.norms.norms import sequence_layer_norm
from lodcli.kernels.ops.padding.pad import sequence_mask
from lodcli.kernels.ops.pooling.pool import sequence_sum
from lodcli.kernels.ops.registry import OPS
from lodcli.kernels.ops.sorting.sort import sequence_topk
from lodcli.kernels.runtime.dispatch import on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.kernels.ops import gradient_families
from tests.kernels.ops.gradient_cases import CASES
from tests.kernels.ops.gradient_parts import Setting
from tests.kernels.ops.op_arguments import arguments
from tests.kernels.ops.test_gradients import LODS, arrays_of

cupy: Any = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

LOD = LoD.from_lengths([[2, 0, 3], [3, 0, 1, 4, 2]])
# Ops whose result describes an index, or is one.
INDEX_OPS = {"rank_table", "max_sequence_len", "mask"}
WHOLE = {"erase", "enumerate", "edit_distance", "ctc_align"}
# A device adds in another order.
TOLERANCE = 1e-12


def rows_for(name: str) -> LoDTensor:
    """Return a tensor that an op of the table takes."""
    generator = np.random.default_rng(3)
    if name in WHOLE:
        return LoDTensor(generator.integers(0, 3, 10), LOD)
    width: tuple[int, ...] = (
        () if name in {"unique", "unique_counts", "searchsorted", "histogram"} else (2,)
    )
    if name in {"scatter", "topk_avg_pooling"}:
        width = ()
    if name == "unpad":
        width = (3, 2)
    return LoDTensor(generator.normal(size=(10, *width)).round(1), LOD)


def there(value: Any) -> Any:
    """Return an object that holds rows with its rows on the device."""
    if isinstance(value, LoDTensor):
        return value.to_device("cuda")
    if isinstance(value, TensorArray):
        return TensorArray.from_steps(there(value.steps))
    if isinstance(value, np.ndarray) and value.ndim:
        return cupy.asarray(value)
    return [there(part) for part in value] if _holds_rows(value) else value


def _holds_rows(value: Any) -> bool:
    kinds = (LoDTensor, np.ndarray)
    return isinstance(value, list | tuple) and any(isinstance(one, kinds) for one in value)


def back(value: Any) -> Any:
    """Return results in main memory. Fails for rows that have left the device."""
    if isinstance(value, list | tuple):
        return [back(part) for part in value]
    if isinstance(value, TensorArray):
        return back(value.steps)
    if isinstance(value, LoDTensor):
        assert isinstance(value.data, cupy.ndarray), "the rows have left the device"
        return value.to_device("cpu")
    if value is None:
        return None
    assert isinstance(value, cupy.ndarray), "an array has left the device"
    return cupy.asnumpy(value)


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
        return
    if isinstance(wanted, TensorArray):
        wanted = wanted.steps
    if isinstance(wanted, LoDTensor):
        assert found.lod == wanted.lod
        found, wanted = found.data, wanted.data
    if wanted is None:
        assert found is None
        return
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE)


def moved(name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an op with their rows on the device."""
    return {
        key: value if OPS[name].is_index(key) and not isinstance(value, LoDTensor) else there(value)
        for key, value in given.items()
        if key != "backend"
    }


@pytest.mark.parametrize("name", sorted(OPS.keys() - INDEX_OPS))
def test_an_op_stays_on_the_device_and_agrees_with_numpy(name: str) -> None:
    own = described(OPS[name])
    given = arguments(name, rows_for(name), "numpy" if own.has_backend else None)
    wanted = own.function(**given)
    found = own.function(**moved(name, given))
    if name == "pad":  # the lengths are an index
        assert isinstance(found[1], np.ndarray)
        found = (found[0], cupy.asarray(found[1]))
    same(back(found), wanted)


@pytest.mark.parametrize("key", LODS)
@pytest.mark.parametrize("name", CASES)
def test_a_gradient_stays_on_the_device_and_agrees_with_numpy(
    name: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, ids = CASES[name], gradient_families.scatter_ids
    for level in case.levels:
        here = Setting(LODS[key], level, "numpy")
        arrays = arrays_of(name, here)
        monkeypatch.setattr(gradient_families, "scatter_ids", ids)
        result = case.forward(here, arrays)
        upstream = np.random.default_rng(6).normal(size=result.shape)
        wanted = case.backward(here, upstream, arrays)
        monkeypatch.setattr(gradient_families, "scatter_ids", lambda setting: there(ids(setting)))
        on_gpu = Setting(LODS[key], level, "auto")
        copies = [cupy.asarray(one) for one in arrays]
        found = case.forward(on_gpu, copies)
        same(back(found), result)
        same(back(case.backward(on_gpu, cupy.asarray(upstream), copies)), wanted)


def test_rows_move_when_asked_and_the_index_object_stays() -> None:
    tensor = LoDTensor(np.arange(10.0), LOD)
    assert tensor.device == "cpu"
    assert tensor.to_device("cpu") is tensor
    moved = tensor.to_device("cuda")
    assert moved.device == moved.to_device("cuda:0").device == "cuda:0"
    assert moved.to_device("cuda") is moved
    assert moved.lod is tensor.lod
    home = moved.to_device("cpu")
    assert isinstance(home.data, np.ndarray)
    assert home.identical(tensor)


def test_a_gpu_that_is_not_there_is_reported() -> None:
    with pytest.raises(UnsupportedError, match="no GPU cuda:999; there is cuda:0"):
        LoDTensor(np.zeros(1)).to_device("cuda:999")


def test_arrays_in_two_places_are_refused_with_what_to_do() -> None:
    tensor = LoDTensor(np.ones((10, 2)), LOD).to_device("cuda")
    with pytest.raises(UnsupportedError, match=r"weight is in main memory.*cupy\.asarray"):
        sequence_layer_norm(tensor, weight=np.ones(2))
    with pytest.raises(UnsupportedError, match="backend numba computes in main memory"):
        sequence_sum(tensor, backend="numba")
    with pytest.raises(UnsupportedError, match="backend cupy computes on arrays on a GPU"):
        sequence_sum(LoDTensor(np.ones(2), [[2]]), backend="cupy")


def test_an_index_on_the_device_is_refused_with_what_to_do() -> None:
    numbers = cupy.asarray(np.array([2, 1, 1, 1, 1]))
    with pytest.raises(InvalidLoDError, match=r"an index is in main memory.*cupy\.asnumpy"):
        LoD.from_lengths([numbers])
    tensor = LoDTensor(np.ones((10, 2)), LOD).to_device("cuda")
    with pytest.raises(UnsupportedError, match=r"k must be in main memory, but is on a GPU"):
        sequence_topk(tensor, numbers)


def test_a_missing_kernel_is_an_error_with_what_to_do() -> None:
    def segment_none(data: Any) -> Any:
        raise AssertionError("computed in main memory")

    segment_none.__module__ = "lodcli.kernels.ops.pooling.pool"
    with pytest.raises(UnsupportedError, match=r"no cupy kernel for pool.segment_none; move the"):
        on("auto", segment_none)(cupy.zeros(3))


def test_a_mask_is_made_where_the_lengths_lie() -> None:
    found = sequence_mask(cupy.asarray(np.array([2, 0, 1])))
    np.testing.assert_array_equal(cupy.asnumpy(found), [[1, 1], [0, 0], [1, 0]])


def test_results_are_written_to_out_on_the_device() -> None:
    tensor = LoDTensor(np.arange(5.0)).to_device("cuda")
    out = cupy.empty(10, np.float64)
    found = sequence_expand_as(tensor, LoDTensor(np.zeros(10), LOD), level=-1, out=out)
    np.testing.assert_array_equal(cupy.asnumpy(out), [0, 0, 0, 2, 3, 3, 3, 3, 4, 4])
    assert found.device == "cuda:0"


@pytest.mark.parametrize("name", ["x.lod.h5", "x.npz"])
def test_a_file_is_read_to_the_device(name: str, tmp_path: Path) -> None:
    rows = np.random.default_rng(5).normal(size=(10, 3)).astype(np.float32)
    lodcli.write(tmp_path / name, LoDTensor(rows, LOD))
    found = lodcli.read(tmp_path / name, device="cuda")
    assert isinstance(found, LoDTensor)
    assert (found.device, found.lod) == ("cuda:0", LOD)
    np.testing.assert_array_equal(cupy.asnumpy(found.data), rows)


def test_a_stream_waits_for_the_index_that_another_has_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = LoDTensor(np.arange(20.0).reshape(10, 2), LoD.from_lengths([[3, 0, 1, 4, 2]]))
    tensor, wait = here.to_device("cuda"), cupy.cuda.Stream.wait_event
    cupy.cuda.Device().synchronize()
    first, second = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    waited: list[int] = []

    def noted(stream: Any, event: Any) -> None:
        waited.append(stream.ptr)
        wait(stream, event)

    monkeypatch.setattr(cupy.cuda.Event, "done", False)
    monkeypatch.setattr(cupy.cuda.Stream, "wait_event", noted)
    for stream in (first, second):
        with stream:
            found = sequence_sum(tensor).data
            stream.synchronize()
        np.testing.assert_array_equal(cupy.asnumpy(found), sequence_sum(here).data)
    assert set(waited) >= {second.ptr}
    monkeypatch.setattr(cupy.cuda.Event, "done", True)
    sequence_sum(tensor)
    waited.clear()
    sequence_sum(tensor)
    assert not waited, "what is there needs no waiting"


def test_memory_of_an_index_waits_for_every_stream_that_reads_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It goes back to the first stream's pool, which might fill it while the other still reads."""
    first, second = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    waited: list[tuple[int, int]] = []
    recorded: dict[int, int] = {}
    record, wait = cupy.cuda.Stream.record, cupy.cuda.Stream.wait_event

    def recording(stream: Any, *event: Any) -> Any:
        made = record(stream, *event)
        recorded[id(made)] = stream.ptr
        return made

    def waiting(stream: Any, event: Any) -> None:
        waited.append((stream.ptr, recorded[id(event)]))
        wait(stream, event)

    def summed(on: list[Any]) -> None:
        here = LoDTensor(np.arange(20.0).reshape(10, 2), LoD.from_lengths([[3, 0, 1, 4, 2]]))
        tensor = here.to_device("cuda")
        for stream in on:
            with stream:
                sequence_sum(tensor)
        monkeypatch.setattr(cupy.cuda.Stream, "record", recording)
        monkeypatch.setattr(cupy.cuda.Stream, "wait_event", waiting)

    summed([first, second, first])
    gc.collect()
    assert waited == [(first.ptr, second.ptr)]
    monkeypatch.undo()
    waited.clear()
    summed([first, first])
    gc.collect()
    assert not waited, "a stream keeps its own order"


# -- a tensor whose rows lie on a GPU --------------------------------------------------

WORDS = LoDTensor(np.arange(20.0).reshape(10, 2), LOD)


@pytest.mark.parametrize(
    "key",
    [
        *(1, slice(0, 2), slice(None, None, -1), [2, 0], [True, False, True], (0, 1)),
        *((slice(None), slice(None), slice(1, None)), (2, [0, -1]), (..., 1), (2, 0, 0, 1)),
    ],
    ids=str,
)
def test_keys_pick_and_set_where_the_rows_lie(key: Any) -> None:
    there, here = WORDS.copy().to_device("cuda"), WORDS.copy()
    found, expected = there[key], here[key]
    if isinstance(expected, LoDTensor):
        assert found.device.startswith("cuda")
        assert found.to_device("cpu").identical(expected)
    else:
        assert float(found) == float(expected)
    there[key] = -1
    here[key] = -1
    assert there.to_device("cpu").identical(here)


def test_a_mask_and_places_on_a_gpu_pick_in_every_sequence() -> None:
    rows = LoDTensor(np.arange(10.0), LOD)
    there = rows.to_device("cuda")
    assert there[there > 4].to_device("cpu").identical(rows[rows > 4])
    last = LoDTensor(np.array([-1, -1, -1, -1]), LoD.from_lengths([[2, 0, 3], [1, 0, 1, 1, 1]]))
    assert there[last.to_device("cuda")].to_device("cpu").identical(rows[last])


def test_a_tensor_on_a_gpu_is_shown_and_compared() -> None:
    there = WORDS.to_device("cuda")
    assert repr(there) == repr(WORDS)
    assert there._repr_html_() == WORDS._repr_html_()
    assert there.difference(there.copy()) is None
    other = there.copy()
    other[2, 0, 0] = 7
    assert there.difference(other) == WORDS.difference(other.to_device("cpu"))


def test_libraries_of_main_memory_do_not_take_rows_on_a_gpu_in_silence() -> None:
    there = WORDS.to_device("cuda")
    for convert in (there.to_arrow, there.to_awkward, there.to_numpy):
        with pytest.raises(UnsupportedError, match="use to_device"):
            convert()
    assert there.to_device("cpu").to_list() == WORDS.to_list()
    padded, lengths = LoDTensor(WORDS.data, [[6, 4]]).to_device("cuda").to_padded()
    assert hasattr(padded, "__cuda_array_interface__")
    assert lengths.tolist() == [6, 4]
