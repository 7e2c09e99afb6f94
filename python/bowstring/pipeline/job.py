"""Turns a declaration into Spark objects: streaming views, and a query for each sink."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from bowstring.pipeline.declaration import AVAILABLE_NOW, SINK_KINDS, Pipeline, PipelineError, Sink, Source
from bowstring.pipeline.quiet import log_settings, without_chatter, without_echoes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FORMAT = "bowstring"
# Options of a topic's sink with which a pipeline does not choose exactly once by itself.
CHOOSES_DELIVERY = {"delivery", "kafka.acks", "kafka.enable.idempotence", "asyncprogresstrackingenabled"}
RECORD_FIELDS = ("key", "topic", "partition", "offset", "timestamp", "timestampType")
# Text that follows the reason in Spark's messages.
_NOT_THE_REASON = (";\n", "\n\n", "\nJVM stacktrace", "\n=== Streaming Query ===", "\n\tat ")
_WRAPPING = re.compile(r"^\[STREAM_FAILED\] Query \[[^]]*\] terminated with exception: |\s*SQLSTATE: \w+")
_MODES = {"fail": "FAILFAST", "drop": "DROPMALFORMED", "column": "PERMISSIVE"}


def start_session(pipeline: Pipeline) -> SparkSession:
    """Starts the session of a pipeline, with fast local checkpoints.

    Args:
        pipeline: the pipeline, as `load` returns it.

    Raises:
        SparkMissingError, JavaMissingError: the message says what to install.
    """
    from bowstring.spark import session

    settings: dict[str, Any] = dict(pipeline.spark)
    master = settings.pop("master", None)
    with without_chatter():
        started = session(
            pipeline.name,
            master=None if master is None else str(master),
            fast_checkpoints=True,
            **(log_settings(settings) if _starts_spark() else {}),
            **settings,
        )
    without_echoes()
    return started


def _starts_spark() -> bool:
    """Returns whether a session would start a JVM. A running one refuses settings of the JVM."""
    if "pyspark" not in sys.modules:
        return not os.environ.get("SPARK_REMOTE")
    from pyspark.sql import SparkSession

    return not os.environ.get("SPARK_REMOTE") and SparkSession.getActiveSession() is None


def kafka_security(pipeline: Pipeline) -> dict[str, str]:
    """Returns the options of a pipeline's topics for TLS and SASL."""
    return {f"kafka.{name}": value for name, value in pipeline.security_settings().items()}


def source_frame(spark: SparkSession, pipeline: Pipeline, source: Source) -> DataFrame:
    """Returns a source's streaming rows: the value's fields, and the struct `record`.

    Args:
        spark: the Spark session.
        pipeline: the pipeline, as `load` returns it.
        source: one of its sources.
    """
    from pyspark.sql import functions as F

    reader = spark.readStream.format(FORMAT).option("kafka.bootstrap.servers", pipeline.servers(source))
    if source.topics:
        reader = reader.option("subscribe", ",".join(source.topics))
    else:
        reader = reader.option("subscribePattern", source.pattern)
    reader = reader.option("startingOffsets", source.starting_offsets)
    reader = reader.options(**kafka_security(pipeline))
    for name, setting in source.options.items():
        reader = reader.option(name, setting)
    decoded = source.format in ("json", "avro", "protobuf")
    if decoded:
        reader = reader.option("value.format", source.format).option("value.schema", source.schema)
        reader = reader.option("mode", _MODES[source.on_error])
        if source.message:
            reader = reader.option("value.message", source.message)
    frame = reader.load()
    record = F.struct(*[F.col(name) for name in RECORD_FIELDS]).alias("record")
    value = F.col("value.*") if decoded else F.col("value")
    if source.format == "text":
        value = value.cast("string").alias("value")
    error = [F.col("_error")] if decoded and source.on_error == "column" else []
    frame = frame.select(value, record, *error)
    if source.watermark is not None:
        frame = frame.withColumn(source.watermark.column, F.expr(source.watermark.on))
        frame = frame.withWatermark(source.watermark.column, source.watermark.delay)
    return frame


def frames(spark: SparkSession, pipeline: Pipeline) -> dict[str, DataFrame]:
    """Returns every source and view by name; registers them as temporary views for the SQL of later views.

    Args:
        spark: the Spark session.
        pipeline: the pipeline, as `load` returns it.

    Raises:
        PipelineError: Spark refuses a statement or an option, with Spark's reason.
    """
    found: dict[str, DataFrame] = {}
    for name, source in pipeline.source.items():
        with _blaming(f"source.{name}"):
            found[name] = source_frame(spark, pipeline, source)
            found[name].createOrReplaceTempView(name)
    for name, view in pipeline.view.items():
        with _blaming(f"view.{name}"):
            found[name] = spark.sql(view.sql)
            found[name].createOrReplaceTempView(name)
    return found


def sink_frame(frame: DataFrame, sink: Sink) -> DataFrame:
    """Returns the rows in the form that a sink accepts: for a topic, `key` and `value`.

    Args:
        frame: the rows to write.
        sink: where they go.
    """
    if not sink.topic:
        return frame
    from pyspark.sql import functions as F

    value = F.expr(sink.value) if sink.value else F.to_json(F.struct("*"))
    columns = [value.alias("value")]
    if sink.key:
        columns.insert(0, _payload(frame, sink.key).alias("key"))
    return frame.select(*columns)


