"""Files: bytes to LoDTensors and back. A format has one folder, and one line in core/table.py.

Public names are imported on first use: the table of formats, reading and writing.

>>> import lodcli
>>> [each.name for each in lodcli.formats.formats() if ".npz" in each.endings]
['npz']
"""

from __future__ import annotations

from lodcli.kernels.lazy_names import by_module, lazy_names

_HOMES = by_module(
    {
        "lodcli.formats.catalogue.description": "FormatInfo formats",
        "lodcli.formats.catalogue.packages": "Package",
        "lodcli.formats.arrays.in_memory": "MemorySource",
        "lodcli.formats.core.format": "Format Source joined",
        "lodcli.formats.core.limits": "Limits",
        "lodcli.formats.core.options": "ReadKeywords ReadOptions WriteKeywords WriteOptions",
        "lodcli.formats.core.schema": "Batch Item LevelSpec Schema StoredArray TensorSpec",
        "lodcli.formats.loading.file": "File",
        "lodcli.formats.loading.stored_tensor": "StoredTensor",
        "lodcli.formats.storage.inputs": "Input",
        "lodcli.formats.storage.outputs": "Output",
    }
)
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, lambda: _HOMES)
