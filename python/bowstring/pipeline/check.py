"""Checks a pipeline without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bowstring.pipeline import job
from bowstring.pipeline.declaration import Pipeline, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_topics(pipeline: Pipeline, timeout_s: float = 10.0) -> None:
    """Checks that source topics exist, and that sink topics exist or can be created.

    Args:
        pipeline: the pipeline, as `load` returns it.
        timeout_s: seconds to wait for each cluster.

    Raises:
        PipelineError: a topic is missing.
        ClientError: the brokers cannot be reached.
    """
    from bowstring.clients.admin.admin import Admin

    by_servers: dict[str, list[tuple[str, str]]] = {}
    for name, source in pipeline.source.items():
        for topic in source.topics:
            by_servers.setdefault(pipeline.servers(source), []).append((f"source.{name}", topic))
    for name, sink in pipeline.sink.items():
        if sink.topic:
            by_servers.setdefault(pipeline.servers(sink), []).append((f"sink.{name}", sink.topic))
    for servers, wanted in by_servers.items():
        with Admin(servers, timeout_ms=int(timeout_s * 1000), client_id="bowstring-pipeline") as admin:
            there = set(admin.list_topics())
        for place, topic in wanted:
            if topic not in there:
                raise PipelineError(
                    f"{place}: {servers} has no topic {topic!r}; create it with `bowstring topics create "
                    f"{topic}`"
                )


def check_plan(spark: SparkSession, pipeline: Pipeline) -> dict[str, str]:
    """Makes Spark analyse every statement and every sink as for a run; nothing is read or written.

    Args:
        spark: the Spark session.
        pipeline: the pipeline, as `load` returns it.

    Returns:
        The columns of each source and view, as DDL.

    Raises:
        PipelineError: the place and Spark's reason.
    """
    found = job.frames(spark, pipeline)
    for name, sink in pipeline.sink.items():
        frame = found[sink.origin]
        job.writer(spark, pipeline, name, sink, frame)
        _check_streaming(spark, name, sink.mode, job.sink_frame(frame, sink))
    return {name: _ddl(frame) for name, frame in found.items()}


def _ddl(frame: DataFrame) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema)


def _check_streaming(spark: SparkSession, name: str, mode: str, frame: Any) -> None:
    """Checks what Spark otherwise reports only at the start: aggregations without a watermark, and the
    like.
    """
    if not hasattr(spark, "_jvm"):
        return
    jvm: Any = spark._jvm
    modes = jvm.org.apache.spark.sql.streaming.OutputMode
    chosen = {"append": modes.Append, "update": modes.Update, "complete": modes.Complete}[mode]()
    plan = frame._jdf.queryExecution().analyzed()
    with job._blaming(f"sink.{name}"):
        jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, chosen)
