"""Custom ops of torch for the sequence ops: `torch.ops.lodcli.softmax` and its gradient.

An op is made from the registry when it is first used. Its schema has the parameters of the op in
order; a LoDTensor is passed as rows and offsets, None without levels. It returns the rows of the
results, and their offsets if the index is not that of an argument.
docs/decisions/0044-ops-for-torch.md.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch

from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.parameters import Parameter, parameters_of
from lodcli.kernels.ops.registry import OPS, OpEntry
from lodcli.kernels.runtime.threads import limited_threads
from lodcli.kernels.tensor.exchange.torch import rows_from_torch, rows_to_torch
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Found = tuple[list[torch.Tensor], list[torch.Tensor]]
_SCHEMAS = {
    "tensor": "Tensor {0}, Tensor? {0}_offsets",
    "tensors": "Tensor[] {0}, Tensor[] {0}_offsets",
    "array": "Tensor {0}",
    "array?": "Tensor? {0}",
}


@dataclass(frozen=True)
class CustomOp:
    """A sequence op in torch.

    Attributes:
        entry: its entry in the registry.
        parameters: those of the op.
        forward: takes the flat arguments of the schema, returns rows and offsets.
        several: whether it returns a tuple, even of one result.
    """

    entry: OpEntry
    parameters: tuple[Parameter, ...]
    forward: Callable[..., Found]
    several: bool


@cache
def custom_op(name: str) -> CustomOp:
    """Return an op of the registry as a custom op of torch, registered when first asked for."""
    entry = OPS[name]
    made = _Maker(entry, parameters_of(entry))
    schema = ", ".join(
        _SCHEMAS.get(each.kind, each.kind + " {0}").format(_legal(each.name))
        for each in made.parameters
    )
    forward = torch.library.custom_op(
        f"lodcli::{name}",
        made.forward,
        mutates_args=(),
        schema=f"({schema}) -> (Tensor[], Tensor[])",
    )
    forward.register_fake(made.fake)
    backward = torch.library.custom_op(
        f"lodcli::{name}_grad",
        made.backward,
        mutates_args=(),
        schema=f"(Tensor[] upstream, Tensor? result, {schema}) -> Tensor[]",
    )
    backward.register_fake(made.fake_backward)
    backward.register_autograd(made.backward_again)
    forward.register_autograd(_Gradient(made, backward), setup_context=made.save)
    if hasattr(forward, "register_autocast"):  # not in torch 2.5
        for device in ("cpu", "cuda"):
            # Computed in float32 under autocast, as softmax, sums and norms of torch.
            forward.register_autocast(device, torch.float32)
    result = inspect.signature(entry.load()).return_annotation
    return CustomOp(entry, made.parameters, forward, result.startswith(("list", "tuple")))


def _legal(name: str) -> str:
    return name + "_" if name in ("true", "false") else name


@dataclass(frozen=True)
class _Maker:
    """The functions that make up a custom op; all take the flat arguments of its schema."""

    entry: OpEntry
    parameters: tuple[Parameter, ...]

    def forward(self, *flat: Any) -> Found:
        """Compute the op with lod's kernels."""
        given = self._arguments(flat)
        results = self._call(self.entry.load(), given)
        shared = [each for each in _tensors(flat) if each.device.type == "cpu"]
        rows = [_own(_rows(each), shared) for each in results]
        if kept := self.entry.kept(given):
            assert results[0].lod == given[kept].lod, f"{self.entry.name} keeps no index"
            return rows, []
        levels = [
            torch.from_numpy(np.array(level))
            for each in results
            if isinstance(each, LoDTensor)
            for level in each.lod.levels
        ]
        return rows, [each.to(rows[0].device) for each in levels]

    def backward(
        self, upstream: list[torch.Tensor], result: torch.Tensor | None, *flat: Any
    ) -> list[torch.Tensor]:
        """Compute the gradient with lod's kernels: one tensor for each tracked argument given."""
        flow = [_array(each) for each in upstream]
        given = self._arguments(flat)
        taken = self._taken_by_gradient()
        given = {name: value for name, value in given.items() if name in taken}
        for name in self.entry.tracked:
            # Integers combined with differentiable rows, such as a mask they are multiplied by.
            value = given[name]
            if isinstance(value, LoDTensor) and value.dtype.kind in "iu":
                given[name] = value.with_data(value.data.astype(flow[0].dtype))
        if "result" in taken and result is not None:
            given["result"] = _array(result)
        first = flow if _is_sequence(taken["upstream"]) else flow[0]
        parts = self._call(self._gradient(), given, first)
        shared = [each for each in _tensors((*upstream, *flat)) if each.device.type == "cpu"]
        if len(parts) == len(self.entry.tracked):
            # The gradient function also returns gradients of weights that are None: drop them.
            named = self._given(flat)
            pairs = zip(parts, self.entry.tracked, strict=True)
            parts = [part for part, name in pairs if named[name] is not None]
        return [
            _own(_rows(each), shared).to(one.dtype)
            for each, one in zip(parts, self._tracked(flat), strict=True)
        ]

    def fake(self, *flat: Any) -> Found:
        """Return fake results of `forward`; their shapes come from running the op without rows."""
        given = self._given(flat)
        counts = self._counts(given)
        first = next(_tensors(flat))
        if first.device.type != "meta" and any(
            each.device.type == "meta" for each in _tensors(flat)
        ):
            # torch calls this for real rows beside a meta tensor as well.
            raise InvalidDataError(
                f"{self.entry.name}: expected all tensors on the device {first.device} of the "
                "first, found one on the meta device, which has no values"
            )
        rows, levels = [], []
        for each in self._call(self.entry.load(), self._of_no_rows(flat)):
            data = _rows(each)
            shape = [_size(counts), *data.shape[1:]]
            if self.entry.name == "pad" and len(shape) > 1:
                shape[1] = _size(None)  # the longest sequence
            rows.append(first.new_empty(shape, dtype=getattr(torch, data.dtype.name)))
            if isinstance(each, LoDTensor) and not self.entry.kept(given):
                levels += [
                    first.new_empty([_size(None)], dtype=torch.int64) for _ in each.lod.levels
                ]
        return rows, levels

    def fake_backward(
        self, upstream: list[torch.Tensor], result: torch.Tensor | None, *flat: Any
    ) -> list[torch.Tensor]:
        """Return fake results of `backward`."""
        return [
            torch.empty_like(each, memory_format=torch.contiguous_format)
            for each in self._tracked(flat)
        ]

    def backward_again(self, ctx: Any, *grads: Any) -> None:
        """Raise UnsupportedError: the gradient was differentiated once more."""
        raise UnsupportedError(
            f"{self.entry.name}: second derivatives are not supported; compose the op of torch's "
            "own ops to differentiate it twice"
        )

    def save(self, ctx: Any, inputs: tuple[Any, ...], output: Found) -> None:
        """Save the arguments of the gradient: those of the op, and the result if it is one."""
        places = [place for place, each in enumerate(inputs) if isinstance(each, torch.Tensor)]
        lists = [place for place, each in enumerate(inputs) if _is_list(each)]
        flat = [*(inputs[place] for place in places), *(t for p in lists for t in inputs[p])]
        ctx.places, ctx.lists = places, [(place, len(inputs[place])) for place in lists]
        ctx.plain = [
            None if place in (*places, *lists) else each for place, each in enumerate(inputs)
        ]
        rows = [each for each in output[0] if _has_gradient(each)]
        ctx.rows = [(each.shape, each.dtype, each.device) for each in rows]
        ctx.all = [_has_gradient(each) for each in output[0]]
        result = rows[0] if "result" in self._taken_by_gradient() else None
        ctx.save_for_backward(result, *flat)

    def _gradient(self) -> Callable[..., Any]:
        gradient = self.entry.load_gradient()
        assert gradient is not None
        return gradient

    def _taken_by_gradient(self) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(self._gradient()).parameters

    def _given(self, flat: Sequence[Any]) -> dict[str, Any]:
        """Return the flat arguments by name; rows and offsets of a tensor as a pair."""
        rest, given = iter(flat), {}
        for each in self.parameters:
            value = next(rest)
            pair = each.kind in ("tensor", "tensors")
            given[each.name] = (value, next(rest)) if pair else value
        return given

    def _arguments(self, flat: Sequence[Any]) -> dict[str, Any]:
        """Return the arguments of the op: LoDTensors, arrays and plain values."""

        def array(name: str, value: torch.Tensor) -> Any:
            return value.numpy(force=True) if self.entry.is_index(name) else _array(value)

        return self._made(flat, _lod_tensor, array)

    def _of_no_rows(self, flat: Sequence[Any]) -> dict[str, Any]:
        """Return arguments of the op of the same dtypes and row shapes, without rows."""

        def array(name: str, value: torch.Tensor) -> Any:
            sizes = [int(size) for size in value.shape]
            if self.entry.is_index(name) or name in ("initial", "padded", "table"):
                sizes[:1] = [0] * len(sizes[:1])
            return np.ones(sizes, _array_dtype(value.dtype))

        return self._made(flat, _empty, array)

    def _made(
        self,
        flat: Sequence[Any],
        tensor: Callable[..., LoDTensor],
        array: Callable[[str, torch.Tensor], Any],
    ) -> dict[str, Any]:
        """Return the arguments by name.

        Args:
            flat: the arguments of the schema.
            tensor: makes a LoDTensor from rows and offsets.
            array: makes an array from the name of a parameter and another torch tensor.
        """
        given = self._given(flat)
        for each in self.parameters:
            value = given[each.name]
            if each.kind == "tensor":
                given[each.name] = tensor(*value)
            elif each.kind == "tensors":
                rows, offsets = value
                given[each.name] = [
                    tensor(*pair) for pair in zip(rows, offsets or [None] * len(rows), strict=True)
                ]
            elif isinstance(value, torch.Tensor):
                given[each.name] = array(each.name, value)
        return given

    def _counts(self, given: dict[str, Any]) -> Any:
        """Return the number of rows of the results; None if it depends on values."""
        if kept := self.entry.kept(given):
            return given[kept][0].shape[0]
        if self.entry.pools:
            return given[self.entry.pools][1].shape[0] - 1
        return None

    def _tracked(self, flat: Sequence[Any]) -> list[torch.Tensor]:
        given, found = self._given(flat), []
        for each in self.parameters:
            if each.name in self.entry.tracked:
                value = given[each.name]
                value = value[0] if each.kind in ("tensor", "tensors") else value
                found += list(value) if _is_list(value) else [value] if value is not None else []
        return found

    def _call(self, function: Callable[..., Any], given: dict[str, Any], *first: Any) -> list[Any]:
        """Return the results of a function of lod, also of a single one as a list."""
        with limited_threads(torch.get_num_threads()):
            found = function(*first, **given)
        return list(found) if isinstance(found, list | tuple) else [found]


