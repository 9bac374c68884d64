"""torch with an emulated GPU: the CPU computes tensors on "cuda".

As strict as a real one about the device of tensors: devices cannot be mixed, and a GPU tensor
cannot become a NumPy array. Arrays of the cupy beside this file are on the same GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cupy
import torch
from torch.overrides import TorchFunctionMode

GPU = torch.device("cuda:0")
# Functions of tensors in both memories: an index, or sizes of steps or sequences, on the host.
MIXING = {
    *("lstm", "gru", "rnn_tanh", "rnn_relu", "_pack_padded_sequence", "_pad_packed_sequence"),
    *("copy_", "__getitem__", "__setitem__", "__set__", "_has_compatible_shallow_copy_type"),
    "_nested_view_from_jagged",
}
# Functions whose second result is in main memory.
SIZES_AT_HOME = {"_pack_padded_sequence", "_pad_packed_sequence"}
MADE_ANEW = {"to", "as_tensor", "tensor"}


def install() -> None:
    """Install the simulated GPU in torch."""
    torch.cuda.is_available = lambda: True
    torch.cuda.empty_cache = lambda: None
    _Gpu().__enter__()


def lies_there(value: Any) -> bool:
    """Return whether a tensor, or an array of cupy, is on the GPU."""
    return isinstance(value, cupy.ndarray) or getattr(value, "lies_there", False)


class _Gpu(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name, kwargs = func.__name__, dict(kwargs or {})
        if func is torch.device:
            return func(*args, **kwargs)
        tensors = [each for each in _flat([args, kwargs]) if isinstance(each, torch.Tensor)]
        there = any(map(lies_there, tensors)) or any(map(lies_there, args))
        attribute = getattr(func, "__self__", None)
        if attribute is torch.Tensor.device:
            return GPU if there else func(*args, **kwargs)
        if there and name not in MIXING:
            _require_one_memory(name, tensors)
        if there and name == "numpy":
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        wanted = _device_named(args, kwargs)
        if wanted is not None:
            there = wanted == "cuda"
        elif name == "cpu":
            there = False
        result = func(*map(_as_cpu, args), **{key: _as_cpu(each) for key, each in kwargs.items()})
        if name == "cpu" or (wanted is not None and name in MADE_ANEW):
            # Moving it to the other memory makes another tensor.
            result = result if there == any(map(lies_there, args)) else result.clone()
        if attribute is torch.Tensor.data and name == "__set__" and lies_there(args[1]):
            args[0].lies_there = True
        if name not in ("tolist", "item"):
            _mark(result, there, name)
        return result


def _require_one_memory(name: str, tensors: list[Any]) -> None:
    for each in tensors:
        # A number may lie anywhere; torch makes itself a nested tensor to copy others from.
        if each.dim() and not each.is_nested and not lies_there(each):
            raise RuntimeError(
                f"{name}: expected all tensors to be on the same device, found cuda:0 and cpu"
            )


def _device_named(args: Any, kwargs: Any) -> str | None:
    for each in (*args, *kwargs.values()):
        if isinstance(each, torch.device):
            return each.type
        if isinstance(each, str) and each.split(":")[0] in ("cpu", "cuda"):
            return each.split(":")[0]
    return None


def _as_cpu(value: Any) -> Any:
    if isinstance(value, cupy.ndarray):
        return value._host
    is_device = isinstance(value, torch.device) and value.type == "cuda"
    return "cpu" if is_device or (isinstance(value, str) and value[:4] == "cuda") else value


def _mark(result: Any, there: bool, name: str) -> None:
    for number, each in enumerate(result if isinstance(result, tuple | list) else [result]):
        if isinstance(each, tuple | list):
            _mark(each, there, name)
        elif isinstance(each, torch.Tensor) and there:
            each.lies_there = not (number == 1 and name in SIZES_AT_HOME)


def _flat(values: Any) -> Iterator[Any]:
    for each in values.values() if isinstance(values, dict) else values:
        if isinstance(each, list | tuple | dict):
            yield from _flat(each)
        else:
            yield each
