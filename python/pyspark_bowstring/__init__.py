"""Registers `format("bowstring")` with Spark, which finds this module because its name begins with
`pyspark_`.

Spark imports it whenever it looks for data sources, so it loads only PySpark's own base class; readers and
writers are loaded on first use. If bowstring's jar is on the class path, Spark uses the columnar engine in
it instead, unless `.option("engine", "python")` is set.
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
        """The name for `format`."""
        return "bowstring"

    def schema(self) -> StructType:
        """Returns key, value, topic, partition, offset, timestamp, timestampType, as changed by the
        options.
        """
        return _ask("python_source", "schema", self.options)  # type: ignore[no-any-return]

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns the reader for `spark.read`."""
        return _ask("python_source", "batch_reader", self.options, schema)  # type: ignore[no-any-return]

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Returns the reader for `spark.readStream`."""
        return _ask("python_source", "stream_reader", self.options, schema)  # type: ignore[no-any-return]

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Returns the writer for `df.write`."""
        return _ask("python_sink", "batch_writer", self.options, schema, overwrite)  # type: ignore[no-any-return]

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Returns the writer for `df.writeStream`."""
        return _ask("python_sink", "stream_writer", self.options, schema)  # type: ignore[no-any-return]


def _ask(module: str, name: str, *arguments: Any) -> Any:
    from importlib import import_module

    try:
        function = getattr(import_module(f"bowstring.spark.{module}"), name)
        from bowstring.spark.worker_errors import one_sentence
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"the Python engine of bowstring's Spark source needs {error.name}, which is missing in the "
            "Python that Spark runs on this machine: pip install 'bowstring[spark]' on the driver and on "
            "every executor (or ship an environment with spark.archives)",
            name=error.name,
        ) from error
    with one_sentence():
        return function(*arguments)
