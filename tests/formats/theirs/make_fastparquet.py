"""Makes empty.parquet with pandas 2.3 and fastparquet (2026.9)."""

from pathlib import Path

import numpy as np
import pandas as pd

if __name__ == "__main__":
    rows = pd.DataFrame({"ids": np.arange(0), "score": np.zeros(0, np.float32)})
    rows.to_parquet(Path(__file__).parent / "empty.parquet", engine="fastparquet", index=False)
