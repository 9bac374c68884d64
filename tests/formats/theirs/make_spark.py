"""How the parts in the folders spark and spark_csv were made by Spark 4.3: python make_spark.py.

They are here as spark.parquet and spark.csv.
"""

from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").getOrCreate()
rows = [([1, 2], "a", {"k": 1}), (None, None, None), ([], "é", {})]
frame = spark.createDataFrame(rows, "ids array<int>, word string, counts map<string, bigint>")
frame.coalesce(1).write.parquet("spark")

flat = "i int, s string, f double, b boolean"
lines = [(1, 'a,"q"', 1.5, True), (2, "line\nbreak", None, False), (3, "back\\slash", 2.5, None)]
frame = spark.createDataFrame(lines, flat)
frame.coalesce(1).write.csv("spark_csv", header=True)
