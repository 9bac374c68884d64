"""torch tensors: nested jagged tensors, packed sequences, padded batches, cu_seqlens."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import torch

from lodcli.kernels.errors import (
    InvalidDataError,
    OptionError,
    ShapeMismatchError,
    UnsupportedError,
    counted,
)
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.items import segment_steps
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.runtime.arrays import is_on_device
from lodcli.kernels.runtime.dispatch import on
from lodcli.kernels.suggestions import or_near

LAYOUTS = ("jagged", "packed", "padded", "varlen")
# The types of the layouts, for annotations; a padded batch has its lengths beside it.
Jagged = torch.Tensor
Packed = torch.nn.utils.rnn.PackedSequence
Padded = tuple[torch.Tensor, torch.Tensor]


class Varlen(NamedTuple):
    """Concatenated sequences, as kernels for attention of variable length take them.

    Attributes:
        values: (N, ...).
        cu_seqlens: (S + 1,) int32, offsets of the sequences.
        max_seqlen: rows of the longest one.
    """

    values: torch.Tensor
    cu_seqlens: torch.Tensor
    max_seqlen: int

    def to(
        self,
        device: torch.device | str | int | torch.dtype | torch.Tensor | None = None,
        dtype: torch.dtype | None = None,
        *,
        non_blocking: bool = False,
    ) -> Varlen:
        """Return the same on another device, with values of another dtype, or both.

        Args:
            device: also a dtype, or a tensor with both, as a tensor's `to` takes them.
            dtype: of the values; `cu_seqlens` keeps its own.
            non_blocking: see torch.Tensor.to.

        >>> there = Varlen(torch.ones(3), torch.tensor([0, 2, 3]), 2).to("meta", torch.float16)
        >>> there.values.dtype, there.cu_seqlens.dtype, there.cu_seqlens.is_meta
        (torch.float16, torch.int64, True)
        """
        rows, starts, longest = self
        given = (device,) if dtype is None else (device, dtype)
        cast: Any = rows.to  # its overloads do not take a union
        moved: torch.Tensor = cast(*given, non_blocking=non_blocking)
        return Varlen(moved, starts.to(moved.device, non_blocking=non_blocking), longest)

    def with_values(self, values: torch.Tensor) -> Varlen:
        """Return other rows, (N, ...), in the same sequences.

        Raises:
            ShapeMismatchError: another number of rows.

        >>> ids = Varlen(torch.tensor([7, 8, 9]), torch.tensor([0, 2, 3]), 2)
        >>> tuple(ids.with_values(torch.nn.Embedding(10, 4)(ids.values)).values.shape)
        (3, 4)
        """
        found = Varlen(values, self.cu_seqlens, self.max_seqlen)
        require_tensors(found)
        count = self.values.shape[0]
        if values.dim() == 0 or values.shape[0] != count:
            raise ShapeMismatchError(
                f"values: expected {counted(count, 'row')}, found the shape {tuple(values.shape)}"
            )
        return found


def rows_to_torch(data: Array) -> torch.Tensor:
    """Return rows as a torch tensor over the same memory; copied if read-only or reversed."""
    if is_on_device(data):
        return torch.from_dlpack(data)  # type: ignore[attr-defined]
    if not data.flags.writeable or any(step < 0 for step in data.strides):
        data = data.copy()
    if data.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(data.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(data)


def rows_from_torch(values: torch.Tensor) -> Array:
    """Return a tensor of torch as rows over the same memory; of a conjugated view a copy.

    Raises:
        InvalidDataError: it is tracked by autograd, is not dense or has no values, or NumPy does
            not have its dtype.
    """
    _require_values(values, "data")
    if values.is_quantized:
        raise InvalidDataError(f"data: is quantized, {values.dtype}; give tensor.dequantize()")
    if values.requires_grad:
        raise InvalidDataError("data: is tracked by autograd; give tensor.detach()")
    if values.is_cuda:
        from lodcli.kernels.runtime.devices import from_dlpack

        return from_dlpack(values)
    if values.is_conj() or values.is_neg():  # lazy views, which NumPy does not have
        values = values.resolve_conj().resolve_neg()
    if values.dtype == torch.bfloat16:
        return values.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    try:
        found: Array = values.numpy()
    except TypeError as error:
        wide = "complex64" if values.is_complex() else "float32"
        remedy = f"; convert them, tensor.to(torch.{wide})" if "ScalarType" in str(error) else ""
        raise InvalidDataError(f"data: {error}{remedy}") from None
    except RuntimeError as error:  # of subclasses, such as those of torch.export
        raise InvalidDataError(
            f"data: expected a plain tensor, found {type(values).__name__}: {error}"
        ) from None
    return found


def index_from_torch(values: torch.Tensor, name: str) -> Array:
    """Return offsets or lengths in main memory, shared if they are there.

    Raises:
        InvalidDataError: they have no values.
    """
    _require_values(values, name)
    found: Array = values.numpy(force=True)
    return found


def _require_values(values: torch.Tensor, name: str) -> None:
    if values.is_meta:
        raise InvalidDataError(
            f"{name}: is on the meta device, which has no values; make it on a CPU"
        )


def to_torch(data: Array, lod: LoD, layout: str, padding: Any) -> Any:
    """Return rows and their one level in a form that torch has for sequences.

    Raises:
        OptionError: no such layout.
        UnsupportedError: not one level; an empty sequence, for "packed".
    """
    if layout not in LAYOUTS:
        raise OptionError(
            f"layout: expected one of {', '.join(LAYOUTS)}, found {layout!r}"
            f"{or_near(layout, LAYOUTS)}"
        )
    if lod.n_levels != 1:
        raise UnsupportedError(
            f"{layout} holds 1 level, this tensor has {lod.n_levels}; take tensor.data for the "
            "rows alone, or tensor[i] for one item"
        )
    if layout == "packed":
        return _packed(data, lod)
    if layout == "padded":
        padded, lengths = padding()
        return rows_to_torch(padded), rows_to_torch(lengths)
    if layout == "jagged":
        return jagged(data, lod)
    rows, offsets = rows_to_torch(data), lod.levels[0]
    longest = int(offsets_to_lengths(offsets).max(initial=0))
    if offsets[-1] > np.iinfo(np.int32).max:
        raise UnsupportedError(f"varlen counts rows in int32, this tensor has {offsets[-1]}")
    cu_seqlens = torch.from_numpy(offsets.astype(np.int32)).to(rows.device)
    return Varlen(rows, cu_seqlens, longest)


def jagged(data: Array, lod: LoD, offsets: torch.Tensor | None = None) -> Any:
    """Return a nested tensor of the jagged layout.

    Args:
        data: the rows.
        lod: their one level.
        offsets: of another nested tensor with an equal level; torch combines only nested tensors
            that have the same tensor of offsets.
    """
    rows, lengths = rows_to_torch(data), offsets_to_lengths(lod.levels[0])
    longest = int(lengths.max(initial=0))
    # Without the bounds, to_padded_tensor() pads every sequence to the number of all rows.
    return torch.nested.nested_tensor_from_jagged(
        rows,
        shared_with_torch(lod.levels[0]).to(rows.device) if offsets is None else offsets,
        min_seqlen=int(lengths.min(initial=longest)),
        max_seqlen=longest,
    )


def from_torch(values: Any) -> tuple[Array, LoD]:
    """Return the rows and the index of a nested tensor, a packed sequence or a Varlen."""
    if isinstance(values, torch.nn.utils.rnn.PackedSequence):
        return _unpacked(values)
    if isinstance(values, Varlen):
        require_tensors(values)
        starts = index_from_torch(values.cu_seqlens, "cu_seqlens")
        return rows_from_torch(values.values), LoD([starts])
    if not isinstance(values, torch.Tensor):
        raise InvalidDataError(
            "values: expected a tensor of torch, a PackedSequence or a Varlen, found "
            f"{type(values).__name__}"
        )
    if not values.is_nested:
        return rows_from_torch(values), LoD()
    if values.layout == torch.jagged:
        return _of_jagged(values)
    parts = values.unbind()
    if any(not part.dim() for part in parts):
        raise InvalidDataError("values: expected sequences, found single values; torch.stack them")
    shapes = list(dict.fromkeys(tuple(part.shape[1:]) for part in parts))
    if len(shapes) > 1:
        raise UnsupportedError(
            f"values: rows have the shapes {shapes[0]} and {shapes[1]}: the ragged dimension must "
            "be the second; transpose it back"
        )
    lengths = [len(part) for part in parts]
    rows = torch.cat(parts) if parts else torch.zeros(0, dtype=values.dtype, device=values.device)
    return rows_from_torch(rows), LoD.from_lengths([lengths])


def require_tensors(values: Varlen) -> None:
    """Raise InvalidDataError unless values and offsets are tensors, the offsets whole numbers."""
    rows, starts, _ = values
    for name, each in (("values", rows), ("cu_seqlens", starts)):
        if not isinstance(each, torch.Tensor):
            raise InvalidDataError(
                f"{name}: expected a tensor of torch, found {type(each).__name__}; torch.tensor "
                "makes one"
            )
    if starts.is_floating_point():
        raise InvalidDataError(f"cu_seqlens: expected whole numbers, found {starts.dtype}")


def _of_jagged(values: Any) -> tuple[Array, LoD]:
    rows, offsets = values.values(), index_from_torch(values.offsets(), "offsets")
    offsets = offsets.astype(np.int64, copy=False)
    if rows.dim() > 1 and getattr(values, "_ragged_idx", 1) != 1:
        raise UnsupportedError("values: the ragged dimension must be the second; transpose it back")
    if values.lengths() is None:
        return rows_from_torch(rows), LoD([offsets])
    # With gaps between sequences.
    lengths = index_from_torch(values.lengths(), "lengths").astype(np.int64)
    bounds = lengths_to_offsets(lengths, level=0)
    places = torch.from_numpy(ranges(offsets[: lengths.size], bounds)).to(rows.device)
    return rows_from_torch(rows[places]), LoD([bounds])


def shared_with_torch(array: Array) -> torch.Tensor:
    """Return an array, such as offsets of an index, as a tensor that nothing may write to."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch has no read-only tensors and warns
        return torch.from_numpy(array)


