"""The options --device and --precision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import numpy as np

from lodcli.kernels.errors import OptionError, UnsupportedError
from lodcli.kernels.rnn.engine.amx.availability import require_amx
from lodcli.kernels.runtime.devices import gpu_number, require_gpu
from lodcli.kernels.runtime.precision import Precision, float32_products


@contextmanager
def computing_on(name: str, precision: Precision = "float32") -> Iterator[str]:
    """Make the device of this name the current one, and yield its name: "cpu", "cuda" or "cuda:N".

    Args:
        name: one of those, or "auto" for the CPU: data is moved to a GPU only on request.
        precision: of products; checked before anything is read.

    Raises:
        click.UsageError: there is no such name.
        UnsupportedError: there is no such GPU, cupy is not installed, or the CPU does not have
            the precision.
    """
    device = "cpu" if name == "auto" else name
    try:
        number = gpu_number(device)
    except OptionError:
        expected = "expected auto, cpu, cuda or cuda:N"
        raise click.UsageError(f"--device: {expected}, found {name!r}") from None
    if number is None:
        if precision == "bfloat16":
            require_amx()
        yield device
        return
    require_device(device)
    from lodcli.kernels.cuda.current_device import using

    with using(number):
        yield device


def require_device(device: str) -> None:
    """Raise UnsupportedError unless there is such a GPU, and cupy to compute on it."""
    try:
        require_gpu(device)
    except UnsupportedError as error:
        raise UnsupportedError(f"--device {error}; or use --device cpu") from error


@contextmanager
def rounding_to(precision: Precision, dtype: np.dtype[Any], remedy: str) -> Iterator[None]:
    """Round products of float32 within this block; see float32_products.

    Args:
        precision: of the products.
        dtype: of the arithmetic.
        remedy: advice for the message if that is not float32.

    Raises:
        OptionError: the precision is lower, but the arithmetic is not in float32.
    """
    if precision != "float32" and dtype != np.float32:
        raise OptionError(
            f"--precision {precision} rounds products of float32, and this is computed in {dtype}; "
            f"{remedy}"
        )
    with float32_products(precision):
        yield
