"""How pytables.h5 was made, by PyTables 3.11: arrays of variable length."""

import numpy as np
import tables

with tables.open_file("pytables.h5", "w") as file:
    points = file.create_vlarray("/", "points", tables.Float64Atom(shape=(2,)), chunkshape=4)
    images = file.create_vlarray("/", "images", tables.Float32Atom(shape=(2, 3)), chunkshape=4)
    big = file.create_vlarray("/", "big", tables.Int32Atom(), byteorder="big", chunkshape=4)
    for length in (2, 0, 3):
        points.append(np.arange(length * 2.0).reshape(-1, 2))
        images.append(np.arange(length * 6.0).reshape(-1, 2, 3))
        big.append(np.arange(length) - 1)
