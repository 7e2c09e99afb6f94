"""Defines the content of a pipeline's file, and checks it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from bowstring.clients.config.config_table import nearest
from bowstring.clients.config.security import environment_security
from bowstring.clients.errors import ClientError, ConfigError
from bowstring.spark.option_names import check_names

Format = Literal["none", "text", "json", "avro", "protobuf"]
OnError = Literal["fail", "drop", "column"]
Delivery = Literal["exactly-once", "at-least-once"]
Mode = Literal["append", "update", "complete"]
Option = str | int | float | bool

AVAILABLE_NOW = "available now"
# Sinks by key, with the class that proves that their jar is present; None: always present.
SINK_KINDS: dict[str, str | None] = {
    "topic": None,
    "parquet": None,
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.SparkCatalog",
    "console": None,
}


class PipelineError(ClientError):
    """A pipeline that cannot run as declared; the message names the place and says what to do."""


class Watermark(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How late records may come: see `Dataset.withWatermark` of Spark.

    Attributes:
        on: The event time: a column, or an SQL expression of the source's columns.
        name: The resulting column; by default the column that `on` names, else `event_time`.
        delay: How long after the latest event time a record may still come: "10 minutes".
    """

    on: str
    delay: str
    name: str = ""

    @property
    def column(self) -> str:
        """Name of the event time's column."""
        return self.name or (self.on if self.on.isidentifier() else "event_time")