def _payload(frame: DataFrame, expression: str) -> Any:
    """Returns the expression; casts a key that is neither text nor binary to text."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, StringType

    kind = frame.select(F.expr(expression)).schema[0].dataType
    column = F.expr(expression)
    return column if isinstance(kind, BinaryType | StringType) else column.cast("string")


def writer(
    spark: SparkSession, pipeline: Pipeline, name: str, sink: Sink, frame: DataFrame
) -> DataStreamWriter:
    """Returns the writer that starts the query of one sink.

    Args:
        spark: the Spark session.
        pipeline: the pipeline, as `load` returns it.
        name: name of the sink, and of its query.
        sink: one of its sinks.
        frame: the rows to write.

    Raises:
        PipelineError: the sink's jar is not on the class path.
    """
    (kind,) = sink.kinds
    needs_class(spark, name, kind)
    with _blaming(f"sink.{name}"):
        made = sink_frame(frame, sink).writeStream.queryName(name).outputMode(sink.mode)
    made = made.option("checkpointLocation", f"{pipeline.checkpoint}/{name}")
    if sink.partition_by:
        made = made.partitionBy(*sink.partition_by)
    for option, value in sink.options.items():
        made = made.option(option, value)
    if pipeline.trigger == AVAILABLE_NOW:
        made = made.trigger(availableNow=True)
    else:
        made = made.trigger(processingTime=pipeline.trigger)
    if kind == "topic":
        made = made.format(FORMAT).option("kafka.bootstrap.servers", pipeline.servers(sink))
        made = made.options(**kafka_security(pipeline))
        return made.options(**delivery_options(sink)).option("topic", sink.topic)
    if kind in ("parquet", "delta"):
        return made.format(kind).option("path", getattr(sink, kind))
    return made.format(kind)


def delivery_options(sink: Sink) -> dict[str, str]:
    """Returns the option by which a topic gets each row once, unless the sink's own say otherwise.

    Args:
        sink: one that writes a topic.
    """
    given = {name.lower() for name in sink.options}
    if sink.delivery is None and given & CHOOSES_DELIVERY:
        return {}
    return {"delivery": sink.delivery or "exactly-once"}


def start(spark: SparkSession, pipeline: Pipeline) -> list[Any]:
    """Starts a streaming query for each sink; stops all of them if one fails.

    Args:
        spark: the Spark session.
        pipeline: the pipeline, as `load` returns it.

    Raises:
        PipelineError: Spark's reason for the sink that did not start.
    """
    found = frames(spark, pipeline)
    queries: list[Any] = []
    try:
        for name, sink in pipeline.sink.items():
            made = writer(spark, pipeline, name, sink, found[sink.origin])
            with _blaming(f"sink.{name}"):
                queries.append(made.toTable(sink.iceberg) if sink.iceberg else made.start())
    except BaseException:
        for query in queries:
            query.stop()
        raise
    return queries


def needs_class(spark: SparkSession, name: str, kind: str) -> None:
    """Refuses a sink whose jar is missing, with a shorter message than Spark's.

    Raises:
        PipelineError: names the jar to add, and how.
    """
    wanted = SINK_KINDS[kind]
    if wanted is None or not hasattr(spark, "_jvm"):
        return
    jvm: Any = spark._jvm
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    if loader.getResource(wanted.replace(".", "/") + ".class") is None:
        raise PipelineError(
            f"sink.{name}: {kind} needs its jar on Spark's class path; add it in the file: [spark] "
            f'"spark.jars" = "/path/to/{kind}-spark.jar", with the extensions and catalogs that it requires'
        )


class _blaming:
    """Converts Spark's errors inside the block to PipelineErrors that name the place in the file."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        from pyspark.errors import PySparkException

        if error is not None and (isinstance(error, PySparkException) or _of_java(error)):
            raise PipelineError(f"{self._place}: {reason(error)}") from error


def _of_java(error: BaseException) -> bool:
    return type(error).__module__.startswith("py4j.")


def reason(error: BaseException) -> str:
    """Returns Spark's reason in one line: without the query's number and state, the plan and the stack."""
    text = str(error)
    java = getattr(error, "java_exception", None)
    if java is not None:
        text = str(java.getMessage() or java.toString())
    for what_follows in _NOT_THE_REASON:
        text = text.split(what_follows)[0]
    return " ".join(_WRAPPING.sub("", text).split())


def progress_line(progress: Any) -> dict[str, Any]:
    """Returns the facts of one batch of one query for output.

    Args:
        progress: A StreamingQueryProgress, as in `query.recentProgress`.
    """
    found = json.loads(progress.json) if hasattr(progress, "json") else dict(progress)
    sources = found.get("sources", [])
    lag = [s.get("metrics", {}).get("maxOffsetsBehindLatest") for s in sources]
    return {
        "sink": found["name"],
        "batch": found["batchId"],
        "records": found["numInputRows"],
        "records_per_second": round(found.get("processedRowsPerSecond") or 0.0),
        "milliseconds": found.get("batchDuration", 0),
        "behind": max((int(each) for each in lag if each is not None), default=0),
    }
