"""A Spark on this machine that tests share, where there is one: Java and pyspark."""

import functools
import importlib.util
import os
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java that starts sooner, and never gets as fast."""


def spark():
    """Return a session; without Spark the test is skipped."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed (weft[spark])")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Java is not installed (Debian's package openjdk-17-jre-headless)")
    return _started()


@functools.cache
def _started():
    from weft.io.spark_source import spark_session

    wanted = {
        "spark.master": "local[2,4]",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.codegen.wholeStage": "false",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": Path("spark-warehouse").resolve(),
    }
    settings = " ".join(f"--conf {name}={value}" for name, value in wanted.items())
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{settings} --driver-java-options '{QUICK}' pyspark-shell"
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return spark_session()


def fill_spark(table, path):
    """Write a table as Parquet files of a folder, and return its address."""
    spark()
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    half = len(table) // 2
    for number, piece in enumerate((table.slice(0, half), table.slice(half))):
        pq.write_table(piece, path / f"{number}.parquet", row_group_size=25)
    return f"spark:parquet:{path}"
