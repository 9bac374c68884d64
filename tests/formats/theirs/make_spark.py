"""How spark.parquet, the part in the folder spark, was made by Spark 4.3: python make_spark.py."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").getOrCreate()
rows = [([1, 2], "a", {"k": 1}), (None, None, None), ([], "é", {})]
frame = spark.createDataFrame(rows, "ids array<int>, word string, counts map<string, bigint>")
frame.coalesce(1).write.parquet("spark")
