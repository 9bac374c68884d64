"""Write fortran.npy with NumPy alone: python make_npy.py."""

import numpy as np

np.save("fortran.npy", np.asfortranarray(np.arange(6, dtype=">i4").reshape(3, 2)))
