"""What is read and written by pyarrow: Arrow IPC, Feather, Parquet, folders of datasets."""

from __future__ import annotations

from lodcli.kernels.errors import UnsupportedError

try:
    import pyarrow  # noqa: F401 - only to say what is missing
except ImportError:
    raise UnsupportedError("this format needs the package pyarrow; pip install pyarrow") from None
