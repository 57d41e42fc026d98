"""Spark tables: Parquet files or a catalogue table, read through the active session or a local one.

The rows stay in Spark, where `weft.engines.spark` encodes and counts them. Tasks that need the rows themselves (a
draft, or a listing of values) get them through the driver in batches.
"""

from __future__ import annotations

import os
import re
import sys
import urllib.parse
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from weft.errors import DataError
from weft.io.reader import Batches, Reader
from weft.io.table_addresses import SparkAddress
from weft.schema import Schema

LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
}

_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"

_CHOOSING = ("Sample", "GlobalLimit", "LocalLimit", "Tail", "Offset", "Window")
"""Plan nodes that choose or number rows by position, which may differ each time Spark computes them."""

Converted = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Function that converts a Spark batch, value by value, to the types in which the table is read; runs on workers."""


@dataclass(frozen=True)
class SparkTable:
    """A table in Spark, and the conversion of its rows on the workers."""

    frame: Any
    """A Spark DataFrame."""
    name: str
    converted: Converted
    stamps: tuple[tuple[Any, ...], ...]
    """Sizes and modification times of the files when the table was opened."""

    def require_unchanged(self) -> None:
        """Refuse a table whose files have changed: all queries must be about the same rows."""
        if _collect_file_stamps(self.frame, self.name) != self.stamps:
            raise DataError(f"{self.name} has changed since it was opened; start again from an unchanging copy")


def open_spark(address: str, _schema: Schema | None, batch_rows: int) -> Reader:
    """Open `parquet:PATH` or `table:NAME`, in the types declared by the files or the catalogue, which are public."""
    place = SparkAddress.of(address)
    session = spark_session()
    with explain_spark_errors(place.name):
        frame = session.read.parquet(place.place) if place.form == "parquet" else _open_catalogue_table(session, place)
    return spark_reader(frame, place.name, batch_rows, arrow_schema(frame), as_it_is)


def spark_reader(frame: Any, name: str, batch_rows: int, arrow: pa.Schema, converted: Converted) -> Reader:
    """Open a Spark DataFrame; DataError if its rows may differ each time they are computed."""
    check_stable(frame, name)
    table = SparkTable(frame, name, converted, _collect_file_stamps(frame, name))

    def start(columns: Sequence[str]) -> Batches:
        asked = frame.select(*map(get_spark_column, list(columns) or arrow.names[:1]))
        with explain_spark_errors(name), override_settings(frame, {_BATCH_ROWS: str(batch_rows)}):
            for row in asked.mapInArrow(_serialise_batches, "octets binary").toLocalIterator(prefetchPartitions=True):
                with pa.ipc.open_stream(pa.py_buffer(row.octets)) as batches:
                    for batch in batches:
                        yield converted(batch), None
        table.require_unchanged()

    return Reader(name, arrow, start, ordered=False, spark=table)


def as_it_is(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch unchanged."""
    return batch


def _serialise_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_pydict({"octets": [sink.getvalue().to_pybytes()]})


def arrow_schema(frame: Any) -> pa.Schema:
    """Return the columns of a Spark DataFrame in their Arrow types."""
    from pyspark.sql.pandas.types import to_arrow_schema

    with explain_spark_errors("the DataFrame"):
        return to_arrow_schema(frame.schema, timezone=frame.sparkSession.conf.get("spark.sql.session.timeZone"))


def get_spark_column(name: str) -> Any:
    """Return a Spark column by its name, quoted."""
    from pyspark.sql import functions

    return functions.col("`" + name.replace("`", "``") + "`")


def check_stable(frame: Any, name: str) -> None:
    """Refuse a query whose rows may differ each time: every pass, and every lost task, is computed again."""
    if not hasattr(frame, "_jdf"):
        raise DataError(f"{name} is from Spark Connect, which cannot be checked; use a classic Spark session")
    with explain_spark_errors(name):
        plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 (the plan has no public interface)
        unstable = frame.isStreaming or not plan.deterministic() or any(map(_chooses_rows, _iterate_plan_nodes(plan)))
    if unstable:
        raise DataError(
            f"{name} may have different rows each time that Spark computes it (a limit, a sample, a window, one row "
            "of several, random or streamed values). Write it to Parquet or a table first, and use that"
        )


def _chooses_rows(step: Any) -> bool:
    name = str(step.nodeName())
    # Of rows that are equal in some columns, the first one would stay; of rows equal in all, the choice has no effect.
    some = name == "Deduplicate" and step.keys().size() < step.child().output().size()
    return some or name in _CHOOSING


def _iterate_plan_nodes(plan: Any) -> Iterator[Any]:
    yield plan
    below = plan.children().iterator()
    while below.hasNext():
        yield from _iterate_plan_nodes(below.next())


def _collect_file_stamps(frame: Any, name: str) -> tuple[tuple[Any, ...], ...]:
    with explain_spark_errors(name):
        return tuple(_stamp_file(frame, each) for each in sorted(frame.inputFiles()))


