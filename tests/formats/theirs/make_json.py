"""Write pandas.json, an array of records, with pandas: python make_json.py.

jq.json is what `jq '.[]' pandas.json` prints of it: records one after another, over many lines.
jq_sequence.json is what `jq -n --seq --slurpfile x pandas.json '$x[0][]'` prints (jq 1.6): the same
with the separators of RFC 7464.
"""

import pandas as pd

records = {
    "text": ['Grüß [1, "2"', "a\nb\\", ""],
    "ids": [[1, 2], [], [3]],
    "score": [0.5, -1.25, 2.0],
    "tags": [[[1], []], [], [[2, 3]]],
}
pd.DataFrame(records).to_json("pandas.json", orient="records", indent=2)
