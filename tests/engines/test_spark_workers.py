"""What is said if Spark's workers run another Python than the driver."""

import pytest

from weft.errors import DataError

pytest.importorskip("pyspark", reason="needs weft[spark]")

from pyspark.errors import PySparkRuntimeError, PythonException

from weft.io.spark_source import explain_spark_errors


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PythonException("Traceback ... ModuleNotFoundError: No module named 'weft'"), "workers has no weft"),
        (PythonException("ModuleNotFoundError: No module named 'pyarrow'"), "workers has no pyarrow"),
        (PySparkRuntimeError("[PYTHON_VERSION_MISMATCH] Python in worker has different version"), "another version"),
    ],
)
def test_another_python_on_workers_is_named_with_its_remedy(error, told):
    with pytest.raises(DataError, match=f"(?s)stays: .*{told}.*PYSPARK_PYTHON"), explain_spark_errors("stays"):
        raise error


def test_other_messages_of_workers_stay_private():
    with pytest.raises(DataError) as raised, explain_spark_errors("stays"):
        raise PythonException("ValueError: No module named 'Mrs Smith', age 81")
    assert "Smith" not in str(raised.value) and "81" not in str(raised.value)
