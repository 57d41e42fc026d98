"""Spark engine: workers encode and count the rows, partial counts are summed, and only the driver adds noise."""

from weft.engines.spark.spark_engine import SparkEngine as SparkEngine
from weft.engines.spark.spark_engine import open_spark_engine as open_spark_engine
