"""How structs.parquet was made by pyarrow 14.0.2: python make_pyarrow.py.

The statistics count null and empty lists as nulls of `k.s`, and not as nulls of `k.y`.
"""

import pyarrow as pa
import pyarrow.parquet as pq

one = {"s": "a", "y": 1}
kind = pa.list_(pa.struct([("s", pa.string()), ("y", pa.int32())]))
made = pa.table({"id": range(6), "k": pa.array([[one], [one], [one], None, [one], []], kind)})
pq.write_table(made, "structs.parquet", row_group_size=3, compression="none", store_schema=False)
