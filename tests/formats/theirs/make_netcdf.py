"""How stations.nc was made by netCDF4 1.7.5: a contiguous ragged array of CF, and texts."""

import numpy as np
from netCDF4 import Dataset

with Dataset("stations.nc", "w") as file:
    file.title = "three stations"
    file.createDimension("obs", None)
    file.createDimension("station", 3)
    file.createDimension("letters", 5)
    counts = file.createVariable("row_size", "i4", ("station",))
    counts.sample_dimension = "obs"
    counts[:] = [3, 0, 2]
    heights = file.createVariable("height", "f4", ("obs",), zlib=True, fletcher32=True)
    heights[:] = [1.5, 2, 3, -1, 0]
    names = file.createVariable("name", "S1", ("station", "letters"))
    names._Encoding = "utf-8"  # makes characters of the texts
    names[:] = np.array(["Oslo", "Łod", "x"])
    file.createDimension("one", 1)
    file.createVariable("class", "S1", ("station", "one"))[:] = [[b"a"], [b""], [b"b"]]
    file.createDimension("no_letters", None)
    file.createVariable("nothing", "S1", ("station", "no_letters"))
    texts = file.createVariable("text", str, ("station",))
    for place, text in enumerate(("Oslo", "Łódź", "")):
        texts[place] = text
