"""How pandas.h5 was made, by pandas 2.3.3 and PyTables 3.11: times in both layouts of HDFStore."""

import pandas as pd

index = pd.to_datetime(["1969-12-31 23:59:59", "2024-02-29"], format="mixed")
frame = pd.DataFrame({"due": pd.to_datetime(["2024-03-01", None]).as_unit("us")}, index=index)
with pd.HDFStore("pandas.h5", "w", complevel=9, complib="zlib") as store:
    store.put("fixed", frame)
    store.put("table", frame, format="table", data_columns=["due"], index=False)
