"""Checks a pipeline without running it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bowstring.clients.errors import BrokerError
from bowstring.pipeline import job
from bowstring.pipeline.declaration import Pipeline, PipelineError, Sink, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bowstring.clients.admin.admin import Admin


def check_topics(pipeline: Pipeline, timeout_s: float = 10.0) -> list[str]:
    """Checks that source topics exist; returns the sinks' topics that do not exist yet.

    Args:
        pipeline: the pipeline, as `load` returns it.
        timeout_s: seconds to wait for each cluster.

    Returns:
        `sink.name: servers has no topic 'name'` for each topic that `create_topics` would create.

    Raises:
        PipelineError: source topics are missing; the message names all of them.
        ClientError: the brokers cannot be reached.
    """
    wrong = [
        f"source.{name}: {servers} has no topic {topic!r}; create it with `bowstring topics create {topic}`"
        for servers, name, topic in _missing(pipeline, pipeline.source, timeout_s)
    ]
    if wrong:
        raise PipelineError("\n".join(wrong))
    return [
        f"sink.{name}: {servers} has no topic {topic!r}"
        for servers, name, topic in _missing(pipeline, pipeline.sink, timeout_s)
    ]


def create_topics(pipeline: Pipeline, timeout_s: float = 10.0) -> list[str]:
    """Creates the sinks' topics that do not exist, with the brokers' defaults; returns their names.

    Args:
        pipeline: the pipeline, as `load` returns it.
        timeout_s: seconds to wait for each cluster.

    Raises:
        ClientError: the brokers cannot be reached, or refuse a topic.
    """
    created = []
    for servers, _, topic in _missing(pipeline, pipeline.sink, timeout_s):
        with _admin(pipeline, servers, timeout_s) as admin:
            try:
                admin.create_topic(topic)
            except BrokerError:
                if topic not in admin.list_topics():  # else another run was faster
                    raise
        created.append(topic)
    return created


def _missing(
    pipeline: Pipeline, places: Mapping[str, Source] | Mapping[str, Sink], timeout_s: float
) -> Iterator[tuple[str, str, str]]:
    """Yields servers, place and name of each topic that is named and does not exist."""
    by_servers: dict[str, list[tuple[str, str]]] = {}
    for name, place in places.items():
        topics = place.topics if isinstance(place, Source) else [place.topic] if place.topic else []
        for topic in topics:
            by_servers.setdefault(pipeline.servers(place), []).append((name, topic))
    for servers, wanted in by_servers.items():
        with _admin(pipeline, servers, timeout_s) as admin:
            there = set(admin.list_topics())
        yield from ((servers, name, topic) for name, topic in dict.fromkeys(wanted) if topic not in there)


def _admin(pipeline: Pipeline, servers: str, timeout_s: float) -> Admin:
    from bowstring.clients.admin.admin import Admin

    return Admin(
        servers,
        timeout_ms=int(timeout_s * 1000),
        client_id="bowstring-pipeline",
        security=pipeline.security_settings(),
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