@dataclass(frozen=True)
class _Gradient:
    """The backward function for autograd: from gradients of results to those of flat arguments."""

    maker: _Maker
    op: Callable[..., list[torch.Tensor]]

    def __call__(self, ctx: Any, grads: Sequence[torch.Tensor | None], *_: Any) -> tuple[Any, ...]:
        result, *saved = ctx.saved_tensors
        rest = iter(saved)
        flat = list(ctx.plain)
        for place in ctx.places:
            flat[place] = next(rest)
        for place, count in ctx.lists:
            flat[place] = [next(rest) for _ in range(count)]
        real = [grad for grad, real in zip(grads, ctx.all, strict=True) if real]
        upstream = [
            torch.zeros(shape, dtype=dtype, device=device) if grad is None else grad
            for grad, (shape, dtype, device) in zip(real, ctx.rows, strict=True)
        ]
        found = iter(self.op(upstream, result, *flat))
        place = 0
        grads_of: list[Any] = []
        for each in self.maker.parameters:
            value = flat[place]
            if each.name not in self.maker.entry.tracked or value is None:
                grads_of.append([None] * len(value) if _is_list(value) else None)
            elif _is_list(value):
                grads_of.append([next(found) for _ in value])
            else:
                grads_of.append(next(found))
            place += 1
            if each.kind in ("tensor", "tensors"):
                grads_of.append([None] * len(flat[place]) if _is_list(flat[place]) else None)
                place += 1
        return tuple(grads_of)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, torch.Tensor) for one in value)


