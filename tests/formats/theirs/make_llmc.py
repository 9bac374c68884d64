"""Makes llmc.bin and nanogpt.bin as the data scripts of llm.c and nanoGPT write them.

Both projects are scripts, no packages: what their `write_datafile` and `prepare.py` do with
NumPy is done here, with the same calls.
"""

from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
DOCUMENTS = [[50256, 464, 2068], [50256], [50256, 7586, 21831]]

if __name__ == "__main__":
    tokens = np.array(np.concatenate(DOCUMENTS), dtype=np.uint16)
    header = np.zeros(256, dtype=np.int32)
    header[:3] = 20240520, 1, len(tokens)
    with open(HERE / "llmc.bin", "wb") as file:
        file.write(header.tobytes())
        file.write(tokens.tobytes())
    ends = [[*document[1:], 50256] for document in DOCUMENTS]
    memmap = np.memmap(HERE / "nanogpt.bin", dtype=np.uint16, mode="w+", shape=(len(tokens),))
    memmap[:] = np.concatenate(ends)
    memmap.flush()
