"""Images as sequences of windows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from lodcli.kernels.errors import InvalidDataError, OptionError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.arguments import require_at_least
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained, whole
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Pair = Sequence[int]
Quad = Sequence[int]


@types_explained
def sequence_im2sequence(
    images: LoDTensor,
    *,
    kernels: Pair,
    strides: Pair = (1, 1),
    paddings: Quad = (0, 0, 0, 0),
    backend: Backend = "auto",
) -> LoDTensor:
    """Return one row for each window of each image.

    Args:
        images: data (n, c, h, w), any dtype, without levels.
        kernels: height and width of the window.
        strides: steps of the window, down and right.
        paddings: zeros around the image: up, left, down, right.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data (windows, c * kernel height * kernel width), channel-major; one level, whose
        sequences are the images. Windows go by rows, then columns.

    Raises:
        InvalidDataError: the data is not of images, a size is invalid, or a window is larger than
            the padded image.

    References:
        PaddlePaddle 2.6.2, im2sequence.

    >>> images = LoDTensor(np.arange(6).reshape(1, 1, 2, 3))
    >>> sequence_im2sequence(images, kernels=(2, 2)).data.tolist()
    [[0, 1, 3, 4], [1, 2, 4, 5]]
    """
    kernels, strides, paddings = map(_plain, (kernels, strides, paddings))
    down, right = _checked(images, kernels, strides, paddings)
    # Every value is copied to all windows that contain it.
    size = images.nbytes * kernels[0] * kernels[1] // (strides[0] * strides[1])
    run = on(backend, im2sequence_rows, size_bytes=size)
    rows = run(images.data, kernels=kernels, strides=strides, paddings=paddings)
    return LoDTensor._made(rows, LoD._trusted([_windows(images.rows, down * right)]))


@types_explained
def sequence_im2sequence_grad(
    upstream: Upstream,
    images: LoDTensor,
    *,
    kernels: Pair,
    strides: Pair = (1, 1),
    paddings: Quad = (0, 0, 0, 0),
) -> LoDTensor:
    """Return the gradient of `sequence_im2sequence` for `images`: sums over the windows.

    Args:
        upstream: (windows, c * kernel height * kernel width), the gradient of the result.
        images, kernels, strides, paddings: as passed to the op; of the images only their shape
            is read.

    Returns:
        (n, c, h, w), the dtype of `upstream`.

    Raises:
        InvalidDataError, ShapeMismatchError: as `sequence_im2sequence`; or `upstream` has
            another shape or index than the result.

    >>> images = LoDTensor(np.zeros((1, 1, 1, 3)))
    >>> sequence_im2sequence_grad([[1.0, 2.0], [3.0, 4.0]], images, kernels=(1, 2)).data.ravel()
    array([1., 5., 4.])
    """
    kernels, strides, paddings = map(_plain, (kernels, strides, paddings))
    below, beside = _checked(images, kernels, strides, paddings)
    n, c = images.data.shape[:2]
    rows = upstream_of(
        *(upstream, (n * below * beside, c * kernels[0] * kernels[1])),
        "sequence_im2sequence_grad",
        lambda: [_windows(n, below * beside)],
    )
    run = on("auto", im2sequence_back, size_bytes=rows.nbytes)
    shape = images.data.shape
    return images._with_rows(run(rows, shape, kernels=kernels, strides=strides, paddings=paddings))


def _plain(numbers: Sequence[int]) -> tuple[int, ...]:
    """Return Python or NumPy integers as Python integers."""
    return tuple(map(whole, numbers))


def _checked(images: LoDTensor, kernels: Pair, strides: Pair, paddings: Quad) -> tuple[int, int]:
    """Return the number of windows of each image, vertically and horizontally; checks sizes."""
    if images.lod.n_levels or images.data.ndim != 4:
        raise InvalidDataError(
            "im2sequence needs images (n, c, h, w) without levels, found data of shape "
            f"{images.data.shape} with {images.lod.n_levels} levels"
        )
    return window_counts(images.data.shape, kernels, strides, paddings)


def _windows(images: int, windows: int) -> Offsets:
    """Return the offsets of the windows of each image."""
    return np.arange(images + 1, dtype=np.int64) * windows


def window_counts(
    shape: tuple[int, ...], kernels: Pair, strides: Pair, paddings: Quad
) -> tuple[int, int]:
    """Return the number of windows of an image, vertically and horizontally."""
    return _window_counts(shape, tuple(kernels), tuple(strides), tuple(paddings))


def window_sizes(
    shape: tuple[int, ...], kernels: Pair, strides: Pair, paddings: Quad
) -> tuple[int, ...]:
    """Return the fields of Windows: see im2sequence_numba.py."""
    counts = window_counts(shape, kernels, strides, paddings)
    return (*shape[1:], *counts, *kernels, *strides, *paddings[:2])


@lru_cache(1 << 6)
def _window_counts(
    shape: tuple[int, ...], kernels: Pair, strides: Pair, paddings: Quad
) -> tuple[int, int]:
    for name, values, count, least in (
        ("kernels", kernels, 2, 1),
        ("strides", strides, 2, 1),
        ("paddings", paddings, 4, 0),
    ):
        if len(values) != count:
            raise OptionError(f"{name}: expected {count} numbers, found {len(values)}")
        require_at_least(min(values), least, name)
    counts = []
    for axis, name in enumerate(("high", "wide")):
        size = shape[2 + axis] + paddings[axis] + paddings[axis + 2]
        if size < kernels[axis]:
            raise InvalidDataError(
                f"im2sequence: a window {kernels[axis]} {name} does not fit a padded image "
                f"{size} {name}"
            )
        counts.append((size - kernels[axis]) // strides[axis] + 1)
    return counts[0], counts[1]


def im2sequence_rows(images: Array, *, kernels: Pair, strides: Pair, paddings: Quad) -> Array:
    """Return the windows of (n, c, h, w) images, (windows, c * kh * kw)."""
    up, left, down, right = paddings
    padded = np.pad(images, ((0, 0), (0, 0), (up, down), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, tuple(kernels), axis=(2, 3))
    chosen = windows[:, :, :: strides[0], :: strides[1]].transpose(0, 2, 3, 1, 4, 5)
    count = int(np.prod(chosen.shape[:3]))
    return chosen.reshape(count, images.shape[1] * kernels[0] * kernels[1])


@np.errstate(all="ignore")
def im2sequence_back(
    rows: Array, shape: tuple[int, ...], *, kernels: Pair, strides: Pair, paddings: Quad
) -> Array:
    """Return sums over the windows that contain each value, (windows, c * kh * kw) to `shape`."""
    n, c, h, w = shape
    below, beside = window_counts(shape, kernels, strides, paddings)
    up, left, down, right = paddings
    padded = np.zeros((n, c, h + up + down, w + left + right), rows.dtype)
    windows = rows.reshape(n, below, beside, c, *kernels).transpose(0, 3, 1, 2, 4, 5)
    # One position in the window at a time: at one position no two windows overlap.
    for i in range(kernels[0]):
        for j in range(kernels[1]):
            bottom, end = i + strides[0] * (below - 1) + 1, j + strides[1] * (beside - 1) + 1
            padded[:, :, i : bottom : strides[0], j : end : strides[1]] += windows[..., i, j]
    return padded[:, :, up : up + h, left : left + w]