def _is_sequence(upstream: inspect.Parameter) -> bool:
    return str(upstream.annotation).startswith(("Sequence", "tuple"))


def _has_gradient(rows: torch.Tensor) -> bool:
    return rows.is_floating_point() or rows.is_complex()


def _tensors(flat: Iterable[Any]) -> Iterator[Any]:
    for each in flat:
        if isinstance(each, torch.Tensor):
            yield each
        elif _is_list(each):
            yield from each


def _rows(result: LoDTensor | Array) -> Array:
    return result.data if isinstance(result, LoDTensor) else result


def _array(values: torch.Tensor) -> Array:
    return rows_from_torch(values.detach())


def _lod_tensor(rows: torch.Tensor, offsets: torch.Tensor | None) -> LoDTensor:
    levels = [] if offsets is None else [offsets.numpy(force=True)]
    return LoDTensor(_array(rows), LoD(levels))


def _array_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    # By name: in fake mode tensors cannot be converted to arrays.
    return dtype_of_rows(str(dtype).removeprefix("torch."))


def _empty(rows: Any, offsets: Any) -> LoDTensor:
    data = np.empty((0, *(int(size) for size in rows.shape[1:])), _array_dtype(rows.dtype))
    return LoDTensor(data, LoD([] if offsets is None else [[0]]))


def _own(array: Array, given: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return an array as a tensor that shares no memory with the arguments, as torch requires."""
    rows = rows_to_torch(array)
    if rows.device.type == "cpu" and any(
        np.may_share_memory(array, _array(each)) for each in given
    ):
        return rows.clone()
    return rows


def _size(size: Any) -> Any:
    """Return a size; for None an unbacked one, which depends on values."""
    return torch.library.get_ctx().new_dynamic_size() if size is None else size
