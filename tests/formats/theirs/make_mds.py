"""Makes the folders mds and mds_zstd with mosaicml-streaming (0.13)."""

import shutil
from pathlib import Path

import numpy as np
from streaming import MDSWriter

HERE = Path(__file__).parent
COLUMNS = {
    "tokens": "ndarray:int32",
    "any": "ndarray",
    "frames": "ndarray:float32",
    "box": "ndarray:int16:2,2",
    "label": "int",
    "weight": "float32",
    "text": "str",
    "raw": "bytes",
}


def sample(number: int) -> dict[str, object]:
    count = number + 1
    return {
        "tokens": np.arange(count, dtype=np.int32) + 10 * number,
        "any": np.full(300 * count, number, np.uint16),
        "frames": np.arange(2 * count, dtype=np.float32).reshape(count, 2),
        "box": np.array([[number, 1], [2, 3]], np.int16),
        "label": number - 1,
        "weight": np.float32(number / 4),
        "text": "größe" * number,
        "raw": bytes(range(number)),
    }


if __name__ == "__main__":
    for name, compression in (("mds", None), ("mds_zstd", "zstd")):
        shutil.rmtree(HERE / name, ignore_errors=True)
        with MDSWriter(
            out=str(HERE / name), columns=COLUMNS, compression=compression, size_limit=3000
        ) as writer:
            for number in range(4):
                writer.write(sample(number))
