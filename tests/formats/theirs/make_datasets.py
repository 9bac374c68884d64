"""Makes the folder datasets, a DatasetDict of one split, with datasets 5.2."""

import shutil
from pathlib import Path

from datasets import Array2D, ClassLabel, Dataset, DatasetDict, Features, List, Value

HERE = Path(__file__).parent
COLUMNS = {
    "tokens": [[1, 2, 3], [], [4], [5, 6]],
    "nested": [[[1], []], [], [[2, 3]], [[4]]],
    "text": ["größe", "", "b", "c"],
    "label": [0, 1, 1, 0],
    "box": [[[number, 1], [2, 3]] for number in range(4)],
    "pair": [[number / 4, 1] for number in range(4)],
}
FEATURES = Features(
    {
        "tokens": List(Value("int32")),
        "nested": List(List(Value("uint16"))),
        "text": Value("string"),
        "label": ClassLabel(names=["no", "yes"]),
        "box": Array2D((2, 2), "int8"),
        "pair": List(Value("float32"), length=2),
    }
)

if __name__ == "__main__":
    shutil.rmtree(HERE / "datasets", ignore_errors=True)
    train = Dataset.from_dict(COLUMNS, features=FEATURES)
    DatasetDict({"train": train}).save_to_disk(HERE / "datasets", num_shards={"train": 2})
