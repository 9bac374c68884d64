"""Write the Keras files beside this one, and what Keras computes: Keras 3.15.1 on torch.

KERAS_BACKEND=torch python make_keras.py
"""

from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers

HERE = Path(__file__).parent
keras.utils.set_random_seed(0)
x = np.random.default_rng(0).normal(size=(1, 5, 3)).astype("float32")


def gru(size: int, **options: Any) -> Any:
    options = {"return_sequences": True, "bias_initializer": "random_normal", **options}
    return layers.GRU(size, **options)


lstm: Any = {
    "return_sequences": True,
    "bias_initializer": "random_normal",
    "unit_forget_bias": False,
}
models: dict[str, list[Any]] = {
    "lstm": [
        layers.Bidirectional(layers.LSTM(4, **lstm)),
        layers.Dropout(0.1),
        layers.Bidirectional(layers.LSTM(4, **lstm)),
    ],
    "gru": [gru(4), gru(4)],
    "gru_before": [gru(4, reset_after=False, activation="relu")],
    "simple": [
        layers.SimpleRNN(4, return_sequences=True, activation="relu"),
        layers.Dense(2),
        layers.SimpleRNN(2, return_sequences=True, name="second"),
    ],
}
content: Any = {"x": x[0]}
for name, parts in models.items():
    model = keras.Sequential([keras.Input((None, 3)), *parts])
    model.save(HERE / f"keras_{name}.keras")
    model.save_weights(HERE / f"keras_{name}.weights.h5")
    model.save(HERE / f"keras_{name}.h5")
    content[name] = np.asarray(model(x).detach())[0]
np.savez(HERE / "keras.npz", **content)
