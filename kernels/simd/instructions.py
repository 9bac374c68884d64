"""Emits LLVM instructions on vectors: constants, masks, loads, stores, intrinsics.

Only LLVM's portable vectors are used, which it splits on machines with narrower registers.
"""

from __future__ import annotations

from typing import Any

from lodcli.kernels.runtime.jit_numba import cgutils, ir

# Size of a cache line, and of the widest vector register.
VECTOR_BYTES = 64
_I32 = ir.IntType(32)


def constant(kind: Any, value: Any) -> Any:
    """Return a constant of LLVM's type `kind`, in all lanes of a vector."""
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def splat(builder: Any, scalar: Any, vector: Any) -> Any:
    """Return a vector of LLVM's type `vector` with `scalar` in all lanes."""
    undefined = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(undefined, scalar, _I32(0))
    zeros = ir.Constant(ir.VectorType(_I32, vector.count), [0] * vector.count)
    return builder.shuffle_vector(one, undefined, zeros)


def first_lanes(builder: Any, count: Any, lanes: int) -> Any:
    """Return a mask of `lanes` lanes with the first `count`, an int64, set."""
    kind = ir.VectorType(_I32, lanes)
    lane = ir.Constant(kind, list(range(lanes)))
    return builder.icmp_signed("<", lane, splat(builder, builder.trunc(count, _I32), kind))


def load(builder: Any, where: Any, align: int, mask: Any = None, other: Any = None) -> Any:
    """Return the vector at a pointer; lanes with unset `mask` are not read, and hold `other`."""
    if mask is None:
        value = builder.load(where)
        value.align = align
        return value
    kind = where.type.pointee
    function = _masked(builder, "load", kind, [where.type, _I32, mask.type, kind], kind)
    return builder.call(function, [where, _I32(align), mask, other])


def store(builder: Any, vector: Any, where: Any, align: int, mask: Any = None) -> None:
    """Write a vector to a pointer; lanes with unset `mask` are not written."""
    if mask is None:
        builder.store(vector, where).align = align
        return
    arguments = [vector.type, where.type, _I32, mask.type]
    function = _masked(builder, "store", vector.type, arguments, ir.VoidType())
    builder.call(function, [vector, where, _I32(align), mask])


def _masked(builder: Any, deed: str, kind: Any, arguments: list[Any], result: Any) -> Any:
    name = f"llvm.masked.{deed}.{type_name(kind)}.p0"
    form = ir.FunctionType(result, arguments)
    return cgutils.get_or_insert_function(builder.module, form, name)


def type_name(kind: Any) -> str:
    """Return the name of a type in names of LLVM's intrinsics, such as v16f32."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{type_name(kind.element)}"
    return {"float": "f32", "double": "f64"}.get(str(kind), str(kind))


def call(builder: Any, name: str, *values: Any) -> Any:
    """Call an LLVM intrinsic whose arguments and result are of one type."""
    kind = values[0].type
    form = ir.FunctionType(kind, [kind] * len(values))
    name = f"llvm.{name}.{type_name(kind)}"
    return builder.call(cgutils.get_or_insert_function(builder.module, form, name), values)


def prefetch(builder: Any, where: Any, locality: int) -> None:
    """Prefetch the memory at a pointer, which may be invalid.

    Args:
        locality: 3 into all caches; less only into the outer ones.
    """
    byte = ir.IntType(8).as_pointer()
    form = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
    function = cgutils.get_or_insert_function(builder.module, form, "llvm.prefetch.p0")
    # Arguments: address, 0 for reading, locality, 1 for data.
    builder.call(function, [builder.bitcast(where, byte), _I32(0), _I32(locality), _I32(1)])
