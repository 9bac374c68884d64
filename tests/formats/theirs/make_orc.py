"""How the parts in the folders spark_orc, spark_orc_times, spark_orc_1970 were made by Spark 4.3.

They are here as spark.orc, spark_times.orc and spark_1970.orc: python make_orc.py.
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
near = (
    "select * from values (timestamp'1970-01-01 00:30:00.5'), (timestamp'1970-01-01 00:59:59.001'),"
    "(timestamp'1970-01-01 00:30:00'), (timestamp'1970-01-01 01:00:00.5'),"
    "(timestamp'1969-12-31 23:30:00.5'), (timestamp'1960-05-05 10:00:00.25'),"
    "(timestamp'1970-01-01 00:30:00.0005') t(t)"
)
spark.sql(near).coalesce(1).write.orc("spark_orc_1970")
