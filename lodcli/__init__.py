"""Ragged tensors: nested sequences without padding.

    import lodcli

    words = lodcli.read("words.lod.h5")
    lodcli.write("first.lod.h5", words[0:1])
    lodcli.ops.softmax(words)

Names are imported on first use, so a plain `import lodcli` costs nothing. docs/api.md lists the
public, stable names.
"""

from __future__ import annotations

from lodcli.kernels.lazy_names import Home, by_module, lazy_names

_HOMES: dict[str, Home] = {
    **{
        name: (f"lodcli.{name}", "")
        for name in ("dask", "errors", "formats", "ops", "rnn", "testing", "torch")
    },
    "open": ("lodcli.formats.loading.file", "open_source"),
    **by_module(
        {
            "lodcli.formats.core.errors": "DamagedFileError NotThisFormatError",
            "lodcli.formats.core.io": "read read_all write",
            "lodcli.formats.core.schema": "StoredArray",
            "lodcli.formats.storage.outputs": "TargetExistsError",
            "lodcli.kernels.errors": (
                "EmptySequenceError InvalidDataError InvalidLoDError LodError SelectionError "
                "ShapeMismatchError UnsupportedError"
            ),
            "lodcli.kernels.index.lod": "LoD",
            "lodcli.kernels.rnn.loops.dynamic_rnn": "DynamicRNN",
            "lodcli.kernels.rnn.loops.while_loop": "Var while_loop",
            "lodcli.kernels.runtime.precision": "float32_products",
            "lodcli.kernels.tensor.lod_tensor": "LoDTensor",
            "lodcli.kernels.tensor.marks": "Categories Decimals Marks Times",
            "lodcli.kernels.tensor.nulls": "Nulls",
            "lodcli.kernels.tensor.plot": "plot",
            "lodcli.kernels.tensor.tensor_array": "TensorArray",
            "lodcli.kernels.tensor.time_steps": "IndexMap",
        }
    ),
}
# A star import must not hide the builtin `open`, or the user's `dask` and `torch`.
__all__ = sorted({*_HOMES, "__version__"} - {"dask", "open", "torch"})
_get, __dir__ = lazy_names(__name__, lambda: _HOMES)
# What NumPy and torch call other functions.
_CALLED = {"load": "read", "save": "write"}


def __getattr__(name: str) -> object:
    if name in _CALLED:
        here = _CALLED[name]
        text = f"module {__name__!r} has no attribute {name!r}; lodcli.{here} {here}s files"
        raise AttributeError(text)
    if name == "__version__":
        from importlib.metadata import version

        return version("lodcli")
    return _get(name)
