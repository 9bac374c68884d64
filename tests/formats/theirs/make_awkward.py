"""Makes awkward.npz with Awkward (2.14), as its guide on buffers says, in the place of HDF5."""

from pathlib import Path

import awkward as ak
import numpy as np

HERE = Path(__file__).parent
RECORDS = [
    {"x": [[1, 2], [3]], "y": "ab", "z": {"w": 1.5}},
    {"x": [], "y": "", "z": {"w": -2.5}},
    {"x": [[]], "y": "cde", "z": {"w": 0.0}},
]

if __name__ == "__main__":
    form, length, container = ak.to_buffers(ak.to_packed(ak.Array(RECORDS)))
    np.savez(HERE / "awkward.npz", form=form.to_json(), length=length, **container)
