"""Spark finds `format("bowstring")` through this module, because its name begins with `pyspark_`.

It is imported whenever Spark looks for data sources, so it brings nothing but PySpark's own base class; what
reads and writes is loaded when it is used. Where bowstring's jar is on the class path, Spark takes the
columnar engine in it and does not come here, unless asked by `.option("engine", "python")`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """The source and sink of topics, with the options of Spark's own Kafka connector."""

    @classmethod
    def name(cls) -> str:
        """The word for `format`."""
        return "bowstring"

    def schema(self) -> StructType:
        """Key, value, topic, partition, offset, timestamp, timestampType; as the options change it."""
        return _engine("python_source").schema(self.options)  # type: ignore[no-any-return]

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        return _engine("python_source").batch_reader(self.options, schema)  # type: ignore[no-any-return]

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For `spark.readStream`."""
        return _engine("python_source").stream_reader(self.options, schema)  # type: ignore[no-any-return]

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For `df.write`."""
        return _engine("python_sink").batch_writer(self.options, schema, overwrite)  # type: ignore[no-any-return]

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """For `df.writeStream`."""
        return _engine("python_sink").stream_writer(self.options, schema)  # type: ignore[no-any-return]


def _engine(module: str) -> Any:
    from importlib import import_module

    try:
        return import_module(f"bowstring.spark.{module}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the Python engine of bowstring's Spark source needs {error.name}, which is missing in the "
            "Python that Spark runs on this machine: pip install 'bowstring[spark]' on the driver and on "
            "every executor (or ship an environment with spark.archives)",
            name=error.name,
        ) from error
