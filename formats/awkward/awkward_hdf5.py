"""awkward-hdf5: the buffers of an Awkward array in a group of an HDF5 file."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.formats.arrays.in_memory import MemorySource
from lodcli.formats.awkward.forms import Reader, parsed_form
from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
from lodcli.formats.core.format import Format, Source
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.hdf5.datasets import MODULES
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.options import option


class AwkwardHdf5(Format):
    """`ak.to_buffers(array, container=group)`, with form and length as the group's attributes.

    The layout is that of Awkward's guide to HDF5. `--data /group` selects a group if there are
    several. Reading only, whole, and in a child process, because HDF5 can hang on text attributes
    of damaged files; write `awkward`, an .npz, which needs none.
    """

    name = "awkward-hdf5"
    read_only = "write awkward, an .npz"
    dtypes = ALL_DTYPES - {"bfloat16"}
    many = True
    streams = False
    options = frozenset({"data"})
    modules = ("lodcli.formats.hdf5.trusting", *MODULES)
    isolated = True

    def open(self, source: Input, options: ReadOptions) -> Source:
        from lodcli.formats.hdf5 import trusting as hdf5

        file = hdf5.opened(source.make_seekable().fileno())
        path = options.data or _only_group(hdf5, file)
        group = hdf5.group(file, path, chosen=bool(options.data))
        form, length = hdf5.attribute(group, "form"), hdf5.attribute(group, "length")
        if not isinstance(form, str) or length is None:
            raise UnsupportedError(f"{group.name}: has no attributes form and length")

        def fetch(key: str) -> Array:
            if key not in group:
                raise DamagedFileError(f"{group.name}/{key}: this buffer is missing")
            found = hdf5.dataset(file, f"{group.name}/{key}")
            return hdf5.numbers(found, 0, found.shape[0] if found.shape else 0)

        reader = Reader(fetch, source.size_bytes or 0, source.bounds)
        tensors = reader.tensors(parsed_form(form), _count(length))
        file.close()
        return MemorySource(tensors, reader.left_out)


def _only_group(hdf5: Any, file: Any) -> str:
    """Return the path of the only group that has a form."""
    paths = ["/", *(f"/{name}" for name in hdf5.names_in(file))]
    nodes = {path: hdf5.node(file, path) for path in paths}
    groups = {path: node for path, node in nodes.items() if hasattr(node, "keys")}
    found = [path for path, group in groups.items() if hdf5.attribute(group, "form") is not None]
    if not found:
        raise NotThisFormatError("no group has the attribute form; not an Awkward file, or damaged")
    if len(found) > 1:
        raise SelectionError(
            f"{len(found)} groups have a form; name one with {option('data', '/group')}"
        )
    return found[0]


def _count(value: str | Array) -> int:
    """Return a length, which is stored as JSON in Awkward's guide."""
    text = value if isinstance(value, str) else str(np.asarray(value).item())
    if not text.isdecimal() or len(text) > 18:
        raise DamagedFileError(f"length {text[:40]!r} is not a count")
    return int(text)
