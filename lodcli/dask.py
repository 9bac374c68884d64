"""Datasets as delayed values of Dask; pip install 'lodcli[dask]'.

`lod convert`, `apply` and `run-rnn` compute datasets on a cluster by themselves: --scheduler.
"""

from __future__ import annotations

from lodcli.kernels.lazy_names import by_module, lazy_names

_HOMES = by_module({"lodcli.formats.loading.shards_dask": "DelayedShards from_dataset"})
__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy_names(__name__, lambda: _HOMES)
