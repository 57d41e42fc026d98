"""Rows that Spark holds: coded and counted where they are, added up on the way, and given noise by the driver alone."""

from weft.engines.spark.spark_engine import SparkEngine as SparkEngine
from weft.engines.spark.spark_engine import open_spark_engine as open_spark_engine
