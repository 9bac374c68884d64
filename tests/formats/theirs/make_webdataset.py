"""Makes webdataset.tar with webdataset (1.0)."""

from pathlib import Path

import numpy as np
import webdataset

HERE = Path(__file__).parent

if __name__ == "__main__":
    with webdataset.TarWriter(str(HERE / "webdataset.tar"), mtime=0) as writer:
        for number in range(3):
            writer.write(
                {
                    "__key__": f"train/{number:04}",
                    "tokens.npy": np.arange(number, dtype=np.int32),
                    "frames.npy": np.full((number + 1, 2), number, np.float16),
                    "weight.npy": np.array(number / 2, np.float32),
                    "cls": number - 1,
                    "score.json": number / 4 + 0.5,
                    "txt": "größe" * number,
                }
            )