class Source(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Topics to read, as a view named like the table. The fields of the value are its columns (`value` when
    it is not decoded), and the rest of a record is the struct `record`.

    Attributes:
        topics, pattern: Which topics: names, or a regular expression. Give one of the two.
        bootstrap_servers: If different from the pipeline's.
        starting_offsets: Where a new checkpoint begins: "earliest", "latest", or Spark's JSON.
        format: Format of values: none (binary), text, json, avro, protobuf.
        schema: For json, avro or protobuf: text, or the path of a file.
        message: For protobuf: the message's full name.
        on_error: What happens on a value that does not decode: the job ends, the record is dropped, or the
            column `_error` has the reason.
        options: Further options of `format("bowstring")`.
    """

    topics: list[str] = []
    pattern: str = ""
    bootstrap_servers: str = ""
    starting_offsets: str = "earliest"
    format: Format = "none"
    schema: str = ""
    message: str = ""
    on_error: OnError = "fail"
    watermark: Watermark | None = None
    options: dict[str, Option] = {}


class View(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A view defined by an SQL statement over sources and earlier views."""

    sql: str


class Sink(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename={"origin": "from"}):
    """The destination of the rows of a source or view: exactly one of topic, parquet, delta, iceberg and
    console.

    Attributes:
        origin: `from` in the file: name of the source or view.
        topic: Name of a topic; rows become JSON objects unless `value` is given.
        delivery: Of a topic: "exactly-once" (the default) or "at-least-once".
        key, value: SQL expressions of a topic's records, text or binary.
        parquet, delta: Directories. iceberg: a table's name.
        console: Shows rows on standard output.
        mode: Output mode, as in Spark.
        partition_by: Columns that partition a table's files into folders.
        bootstrap_servers: If different from the pipeline's.
        options: Further options of the sink.
    """

    origin: str
    topic: str = ""
    key: str = ""
    value: str = ""
    parquet: str = ""
    delta: str = ""
    iceberg: str = ""
    console: bool = False
    delivery: Delivery | None = None
    mode: Mode = "append"
    partition_by: list[str] = []
    bootstrap_servers: str = ""
    options: dict[str, Option] = {}

    @property
    def kinds(self) -> list[str]:
        """The keys present that select the kind; exactly one in a valid declaration."""
        return [kind for kind in SINK_KINDS if getattr(self, kind)]


class Pipeline(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A complete file. Tables by name: `[source.NAME]`, `[view.NAME]`, `[sink.NAME]`.

    Attributes:
        name: Shown in Spark's UI.
        checkpoint: Directory that stores the progress of each sink.
        trigger: "available now": processes the present records and ends; or an interval: "5 seconds".
        spark: Settings of the Spark session, and `master`.
        security: Settings of TLS and SASL by Kafka's names, of all topics; underscores may stand for the
            dots.
            Those that are missing here may be in the environment: BOWSTRING_SASL_PASSWORD, and so on.
    """

    name: str
    checkpoint: str
    source: dict[str, Source]
    sink: dict[str, Sink]
    view: dict[str, View] = {}
    bootstrap_servers: str = "localhost:9092"
    trigger: str = AVAILABLE_NOW
    spark: dict[str, Option] = {}
    security: dict[str, Option] = {}

    def security_settings(self) -> dict[str, str]:
        """Returns the settings of TLS and SASL by Kafka's names."""
        own = {name.replace("_", "."): str(value) for name, value in self.security.items()}
        return {**environment_security(), **own}

    def servers(self, part: Source | Sink) -> str:
        """Returns the bootstrap servers of a source or sink."""
        return part.bootstrap_servers or self.bootstrap_servers


def load(path: Path) -> Pipeline:
    """Reads a declaration. Relative paths in it are relative to its own folder.

    Args:
        path: the TOML file.

    Raises:
        PipelineError: the file cannot be read, or is invalid.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path} is not valid TOML: {error}") from error
    pipeline = declared(table, str(path))
    return _with_paths(pipeline, path.resolve().parent)


def declared(table: dict[str, Any], where: str = "pipeline") -> Pipeline:
    """Builds a declaration from the content of a TOML file.

    Args:
        table: the content of the file.
        where: name of the whole, for messages.

    Raises:
        PipelineError: the message names the place in the file.
    """
    for place, key, known in _unknown(Pipeline, table, ""):
        near = nearest(key, known)
        hint = f"did you mean {near}?" if near else f"known keys are {', '.join(sorted(known))}"
        raise PipelineError(f"{where}: unknown key {place}{key}; {hint}")
    try:
        pipeline = msgspec.convert(table, Pipeline)
    except msgspec.ValidationError as error:
        raise PipelineError(f"{where}: {error}") from error
    for complaint in _complaints(pipeline):
        raise PipelineError(f"{where}: {complaint}")
    return pipeline


_TABLES: dict[str, type[msgspec.Struct]] = {"source": Source, "view": View, "sink": Sink}


def _unknown(kind: type[msgspec.Struct], table: Any, place: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yields keys that `kind` does not have: place, key, and known keys."""
    if not isinstance(table, dict):
        return
    known = [field.encode_name for field in msgspec.structs.fields(kind)]
    for key, value in table.items():
        if key not in known:
            yield place, key, known
        elif kind is Pipeline and key in _TABLES and isinstance(value, dict):
            for name, part in value.items():
                yield from _unknown(_TABLES[key], part, f"{key}.{name}.")
        elif kind is Source and key == "watermark":
            yield from _unknown(Watermark, value, f"{place}watermark.")


def _complaints(pipeline: Pipeline) -> Iterator[str]:
    if not pipeline.source:
        yield "no [source.NAME]: add a source to read"
    if not pipeline.sink:
        yield "no [sink.NAME]: add a sink to write"
    for name in pipeline.view.keys() & pipeline.source.keys():
        yield f"view.{name}: a source has the same name; rename one"
    for name, source in pipeline.source.items():
        if bool(source.topics) == bool(source.pattern):
            yield f"source.{name}: give exactly one of topics and pattern"
        if source.format in ("json", "avro", "protobuf") and not source.schema:
            yield f"source.{name}: format {source.format} needs a schema"
        if source.format in ("none", "text") and source.schema:
            yield f"source.{name}: a schema needs a format: json, avro or protobuf"
        if source.format == "protobuf" and not source.message:
            yield f"source.{name}: format protobuf needs message, the full name of a message in the schema"
    known = [*pipeline.source, *pipeline.view]
    for name, sink in pipeline.sink.items():
        if sink.origin not in known:
            near = nearest(sink.origin, known)
            yield (
                f"sink.{name}: there is no source or view {sink.origin!r}; "
                f"{f'did you mean {near!r}?' if near else f'known names are {known}'}"
            )
        if len(sink.kinds) != 1:
            found = " and ".join(sink.kinds) or "none"
            yield f"sink.{name}: give exactly one of {', '.join(SINK_KINDS)}; given: {found}"
        if (sink.key or sink.value or sink.delivery) and not sink.topic:
            yield f"sink.{name}: key, value and delivery are allowed for a topic only"
    yield from _unknown_options(pipeline)


def _unknown_options(pipeline: Pipeline) -> Iterator[str]:
    places = {f"source.{name}": source.options for name, source in pipeline.source.items()}
    places |= {f"sink.{name}": sink.options for name, sink in pipeline.sink.items() if sink.topic}
    for place, options in places.items():
        try:
            check_names(options)
        except ConfigError as error:
            yield f"{place}.options: {error}"


def _with_paths(pipeline: Pipeline, folder: Path) -> Pipeline:
    """Makes paths absolute, because the job may run in another directory."""

    def absolute(text: str) -> str:
        return text if not text or "://" in text else str(folder / text)

    pipeline.checkpoint = absolute(pipeline.checkpoint)
    for sink in pipeline.sink.values():
        sink.parquet, sink.delta = absolute(sink.parquet), absolute(sink.delta)
    for source in pipeline.source.values():
        beside = folder / source.schema
        if source.schema and len(source.schema) < 256 and "\n" not in source.schema and beside.is_file():
            source.schema = str(beside)
    return pipeline
