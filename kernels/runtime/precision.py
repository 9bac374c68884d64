"""Precision of float32 products: exact by default, lower on request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, get_args

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.suggestions import or_near

if TYPE_CHECKING:  # the help of commands imports this module, and must not load NumPy
    import numpy as np

Precision = Literal["float32", "tf32", "bfloat16", "float16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)

_current: ContextVar[Precision] = ContextVar("lod_precision", default="float32")


@contextmanager
def float32_products(precision: Precision) -> Iterator[None]:
    """Round the operands of float32 products within this block, if that is faster.

    On a GPU, copies in registers are rounded before tensor cores multiply them: data, weights,
    states and results stay float32, and so do sums. A backward pass has the precision of the
    block that it runs in; steps that it recomputes have that of the forward pass. Products of
    float64 are always exact.

    On a CPU "bfloat16" does the same for RNN layers, forward and backward, with AMX: plain lstm,
    gru, elman and slstm layers; other layers, and processors without AMX, raise UnsupportedError.
    All other products in main memory, and all with "tf32" and "float16", are exact.

    Args:
        precision: "float32", exact; or the digits kept: "tf32" (11 bits, float32's range),
            "bfloat16" (8 bits, float32's range), "float16" (11 bits, up to 65,504: larger
            values become infinite, gradients below 6e-8 become 0).

    Raises:
        InvalidDataError: there is no such precision.

    >>> with float32_products("tf32"):
    ...     current_precision()
    'tf32'
    >>> current_precision()
    'float32'
    """
    if precision not in PRECISIONS:
        raise InvalidDataError(
            f"precision: expected one of {', '.join(PRECISIONS)}, found {precision!r}"
            f"{or_near(precision, PRECISIONS)}"
        )
    token = _current.set(precision)
    try:
        yield
    finally:
        _current.reset(token)


def current_precision() -> Precision:
    """Return the precision of the innermost block of float32_products, or "float32"."""
    return _current.get()


def rounds_on_cpu(dtype: np.dtype[Any]) -> bool:
    """Return whether operands of this dtype are rounded in main memory too, not only on a GPU."""
    return current_precision() == "bfloat16" and dtype == "float32"
