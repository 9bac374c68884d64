"""lod's implementations of the functions that torch's pickles call to describe tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lodcli.formats.core.errors import DamagedFileError, TooLargeError
from lodcli.kernels.dtypes import ALL_DTYPES, dtype_of_rows
from lodcli.kernels.index.checks import Array

# Dtypes by torch's names of storages, and of dtypes; None: not supported.
_STORAGES: dict[str, np.dtype[Any] | None] = {
    "Bool": np.dtype(np.bool_),
    "Byte": np.dtype(np.uint8),
    "Char": np.dtype(np.int8),
    "Short": np.dtype(np.int16),
    "Int": np.dtype(np.int32),
    "Long": np.dtype(np.int64),
    "Half": np.dtype(np.float16),
    "BFloat16": dtype_of_rows("bfloat16"),
    "Float": np.dtype(np.float32),
    "Double": np.dtype(np.float64),
    "ComplexFloat": np.dtype(np.complex64),
    "ComplexDouble": np.dtype(np.complex128),
    "Untyped": np.dtype(np.uint8),
}
_DTYPES = {name: dtype_of_rows(name) for name in ALL_DTYPES}


@dataclass(frozen=True)
class Storage:
    """A block of values in the file.

    Attributes:
        key: its name in the file.
        dtype: of its values, in native byte order.
    """

    key: str
    dtype: np.dtype[Any]
    count: int


@dataclass(frozen=True)
class Jagged:
    """A nested tensor with the layout torch.jagged.

    Attributes:
        offsets: where each sequence begins, and where the last one ends.
        lengths: of the sequences; None if there are no gaps between them.
        ragged_dim: the dimension of the nested tensor whose length varies.
    """

    values: Any
    offsets: Any
    lengths: Any
    ragged_dim: Any


@dataclass(frozen=True)
class Packed:
    """A PackedSequence."""

    data: Any
    batch_sizes: Any
    sorted_indices: Any
    unsorted_indices: Any


@dataclass(frozen=True)
class Global:
    """A function or class that the pickle names: "module name"."""

    name: str


class Ignored:
    """An object of a class irrelevant to tensors."""


@dataclass(frozen=True)
class Refused:
    """Placeholder for an object of the pickle that is not supported."""

    reason: str


_NESTED = Global("torch.nested._internal.nested_tensor NestedTensor")
IGNORED = Ignored()
# Methods of `Calls` that implement functions and classes, by torch's names.
CALLED = {
    "torch._utils _rebuild_tensor_v2": "_tensor",
    "torch._utils _rebuild_tensor_v3": "_tensor_of_dtype",
    "torch._utils _rebuild_parameter": "_first",
    "torch._utils _rebuild_nested_tensor": "_strided_nested",
    "torch._tensor _rebuild_from_type_v2": "_of_subclass",
    "torch.nested._internal.nested_tensor _rebuild_njt": "_jagged",
    "torch.nn.utils.rnn PackedSequence": "_packed",
    "torch Size": "_first",
    "collections OrderedDict": "_dict",
    "__builtin__ set": "_ignored",
    "builtins set": "_ignored",
    "torch._dynamo.decorators _DimRange": "_ignored",
}
CLASSES = frozenset(
    (
        *("torch Tensor", "torch.nn.parameter Parameter"),
        _NESTED.name,
    )
)


class Calls:
    """Executes the calls of a pickle.

    Args:
        memory: returns the bytes of a storage, (bytes,) uint8.
        big_endian: byte order of the storages.
    """

    def __init__(self, memory: Callable[[Storage], Array], *, big_endian: bool = False) -> None:
        self._memory = memory
        self._order: Literal[">", "<"] = ">" if big_endian else "<"

    def storage(self, reference: Any) -> Storage | Refused:
        """Return the storage that a pickle refers to."""
        if refused := _first_refused(reference):
            return refused
        kind, of, key, _, count = reference
        if kind != "storage" or not isinstance(of, Global) or not isinstance(key, str):
            raise DamagedFileError("has a persistent ID that is not of a storage")
        name = of.name.rpartition(" ")[2].removesuffix("Storage")
        dtype = _STORAGES.get(name)
        if dtype is None:
            return Refused(f"a tensor of {name}Storage, which is not supported")
        require_counts(count)
        return Storage(key, dtype, count)

    def call(self, function: Any, arguments: Any) -> Any:
        """Return the result of a function for a tuple of arguments.

        A `Refused` if the function, an argument, or an item of an argument is one.
        """
        several = arguments if isinstance(arguments, tuple) else (arguments,)
        if refused := _first_refused((function, *several)):
            return refused
        name = function.name if isinstance(function, Global) else ""
        if name not in CALLED or not isinstance(arguments, tuple):
            raise DamagedFileError(
                f"calls {name or type(function).__name__}, which is not a function"
            )
        try:
            return getattr(self, CALLED[name])(*arguments)
        except (TypeError, IndexError):
            what = name.rpartition(" ")[2]
            raise DamagedFileError(f"calls {what} with other arguments than torch does") from None

    def _tensor(self, storage: Any, offset: Any, shape: Any, strides: Any, *rest: Any) -> Array:
        if not isinstance(storage, Storage):
            raise DamagedFileError("a tensor without a storage")
        return self._view(storage, storage.dtype, offset, shape, strides, *rest[2:3])

    def _tensor_of_dtype(
        self, storage: Any, offset: Any, shape: Any, strides: Any, *rest: Any
    ) -> Array | Refused:
        kind = rest[2].name.rpartition(" ")[2] if isinstance(rest[2], Global) else str(rest[2])
        if kind not in _DTYPES:
            return Refused(f"a tensor of dtype {kind}, which is not supported; save tensor.float()")
        if not isinstance(storage, Storage):
            raise DamagedFileError("a tensor without a storage")
        return self._view(storage, _DTYPES[kind], offset, shape, strides, *rest[3:4])

    def _view(
        self,
        storage: Storage,
        dtype: np.dtype[Any],
        offset: Any,
        shape: Any,
        strides: Any,
        metadata: Any = None,
    ) -> Array:
        """Return a tensor as an array over the memory of its storage."""
        if not isinstance(shape, tuple) or not isinstance(strides, tuple):
            raise DamagedFileError("a tensor whose shape or strides are not a tuple")
        require_counts(offset, *shape, *strides)
        if len(shape) != len(strides):
            raise DamagedFileError(f"{len(strides)} strides for {len(shape)} dimensions")
        memory = self._memory(storage)
        array = _viewed(memory, dtype.newbyteorder(self._order), offset, shape, strides)
        if dtype == np.bool_ and memory.size and memory.max() > 1:
            raise DamagedFileError(f"storage {storage.key} has booleans that are neither 0 nor 1")
        said = metadata if isinstance(metadata, dict) else {}
        conjugate, negative = said.get("conj"), said.get("neg")
        copied = conjugate or negative or not array.dtype.isnative
        if copied and array.nbytes > memory.nbytes:
            raise TooLargeError("expands to far more than the file can hold")
        array = np.conjugate(array) if conjugate else array
        array = np.negative(array) if negative else array
        return array.astype(dtype, copy=False)

    def _first(self, value: Any, *_: Any) -> Any:
        return value

    def _ignored(self, *_: Any) -> Ignored:
        return IGNORED

    def _dict(self, *items: Any) -> dict[Any, Any]:
        if items:
            raise DamagedFileError("an OrderedDict that stores its items separately")
        return {}

    def _of_subclass(self, function: Any, _: Any, arguments: Any, state: Any = None) -> Any:
        if function == _NESTED:  # as in torch 2.5
            said = state if isinstance(state, dict) else {}
            if not isinstance(arguments, tuple) or len(arguments) != 2:
                raise DamagedFileError("a nested tensor without values or offsets")
            return Jagged(*arguments, said.get("_lengths"), said.get("_ragged_idx", 1))
        return self.call(function, arguments)

    def _packed(self, *parts: Any) -> Packed:
        return Packed(*parts)

    def _jagged(self, parts: Any, *_: Any) -> Jagged:
        if not isinstance(parts, dict) or not {"values", "offsets"} <= parts.keys():
            raise DamagedFileError("a nested tensor without values or offsets")
        return Jagged(
            parts["values"], parts["offsets"], parts.get("lengths"), parts.get("_ragged_idx", 1)
        )

    def _strided_nested(self, buffer: Any, shapes: Any, strides: Any, offsets: Any) -> list[Array]:
        """Return the parts of a nested tensor of the layout torch.strided."""
        for part in (buffer, shapes, strides, offsets):
            if not isinstance(part, np.ndarray):
                raise DamagedFileError("a nested tensor without its parts")
        if not buffer.ndim == offsets.ndim == 1 or not shapes.ndim == strides.ndim == 2:
            raise DamagedFileError("a nested tensor whose parts have other dimensions")
        if not shapes.shape == strides.shape or len(shapes) != len(offsets):
            raise DamagedFileError("a nested tensor whose parts differ in number")
        memory, parts = np.ascontiguousarray(buffer).view(np.uint8), []
        for shape, steps, offset in zip(
            shapes.tolist(), strides.tolist(), offsets.tolist(), strict=True
        ):
            require_counts(offset, *shape, *steps)
            parts.append(_viewed(memory, buffer.dtype, offset, tuple(shape), tuple(steps)))
        return parts


def _first_refused(values: Any) -> Refused | None:
    """Return the first Refused among these values, or the items of tuples and dicts among them."""
    for value in values if isinstance(values, tuple) else ():
        inner = value.values() if isinstance(value, dict) else value
        for part in (value, *(inner if isinstance(value, tuple | dict) else ())):
            if isinstance(part, Refused):
                return part
    return None


def _viewed(
    memory: Array,
    dtype: np.dtype[Any],
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
) -> Array:
    """Return an array over memory; offset and strides count values."""
    size = dtype.itemsize
    begin = 0 if 0 in shape else offset * size
    try:
        # NumPy raises an error for a view beyond the memory, and for too many dimensions.
        return np.ndarray(
            shape, dtype, memory.data, begin, tuple(stride * size for stride in strides)
        )
    except (ValueError, OverflowError):
        raise DamagedFileError(
            f"a tensor of shape {str(shape)[:60]} and strides {str(strides)[:60]} from value "
            f"{offset} on leaves its storage of {memory.nbytes // size} values"
        ) from None


def is_kind(name: str) -> bool:
    """Return whether this is the name of a storage class, or of a dtype."""
    module, _, kind = name.partition(" ")
    if module == "torch.storage":
        return kind in ("UntypedStorage", "TypedStorage")
    if module != "torch":
        return False
    return kind.endswith("Storage") or kind in _DTYPES or kind.startswith(("float", "int", "uint"))


def require_counts(*numbers: Any) -> None:
    for number in numbers:
        if type(number) is not int or not 0 <= number < 2**63:
            raise DamagedFileError(
                f"an offset, shape or stride of a tensor: expected a whole number from 0 on, "
                f"found {str(number)[:40]}"
            )