def _packed(data: Array, lod: LoD) -> torch.nn.utils.rnn.PackedSequence:
    lengths = lod.lengths(0)
    if not lengths.size or lengths.min() < 1:
        what = "is empty" if lengths.size else "there is none"
        place = f"sequence {int(lengths.argmin())}" if lengths.size else "a sequence is needed"
        raise UnsupportedError(f"packed holds no empty sequence: {place}: {what}")
    order = np.argsort(-lengths, kind="stable")
    rows, bounds = step_order(lod.levels[0], order)
    in_order = bool((order == np.arange(order.size)).all())
    sizes = torch.from_numpy(offsets_to_lengths(bounds))
    there = torch.from_numpy(order)
    back = torch.from_numpy(np.argsort(order))
    values = rows_to_torch(data)
    taken = values[torch.from_numpy(rows).to(values.device)]
    if in_order:
        return torch.nn.utils.rnn.PackedSequence(taken, sizes)
    device = values.device
    return torch.nn.utils.rnn.PackedSequence(taken, sizes, there.to(device), back.to(device))


def _unpacked(values: torch.nn.utils.rnn.PackedSequence) -> tuple[Array, LoD]:
    bounds, order = packed_index(values)
    places, _ = step_order(bounds, order, back=True)
    data = values.data
    return rows_from_torch(data[torch.from_numpy(places).to(data.device)]), LoD([bounds])


