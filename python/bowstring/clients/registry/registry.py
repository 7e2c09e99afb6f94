"""Implements Registry: the format of values whose schemas are in a schema registry."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from bowstring.clients.arguments import checked_methods
from bowstring.clients.errors import ConfigError
from bowstring.clients.http_login import HttpLogin
from bowstring.clients.registry.decoding import given_reader
from bowstring.clients.registry.given_schema import GivenSchema
from bowstring.clients.registry.registered_schema import SchemaReference
from bowstring.clients.registry.registry_client import TIMEOUT_S, RegistryClient
from bowstring.clients.registry.topic_format import TopicFormat

if TYPE_CHECKING:
    import pyarrow as pa

    from bowstring.values.format import OnError

Kind: TypeAlias = Literal["AVRO", "JSON", "PROTOBUF"]
Strategy: TypeAlias = Literal["topic", "record", "topic_record"]
Wire: TypeAlias = Literal["prefix", "headers"]
LATEST_TTL_S = 60.0
SubjectOf: TypeAlias = Callable[[str, str, str], str]


@checked_methods(hot=("for_topic", "for_topics", "subject_of"))
class Registry:
    """Keys or values whose schemas are in a schema registry with Confluent's REST API: Bowstring's,
    Confluent's, Karapace's, Apicurio's.

    Each value begins with a zero byte and its schema's id, or a header of its record names the schema; both
    forms are read. Records are decoded by the schema they were written with, and resolved to `schema`, if
    it is given, as Avro's specification says; Protobuf goes by field numbers and JSON by names. `poll()`
    without a schema makes objects of each record's own schema. Columns (Arrow, `read`, Spark) need one
    schema for all records: without a given one it is the subject's newest at the first use.

    A registry that does not answer raises SchemaRegistryError after `timeout` seconds, and for five seconds
    after that at once; positions of consumers stay. A value whose schema the registry does not have is bad,
    like one that does not decode.

    Attributes:
        schema: what was given.

    Args:
        url: such as "http://localhost:8081", or several, which are tried in turn. It may have a user and a
            password.
        schema: an Avro schema or a JSON Schema (text, a mapping, or a file's path), a class (a dataclass,
            TypedDict, msgspec struct or pydantic model), a generated Protobuf class, or .proto text (or its
            file's path), of which the first message counts. Values that are read are resolved to it. None:
            writers use the subject's newest schema.
        kind: of a class "AVRO", the default, or "JSON"; else it is found out.
        references: name, subject and version of each schema that `schema` refers to.
        subject: where schemas are registered; or a function of topic, "key" or "value", and the record's
            name. None: by `strategy`.
        strategy: "topic" (orders-value), "record" (the record's full name), "topic_record"
            (orders-shop.Order), as Confluent's TopicNameStrategy, RecordNameStrategy and
            TopicRecordNameStrategy.
        auto_register: whether writers register `schema`; else it must be registered.
        use_latest: the subject's newest schema is used instead of `schema`, for reading and writing.
        latest_ttl: seconds after which a writer, or `poll()` with `use_latest`, looks for a newer one, as
            Confluent's `latest.cache.ttl.sec`; None: never. Columns keep the schema that they begin with. If
            the newest one cannot be used, the one before stays, with a warning in the log; so it does while
            a registry takes longer than a second to answer.
        normalize: whether the registry normalizes the schema.
        wire: "prefix", or "headers", which needs a registry with guids (Bowstring, Confluent 8): values are
            then bare, and a header `__value_schema_id` has the guid.
        user, password: for basic authentication.
        token: for bearer authentication.
        ca_file: certificates of authorities, PEM; None: the system's.
        cert_file, key_file: the client's certificate and its key, PEM.
        timeout: seconds that a request may take.
        on_error: of columns, as for bowstring.Avro: "column", "raise", or a DeadLetter.

    Raises:
        ConfigError: an argument is invalid.
        ValueSchemaError: the schema cannot be parsed.

    Examples:
        >>> order = {"type": "record", "name": "Order", "fields": [{"name": "hats", "type": "int"}]}
        >>> orders = bowstring.Registry("http://localhost:8081", schema=order)
        >>> producer = bowstring.Producer("localhost:9092", value=orders)
        >>> producer.send("orders", {"hats": 1})  # doctest: +SKIP
    """

    def __init__(
        self,
        url: str | Iterable[str],
        *,
        schema: Any = None,
        kind: Kind | None = None,
        references: Iterable[tuple[str, str, int]] = (),
        subject: str | SubjectOf | None = None,
        strategy: Strategy = "topic",
        auto_register: bool = True,
        use_latest: bool = False,
        latest_ttl: float | None = LATEST_TTL_S,
        normalize: bool = False,
        wire: Wire = "prefix",
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        ca_file: str | None = None,
        cert_file: str | None = None,
        key_file: str | None = None,
        timeout: float = TIMEOUT_S,
        on_error: OnError = "column",
    ):
        from bowstring.values.dead_letter import DeadLetter

        if on_error not in ("column", "raise") and not isinstance(on_error, DeadLetter):
            raise ConfigError(f'on_error is {on_error!r}, it must be "column", "raise" or a DeadLetter')
        files = (ca_file or "", cert_file or "", key_file or "")
        self.client = RegistryClient(url, HttpLogin(user or "", password or "", token or "", *files), timeout)
        given = tuple(SchemaReference(*each) for each in references)
        self.given = None if schema is None else GivenSchema(schema, kind, given)
        if self.given is not None and not given:
            given_reader(self.given, self.client, "value")  # raises for a schema that cannot be used
        self.schema: Any = schema
        self.on_error = on_error
        if latest_ttl is not None and not 0 <= latest_ttl < 1e9:
            raise ConfigError(f"latest_ttl is {latest_ttl!r}, it must be seconds, 0 or more, or None")
        self.auto_register, self.use_latest, self.normalize = auto_register, use_latest, normalize
        self.latest_ttl = math.inf if latest_ttl is None else latest_ttl
        self.wire = wire
        self._subject = subject
        self._strategy = strategy
        self._formats: dict[tuple[tuple[str, ...], str], TopicFormat] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_formats": {}}

    def __repr__(self) -> str:
        return f"Registry({self.client.address!r})"

    def for_topic(self, topic: str, field: str) -> TopicFormat:
        """Returns the format of a topic's keys or values; one object for each.

        Args:
            topic: its name.
            field: "key" or "value".
        """
        return self._formats.get(((topic,), field)) or self.for_topics((topic,), field)

    def for_topics(self, topics: Iterable[str], field: str) -> TopicFormat:
        """Returns the format of the keys or values of topics that are read together.

        Args:
            topics: their names.
            field: "key" or "value".
        """
        at = (tuple(topics), field)
        return self._formats.setdefault(at, TopicFormat(self, *at))

    def subject_of(self, topics: Iterable[str], field: str) -> str:
        """Returns the subject of the schemas of topics.

        Args:
            topics: their names.
            field: "key" or "value".

        Raises:
            ConfigError: topics, or the record's name, are needed and not known.
        """
        if isinstance(self._subject, str):
            return self._subject
        name = "" if self.given is None else self.given.name
        names = sorted(set(topics))
        if self._subject is None and self._strategy != "topic" and not name:
            raise ConfigError(
                f'strategy="{self._strategy}" needs the name of a record: give schema=, or subject='
            )
        if self._subject is None and self._strategy == "record":
            return name
        if len(names) != 1:
            raise ConfigError(
                f"the subject depends on the topic, and there are {len(names)} of them "
                f"({', '.join(names) or 'none'}): give schema= or subject= to Registry, or read one at a time"
            )
        if self._subject is not None:
            return self._subject(names[0], field, name)
        return f"{names[0]}-{field}" if self._strategy == "topic" else f"{names[0]}-{name}"

    # ------------------------------------------------------------ without a topic, with subject= or schema=

    def decode(self, array: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, pa.StringArray | None]:
        """Decodes values into columns; needs schema= or subject=.

        Args:
            array: binary, binary_view or strings, or their large variants. Null stays null.

        Returns:
            A value for each, and the errors of bad ones (null for good ones), or None if all are good.

        Raises:
            SchemaRegistryError: the registry does not answer.
            ConfigError: the subject depends on a topic.
        """
        return self.for_topics((), "value").decode(array)

    def encode(self, columns: pa.StructArray | pa.RecordBatch | pa.Table) -> pa.BinaryArray:
        """Encodes columns; needs subject=. Raises like `decode`.

        Args:
            columns: structs, or the columns of a batch or table, by the names of the schema.
        """
        return self.for_topics((), "value").encode(columns)

    def encode_value(self, value: Any) -> bytes | None:
        """Encodes one value; needs subject=. Raises like `decode`.

        Args:
            value: as for the schema's own format, such as bowstring.Avro.
        """
        return self.for_topics((), "value").encode_value(value)
