"""Plots of the lengths of sequences, with matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot

from lodcli.kernels.index.display import padding
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import level_text

# Maximum number of points of a line, about the number of pixels, and of bars of a histogram.
_POINTS, _BARS = 2000, 50


def draw(lod: LoD, levels: Sequence[int]) -> Any:
    """Return the (levels, 2) axes of a histogram of lengths and of the padding; see `plot`."""
    size = 9.0, 2.8 * len(levels)
    _, axes = pyplot.subplots(len(levels), 2, figsize=size, squeeze=False, layout="constrained")
    for (left, right), level in zip(axes, levels, strict=True):
        name = level_text(lod, level)
        lengths = np.sort(lod.lengths(level))[::-1]
        spread = int(lengths[0] - lengths[-1]) if lengths.size else 0
        left.hist(lengths, bins=min(_BARS, spread + 1))
        left.set_title(f"{name}: {lengths.size:,} sequences", loc="left")
        left.set_xlabel("length")
        left.set_ylabel("sequences")
        places = np.unique(np.linspace(0, max(0, lengths.size - 1), _POINTS).astype(np.int64))
        shown = lengths[places] if lengths.size else lengths
        most = int(lengths.max(initial=0))
        right.fill_between(places[: shown.size], shown, label="items")
        right.fill_between(places[: shown.size], shown, most, alpha=0.3, label="padding")
        right.set_title(f"padding: {padding(lengths):.0%}", loc="left")
        right.set_xlabel("sequence, longest first")
        right.set_ylabel("length")
        right.legend(frameon=False)
    return axes