def packed_index(values: torch.nn.utils.rnn.PackedSequence) -> tuple[Offsets, Offsets]:
    """Return the offsets of the sequences of a PackedSequence, and their order, longest first.

    Raises:
        InvalidDataError: batch sizes that grow, are negative, or do not add up to the rows; an
            order that does not have each sequence once. Torch checks none of it.
    """
    sizes = values.batch_sizes.numpy()
    count = int(sizes[0]) if sizes.size else 0
    grown = (sizes[1:] > sizes[:-1]).nonzero()[0]
    if grown.size:
        step = int(grown[0]) + 1
        raise InvalidDataError(
            f"batch_sizes, position {step}: expected at most {sizes[step - 1]}, found {sizes[step]}"
        )
    if sizes.size and sizes[-1] < 0:
        raise InvalidDataError(
            f"batch_sizes, position {sizes.size - 1}: expected 0 or more, found {sizes[-1]}"
        )
    if sizes.sum() != len(values.data):
        raise InvalidDataError(
            f"batch_sizes: expected a total of {len(values.data)} rows, found {sizes.sum()}"
        )
    # In packed order, longest first: how many steps each sequence has.
    packed = (-sizes).searchsorted(np.arange(-1, -count - 1, -1), side="right")
    if values.sorted_indices is None:
        return lengths_to_offsets(packed, level=0), np.arange(count)
    order = values.sorted_indices.numpy(force=True).astype(np.int64, copy=False)
    if not np.array_equal(np.sort(order), np.arange(count)):
        raise InvalidDataError(
            f"sorted_indices: expected each of the {count} sequences once, found {order.tolist()}"
        )
    lengths = np.empty(count, np.int64)
    lengths[order] = packed
    return lengths_to_offsets(lengths, level=0), order


def step_order(offsets: Offsets, order: Offsets, *, back: bool = False) -> tuple[Offsets, Offsets]:
    """Return the rows of sequences in step order, and the offsets of the steps: segment_steps."""
    kernel = on("auto", segment_steps, size_bytes=16 * offsets.item(-1))
    return kernel(offsets, order, back=back)
