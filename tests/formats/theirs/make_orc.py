"""How the parts in the folders spark_orc and spark_orc_times were made by Spark 4.3.

They are here as spark.orc and spark_times.orc: python make_orc.py.
"""

import datetime
from decimal import Decimal

from pyspark.sql import SparkSession

zone = "-Duser.timezone=Europe/Oslo"
builder = SparkSession.builder.master("local[1]").config("spark.driver.extraJavaOptions", zone)
spark = builder.getOrCreate()
rows = [
    ([1, 2], "a", {"k": 1}, Decimal("1.25"), datetime.date(2024, 1, 2), [("u", 1.5)], True),
    (None, None, None, None, None, None, None),
    ([], "é", {}, Decimal("-3.50"), datetime.date(1582, 10, 15), [], False),
]
kinds = (
    "ids array<int>, word string, counts map<string, bigint>, price decimal(9, 2), day date, "
    "parts array<struct<name: string, size: float>>, good boolean"
)
spark.createDataFrame(rows, kinds).coalesce(1).write.orc("spark_orc")
times = (
    "select timestamp'2024-07-02 03:04:05.123456' t, timestamp'9999-12-31 00:00:00' far, "
    "array(named_struct('day', date'1500-01-02')) old"
)
spark.sql(times).coalesce(1).write.orc("spark_orc_times")
