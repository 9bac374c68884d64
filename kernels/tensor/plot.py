"""Plots of the lengths of sequences; needs matplotlib."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Protocol

from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.runtime.argument_types import types_explained


class HasIndex(Protocol):
    """A LoDTensor, or another object with an index."""

    @property
    def lod(self) -> LoD:
        """The index."""


@types_explained
def plot(values: HasIndex | LoD, level: int | str | None = None) -> Any:
    """Return the axes of a plot of lengths and padding: two plots side by side for each level.

    On the left is a histogram of the lengths. On the right are all sequences, longest first: the
    area below the line is the items, the area above it is what padding would add. In a script,
    `matplotlib.pyplot.show()` shows the plot.

    Args:
        values: a tensor or an index.
        level: the one level to plot; None: all.

    Returns:
        (levels, 2) axes of matplotlib.

    Raises:
        UnsupportedError: matplotlib is not installed.
        InvalidDataError: no levels.
        SelectionError: no such level.
    """
    lod = values if isinstance(values, LoD) else values.lod
    if not lod.n_levels:
        raise InvalidDataError("plot: expected at least 1 level, found none")
    levels = [*range(lod.n_levels)] if level is None else [lod.level(level)]
    if find_spec("matplotlib") is None:
        raise UnsupportedError("plot needs the package matplotlib; pip install 'lodcli[plot]'")
    from lodcli.kernels.tensor.plot_matplotlib import draw

    return draw(lod, levels)
