"""nwb: ragged columns of NWB and other HDMF files, with their VectorIndex."""

from __future__ import annotations

from lodcli.formats.core.format import Format, Source
from lodcli.formats.core.names import name_of
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.hdf5.datasets import MODULES, Datasets, DatasetsSource
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import SelectionError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option, option_name

INDEX = "_index"
MOST_LEVELS = 16


class Nwb(Format):
    """Columns of dynamic tables; reading only.

    `--data /units/spike_times` names a column, several with commas between. Its levels are
    in `spike_times_index`, and for a doubly ragged column `spike_times_index_index`, as the
    schema of HDMF names them: the ends of the items, without a 0 in front. A column without
    an index has no levels. Attributes and object references are never read.
    """

    name = "nwb"
    dtypes = ALL_DTYPES - {"bfloat16"}
    many = True
    read_only = "tensors lack required parts of an NWB file"
    options = frozenset({"data", "levels"})
    modules = MODULES
    isolated = True

    def open(self, source: Input, options: ReadOptions) -> Source:
        if options.data is None:
            raise SelectionError(
                f"nwb: name a column with {option('data')}, such as /units/spike_times"
            )
        datasets = Datasets(source, chosen=True)
        tensors = {}
        for path in (part.strip() for part in options.data.split(",")):
            name = name_of(path.rpartition("/")[2])
            if name in tensors:
                raise SelectionError(f"{option_name('data')}: two columns are named {name}")
            tensors[name] = (path, _lod(datasets, path, options.levels))
        return DatasetsSource(datasets, tensors)


def _lod(datasets: Datasets, path: str, names: tuple[str, ...] | None) -> LoD:
    datasets.open(path)  # raises if the column itself is missing
    found: list[str] = []
    while len(found) < MOST_LEVELS and datasets.has(path + INDEX * (len(found) + 1)):
        found.append(path + INDEX * (len(found) + 1))
    outermost_first = list(reversed(found))
    return LoD([datasets.ends(index, level) for level, index in enumerate(outermost_first)], names)
