"""The option --device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from lodcli.kernels.errors import OptionError, UnsupportedError
from lodcli.kernels.runtime.devices import gpu_number, require_gpu


@contextmanager
def computing_on(name: str) -> Iterator[str]:
    """Make the device of this name the current one, and give its name: "cpu", "cuda" or "cuda:N".

    Args:
        name: one of those, or "auto", which is main memory: nothing is moved to a GPU unasked.

    Raises:
        click.UsageError: there is no such name.
        UnsupportedError: there is no such GPU, or no cupy to compute on it.
    """
    device = "cpu" if name == "auto" else name
    try:
        number = gpu_number(device)
    except OptionError:
        expected = "expected auto, cpu, cuda or cuda:N"
        raise click.UsageError(f"--device: {expected}, found {name!r}") from None
    if number is None:
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
