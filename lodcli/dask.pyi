# Made by `python -m tests.make_stubs` of the module beside it: change that one.
from lodcli.formats.loading.shards_dask import DelayedShards as DelayedShards
from lodcli.formats.loading.shards_dask import from_dataset as from_dataset

__all__ = [
    "DelayedShards",
    "from_dataset",
]
