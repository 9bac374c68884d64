"""While loops over TensorArrays, as in the design of the TensorArray.

    step = Var(0)
    loop = while_loop(loop_vars=[step])
    while loop:
        with loop.frame():
            loop.break_if(step == num_steps)
            ...
            step.update(step + 1)

The body is plain Python; arrays may be NumPy's or any that act like them, such as cupy's.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.runtime.argument_types import types_explained


class Var(NDArrayOperatorsMixin):
    """A value that a loop changes: a number or an array of any library.

    Expressions with it return plain values; only `update` and in-place operators such as `+=`
    change it.

    Args:
        value: the first value.

    >>> step = Var(1)
    >>> step.update(step + 1)
    >>> step, bool(step == 2)
    (Var(2), True)
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any) -> None:
        self._value = _value_of(value)

    @property
    def value(self) -> Any:
        """The current value."""
        return self._value

    def update(self, value: Any) -> None:
        """Replace the value."""
        self._value = _value_of(value)

    def __index__(self) -> int:
        return operator.index(self._value)

    def __int__(self) -> int:
        return int(self._value)

    def __float__(self) -> float:
        return float(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._value, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [_value_of(value) for value in inputs]
        out = kwargs.pop("out", ())
        if any(each is not None and not isinstance(each, Var) for each in out):
            kwargs["out"] = tuple(None if isinstance(each, Var) else each for each in out)
        result = getattr(ufunc, method)(*plain, **kwargs)
        # `step += 1` is a ufunc that writes to the Var.
        parts = result if isinstance(result, tuple) else (result,)
        for each, part in zip(out, parts, strict=False):
            if isinstance(each, Var):
                each.update(part)
        return (out if len(out) > 1 else out[0]) if out else result

    def __repr__(self) -> str:
        return f"Var({self._value})"


def _value_of(value: Any) -> Any:
    return value.value if isinstance(value, Var) else value


@types_explained
def while_loop(loop_vars: Sequence[Var] = ()) -> WhileLoop:
    """Return a loop that runs its frame until `break_if` ends it.

    Args:
        loop_vars: variables of which the frame must change at least one. A frame that changes
            none would run forever, so it raises an error. () turns this check off.

    References:
        PaddlePaddle's "Design for TensorArray", `create_whileloop`.

    >>> from lodcli.kernels.tensor.tensor_array import TensorArray
    >>> step, sums = Var(0), TensorArray(size=3)
    >>> loop = while_loop(loop_vars=[step])
    >>> while loop:
    ...     with loop.frame():
    ...         loop.break_if(step == 3)
    ...         sums.write(step, sums.read(step - 1, np.zeros(2)) + 1.0)
    ...         step.update(step + 1)
    >>> sums.stack().data.tolist()
    [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    """
    return WhileLoop(loop_vars)


class WhileLoop:
    """The result of `while_loop`. Its truth value is True until `break_if` has ended the loop.

    Attributes:
        iterations: number of iterations that ran to the end of the frame.
    """

    def __init__(self, loop_vars: Sequence[Var] = ()) -> None:
        self._vars = tuple(loop_vars)
        for var in self._vars:
            if not isinstance(var, Var):
                raise InvalidDataError(f"loop_vars: expected Var objects, found {var!r}")
        self._going = True
        self._inside = False
        self._idle: int | None = None
        self.iterations = 0

    def __bool__(self) -> bool:
        return self._going

    def frame(self) -> _Frame:
        """Return the context manager of one iteration.

        Raises:
            InvalidDataError: the previous iteration changed none of the loop variables.
        """
        if self._idle is not None:
            raise InvalidDataError(
                f"iteration {self._idle} of the loop changed none of its loop variables, so that "
                "it would never end; update one, or break"
            )
        return _Frame(self, [var.value for var in self._vars])

    def break_if(self, condition: Any) -> None:
        """End the loop and skip the rest of the frame, if the condition holds.

        Args:
            condition: a truth value, or an array with a single value.

        Raises:
            InvalidDataError: not called within a frame, or with an array of several values or none.
        """
        if not self._inside:
            raise InvalidDataError("break_if ends a frame; call it inside of `with loop.frame():`")
        value = _value_of(condition)
        shape = tuple(getattr(value, "shape", ()))
        if (count := math.prod(shape)) != 1:
            raise InvalidDataError(
                f"break_if: expected a single value, found {count or 'none'} in an array of shape "
                f"{shape}; combine them, as in break_if((x > 1).all()), or any()"
            )
        if bool(value):
            self._going = False
            raise _Broken(self)

    def _end_iteration(self, before: Sequence[Any]) -> None:
        now = [var.value for var in self._vars]
        if before and all(a is b or _same(a, b) for a, b in zip(before, now, strict=True)):
            # Raised in the next iteration, since a frame left by Python's `break` ends here too.
            self._idle = self.iterations
        self.iterations += 1


class _Broken(BaseException):
    """Raised by `break_if` and caught by the frame; no `except Exception` may catch it."""

    def __init__(self, loop: WhileLoop) -> None:
        super().__init__()
        self.loop = loop


class _Frame:
    def __init__(self, loop: WhileLoop, before: list[Any]) -> None:
        self._loop = loop
        self._before = before

    def __enter__(self) -> None:
        self._loop._inside = True

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self._loop._inside = False
        if error is None:
            self._loop._end_iteration(self._before)
        return isinstance(error, _Broken) and error.loop is self._loop


def _same(a: Any, b: Any) -> bool:
    # Numbers only: comparing arrays on a GPU would synchronize with it in every iteration.
    return bool(np.isscalar(a) and np.isscalar(b) and a == b)