def _stamp_file(frame: Any, uri: str) -> tuple[Any, ...]:
    parsed = urllib.parse.urlparse(uri)
    if parsed.scheme in ("", "file"):
        try:
            status = Path(urllib.parse.unquote(parsed.path)).stat()
        except OSError:
            return (uri, None)
        return (uri, status.st_size, status.st_mtime_ns, status.st_ino)
    context = frame.sparkSession.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(uri)  # noqa: SLF001 (file systems are accessed through Java)
    status = path.getFileSystem(context._jsc.hadoopConfiguration()).getFileStatus(path)  # noqa: SLF001
    return (uri, status.getLen(), status.getModificationTime())


def _open_catalogue_table(session: Any, place: SparkAddress) -> Any:
    if not session.catalog.tableExists(place.place):
        raise DataError(
            f"{place.name}: no such table in the catalogue. Check its name, as in CATALOGUE.SCHEMA.TABLE; for a "
            "temporary view, pass the DataFrame itself in Python"
        )
    if "VIEW" in str(session.catalog.getTable(place.place).tableType).upper():
        raise DataError(
            f"{place.name} is a view, whose rows may combine several others. Create a table from it (CREATE TABLE ... "
            "AS SELECT ...) and name that: its rows are then what is protected"
        )
    return session.table(place.place)


def spark_session() -> Any:
    """Return a separate session of the running Spark, or of a new one if none is running."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise DataError("Spark is not installed: pip install 'weft[spark]', and Java 17 or newer") from None
    # This warning appears for every use of Arrow; only Arrow types are passed to Spark here.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    running = SparkSession.getActiveSession()
    session = (_start_session(SparkSession) if running is None else running).newSession()
    # Spark would infer types from all folders such as ward=3: one more row could change the type of others.
    session.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    for forgiving in ("ignoreCorruptFiles", "ignoreMissingFiles"):
        session.conf.set(f"spark.sql.files.{forgiving}", "false")
    return session


def _start_session(kind: Any) -> Any:
    """Start Spark with its own configuration; on this machine if that names no master."""
    from pyspark import SparkConf, SparkContext

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_DRIVER_MEMORY", "2g")  # Spark's configuration has precedence
    try:
        with _silence_java():
            SparkContext._ensure_initialized()  # noqa: SLF001 (Java must run before its configuration can be read)
            conf = SparkConf()
            builder = kind.builder.appName("weft")
            if conf.get("spark.master", None) is None:
                # A lost task is retried three times, as on a cluster.
                for name, value in ({"spark.master": "local[*,4]"} | LOCAL).items():
                    builder = builder.config(name, conf.get(name, value))
            return builder.getOrCreate()
    except Exception:  # noqa: BLE001 (missing or outdated Java fails in many ways)
        raise DataError(
            "Spark did not start. It needs Java 17 or newer (JAVA_HOME, or java on the path); try `pyspark` to see why"
        ) from None


@contextmanager
def _silence_java() -> Iterator[None]:
    """Let Java inherit no standard error: its log may quote rows on which a task failed."""
    if os.environ.get("WEFT_SPARK_LOG"):
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def override_settings(frame: Any, wanted: dict[str, str]) -> Iterator[None]:
    """Override settings of a DataFrame's session, and restore them at the end."""
    conf = frame.sparkSession.conf
    before = {name: conf.get(name, None) for name in wanted}
    try:
        for name, value in wanted.items():
            conf.set(name, value)
        yield
    finally:
        with suppress(Exception):  # the session may have ended
            for name, value in before.items():
                conf.unset(name) if value is None else conf.set(name, value)


@contextmanager
def explain_spark_errors(name: str) -> Iterator[None]:
    """Translate Spark's errors. Spark's own text is dropped: it quotes values and rows."""
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, PySparkException

    try:
        yield
    except AnalysisException:
        raise DataError(
            f"{name}: Spark cannot read this table; check its path or name, and that all files have the same columns"
        ) from None
    except (PySparkException, Py4JError, OSError, pa.ArrowException) as error:
        raise DataError(f"{name}: {_explain_workers(str(error)) or _BROKEN}") from None


def _explain_workers(said: str) -> str:
    """Say that workers run another Python, if they do: the only part of their messages that holds nothing private."""
    missing = re.search(r"No module named '(weft|numba|numpy|pyarrow|scipy)", said)
    if missing is None and "PYTHON_VERSION_MISMATCH" not in said:
        return ""
    told = "is another version than that of the driver" if missing is None else f"has no {missing[1]}"
    return f"the Python of Spark's workers {told}: install Weft on every machine, and set PYSPARK_PYTHON to its Python"


_BROKEN = (
    "Spark could not finish: a worker was lost too often, or Spark has ended. No answer was made from partial counts; "
    "check Spark's log, and start again"
)
