"""Makes the HDF5 files in this folder: anndata 0.12, pynwb 4.2, Awkward 2.14, VTK 9.

python make_hdf5.py [anndata nwb awkward vtk]
"""

import datetime
import json
import sys
from pathlib import Path

import h5py
import numpy as np

HERE = Path(__file__).parent
MATRIX = [[0, 1.5, 0], [2, 0, -3], [0, 0, 0], [0, 0, 4]]
SPIKES = [[0.5, 1.25, 2.0], [], [3.5]]
DOUBLY = [[[1, 2], [3]], [], [[], [4, 5, 6]]]
CELLS = [[0, 1, 2, 3], [1, 2, 3, 4]]


def make_anndata() -> None:
    import anndata
    import pandas
    import scipy.sparse

    cells, genes = list("abcd"), ["Actb", "g2", "größe"]
    data = anndata.AnnData(
        scipy.sparse.csr_matrix(np.array(MATRIX, np.float32)),
        obs=pandas.DataFrame({"kind": [1, 2, 3, 4]}, index=cells),
        var=pandas.DataFrame(index=genes),
        layers={"columns": scipy.sparse.csc_matrix(np.array(MATRIX, np.float32))},
        obsm={"dense": np.zeros((4, 2))},
    )
    data.write_h5ad(HERE / "anndata.h5ad")


def make_nwb() -> None:
    from hdmf.common import DynamicTable
    from pynwb import NWBHDF5IO, NWBFile

    file = NWBFile("spikes", "id", datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
    for spikes in SPIKES:
        file.add_unit(spike_times=np.array(spikes))
    table = DynamicTable(name="trees", description="doubly ragged")
    table.add_column("leaves", "numbers", index=2)
    for tree in DOUBLY:
        table.add_row(leaves=tree)
    file.add_acquisition(table)
    with NWBHDF5IO(str(HERE / "units.nwb"), "w") as io:
        io.write(file, cache_spec=False)


def make_awkward() -> None:
    import awkward as ak

    with h5py.File(HERE / "awkward.h5", "w") as file:
        group = file.create_group("awkward")
        array = ak.to_packed(ak.Array([{"x": [[1, 2], [3]], "y": "ab"}, {"x": [], "y": "c"}]))
        form, length, _ = ak.to_buffers(array, container=group)
        group.attrs["form"] = form.to_json()
        group.attrs["length"] = json.dumps(length)


def make_vtk() -> None:
    from vtkmodules.vtkCommonCore import vtkPoints
    from vtkmodules.vtkCommonDataModel import VTK_TETRA, vtkUnstructuredGrid
    from vtkmodules.vtkIOHDF import vtkHDFWriter

    points = vtkPoints()
    for point in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]:
        points.InsertNextPoint(*point)
    grid = vtkUnstructuredGrid()
    grid.SetPoints(points)
    for cell in CELLS:
        grid.InsertNextCell(VTK_TETRA, 4, cell)
    writer = vtkHDFWriter()
    writer.SetFileName(str(HERE / "grid.vtkhdf"))
    writer.SetChunkSize(8)
    writer.SetInputData(grid)
    writer.Write()
    # Three time steps of one mesh, which VTK stores once.
    from vtkmodules.vtkCommonExecutionModel import vtkTrivialProducer
    from vtkmodules.vtkFiltersHybrid import vtkGenerateTimeSteps

    producer = vtkTrivialProducer()
    producer.SetOutput(grid)
    steps = vtkGenerateTimeSteps()
    steps.SetInputConnection(producer.GetOutputPort())
    for moment in (0.0, 1.0, 2.0):
        steps.AddTimeStepValue(moment)
    writer = vtkHDFWriter()
    writer.SetFileName(str(HERE / "steps.vtkhdf"))
    writer.SetChunkSize(8)
    writer.SetInputConnection(steps.GetOutputPort())
    writer.SetWriteAllTimeSteps(True)
    writer.Write()


if __name__ == "__main__":
    for name in sys.argv[1:] or ["anndata", "nwb", "awkward", "vtk"]:
        globals()[f"make_{name}"]()
