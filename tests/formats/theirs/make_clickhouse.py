"""How clickhouse.parquet was made by ClickHouse 26.9 (chdb 4.4): python make_clickhouse.py.

It declares String as UTF-8, whatever bytes it holds.
"""

from pathlib import Path

import chdb

made = chdb.query("select unhex('ff00') b, '' c, 'é' d", "Parquet")
Path("clickhouse.parquet").write_bytes(made.bytes())
