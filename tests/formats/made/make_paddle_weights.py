"""Write the .pdiparams files beside this one, with PaddlePaddle 2.6.2 (numpy < 2).

The weights are those of cases in tests/golden, whose outputs Paddle computed:

    python make_paddle_weights.py
"""

import json
from pathlib import Path

import numpy as np
import paddle

HERE = Path(__file__).parent
GOLDEN = HERE.parents[1] / "golden"
CASES = {
    "rnn003": ["Weight", "Bias"],
    "rnn018": ["Weight", "Bias"],
    "rnn031": ["WeightX", "WeightH", "Bias"],
}

paddle.enable_static()
manifest = json.loads((GOLDEN / "manifest.json").read_text())
for case in manifest["cases"]:
    if case["id"] not in CASES:
        continue
    arrays = np.load(GOLDEN / case["file"], allow_pickle=False)
    main = paddle.static.Program()
    with paddle.static.program_guard(main):
        exe = paddle.static.Executor(paddle.CPUPlace())
        names = []
        for slot in CASES[case["id"]]:
            value = arrays[case["inputs"][slot]["array"]]
            name = f"{case['op']}_0.{'b' if slot == 'Bias' else 'w' + slot[6:].lower()}_0"
            variable = main.global_block().create_var(
                name=name, shape=value.shape, dtype=str(value.dtype), persistable=True
            )
            paddle.static.global_scope().var(name).get_tensor().set(value, paddle.CPUPlace())
            names.append(variable)
        # Sorted by name: the bias first.
        paddle.static.save_vars(
            exe, str(HERE), main, vars=names, filename=f"{case['id']}.pdiparams"
        )
