"""Implements how Producer encodes keys and values: bytes, text, formats, and formats of a schema registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from bowstring.clients.errors import ClientError, ConfigError

if TYPE_CHECKING:
    from bowstring.clients.producer.config import Serializer

Payload = bytes | bytearray | memoryview | str | None
# A name given as bytes is sent unchanged, as is a name that poll() decoded from bytes that are not UTF-8.
HeadersLike = Mapping[str, Payload] | Mapping[bytes, Payload] | Iterable[tuple[str | bytes, Payload]]


class Format(Protocol):
    """Encodes typed columns to bytes: `bowstring.Json`, `Avro`, `Protobuf`, or the like."""

    schema: Any

    def encode(self, rows: Any, /) -> Any:
        """Binary values of a record batch, one a row."""


class TypedSending:
    """Mixed into Producer."""

    if TYPE_CHECKING:
        key_serializer: Serializer | None
        value_serializer: Serializer | None
        schema_headers: Callable[[str, Any, Any, Any], Any] | None

    _typed: Mapping[str, str | Format] = {"key": "key", "value": "value"}
    _encode_one: Mapping[str, Callable[[Any], bytes | None]] = {}
    _by_topic: Mapping[str, Any] = {}
    # Of formats that differ by topic: by "key" or "value", and topic.
    _encoders: dict[tuple[str, str], Callable[[Any], bytes | None]] = {}  # noqa: RUF012 - see _encode_with

    def _encode_with(
        self,
        key_serializer: Serializer | None,
        value_serializer: Serializer | None,
        key: Format | None,
        value: Format | None,
    ) -> None:
        self.key_serializer, self.value_serializer = key_serializer, value_serializer
        self._typed = {"key": key or "key", "value": value or "value"}
        encoders = {"key": getattr(key, "encode_value", None), "value": getattr(value, "encode_value", None)}
        self._encode_one = {what: encode for what, encode in encoders.items() if encode is not None}
        formats = {"key": key, "value": value}
        self._by_topic = {what: form for what, form in formats.items() if hasattr(form, "for_topic")}
        self._encode_one = {
            what: each for what, each in self._encode_one.items() if what not in self._by_topic
        }
        self._encoders = {}
        by_header = any(form.wire == "headers" for form in self._by_topic.values())
        self.schema_headers = self._with_schema_headers if by_header else None

    def payload(self, topic: str, data: Any, what: str) -> bytes | None:
        """Returns the bytes of a key or value, as `send` sends them.

        Args:
            topic: name of the topic, for errors.
            data: bytes, text, None, or what the format encodes.
            what: "key" or "value".

        Raises:
            ConfigError, ValueEncodeError: it is of a wrong type, or the format does not fit it.
        """
        if not _is_object(data):
            return _to_bytes(data, what)
        encode = self._encode_one.get(what) or self._encoders.get((what, topic))
        if encode is None and what in self._by_topic:
            form = self._by_topic[what].for_topic(topic, what)
            encode = self._encoders[what, topic] = form.encoder()
        if encode is None:
            return _to_bytes(data, what, self._typed[what])
        try:
            return encode(data)
        except ClientError as error:
            if not isinstance(error, ValueError):  # it is of a registry, and not about the value
                raise
            raise type(error)(f"topic {topic!r}, {what}: {error}") from None

    def awaits_registry(self, topic: str, value: Any, key: Any) -> bool:
        """Whether `send` would now wait for a schema registry, which has what value or key need.

        Args:
            topic: name of the topic.
            value, key: as for `send`.
        """
        return bool(self._unprepared(topic, value, key))

    def await_registry(self, topic: str, value: Any, key: Any) -> None:
        """Waits until `awaits_registry` is false.

        Args:
            topic: name of the topic.
            value, key: as for `send`.

        Raises:
            SchemaRegistryError: the registry does not answer, or refuses the schema.
        """
        for form in self._unprepared(topic, value, key):
            form.prepare()

    def _unprepared(self, topic: str, value: Any, key: Any) -> list[Any]:
        if not self._by_topic:
            return []
        given = {"value": value, "key": key}
        found = [
            form.for_topic(topic, what) for what, form in self._by_topic.items() if _is_object(given[what])
        ]
        return [form for form in found if not form.is_prepared]

    def _with_schema_headers(self, topic: str, value: Any, key: Any, headers: Any) -> Any:
        """Returns headers with those that name the schemas of a record's key and value."""
        added = [
            header
            for what, data in (("key", key), ("value", value))
            if (form := self._by_topic.get(what)) is not None
            and (header := form.for_topic(topic, what).header_of(data)) is not None
        ]
        return [*self._header_pairs(headers or ()), *added] if added else headers

    def _header_pairs(self, headers: HeadersLike) -> list[tuple[str | bytes, bytes | None]]:
        if not hasattr(headers, "__iter__"):
            raise ConfigError(f"headers is {headers!r}, it must be pairs of a name and bytes, or a mapping")
        items = headers.items() if isinstance(headers, Mapping) else headers
        return [_header_pair(each) for each in items]


def _is_object(data: Any) -> bool:
    return data is not None and not isinstance(data, bytes | bytearray | memoryview)


def _header_pair(pair: Any) -> tuple[str | bytes, bytes | None]:
    """Checks one header.

    Raises:
        TypeError: it is not a pair, or its name is neither text nor bytes.
        ConfigError: its value is of another type.
    """
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(f"a header is {pair!r}; give headers as pairs of a name and bytes, or as a mapping")
    name, value = pair
    if not isinstance(name, str | bytes):
        kind = type(name).__name__
        raise TypeError(f"the name of a header is a {kind}, {name!r}; give it as str, or as bytes of UTF-8")
    return name, _to_bytes(value, f"header {name!r}")


def _to_bytes(data: Payload, what: str, given: str | Format = "") -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    advice = "give bytes, text or None"
    if given == what:
        advice += f", or a format: Producer({what}=bowstring.Json(schema))"
    elif given:
        advice += f"; the format of {what}= has no encode_value(), which single records need"
    raise ConfigError(f"the {what} is a {type(data).__name__}; {advice}")
