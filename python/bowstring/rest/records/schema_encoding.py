"""Encodes keys and values by schemas of a registry, as requests name them: by id, version or subject.

The JSON of Avro is Avro's own JSON encoding, of Protobuf proto3's JSON mapping; JSON is checked against its
JSON Schema. Blocks: for a thread.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from bowstring.clients.errors import ClientError, MissingPackageError
from bowstring.clients.http_login import HttpLogin
from bowstring.clients.registry.empty_values import TYPES_MAX, is_endless
from bowstring.clients.registry.registered_schema import RegisteredSchema
from bowstring.clients.registry.registry_client import RegistryClient
from bowstring.clients.registry.registry_errors import SchemaRegistryError
from bowstring.clients.registry.schema_sources import (
    UnusableSchemaError,
    avro_texts,
    file_descriptor,
    imported,
    message_at,
)
from bowstring.clients.registry.tree_decoders import SCHEMA_FAULTS, refuse_parsed
from bowstring.rest.callers import Caller
from bowstring.rest.client_failure import bad_request
from bowstring.rest.options import RestOptions
from bowstring.rest.records.avro_tree import avro_value
from bowstring.rest.records.json_validation import json_validator
from bowstring.values.framing import prefix
from bowstring.web.http_error import HttpError

if TYPE_CHECKING:
    from bowstring.clients.registry.registry import Registry

Encode = Callable[[Any], bytes]

NEWEST_S = 30.0
"""How long the newest version of a subject counts as the newest."""
ENCODERS_MAX = 1_000
SCHEMA_CHARACTERS_MAX = 4 << 20
"""Of the schemas in requests for which encoders are kept."""
REFUSED_SCHEMA = 42201
"""What a registry answers if the text of a schema is none."""
_KINDS = {"AVRO": "AVRO", "JSONSCHEMA": "JSON", "PROTOBUF": "PROTOBUF"}
_NAMES = {kind: name for name, kind in _KINDS.items()}
TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME = "TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME"


class SchemaChoice(Struct, frozen=True):
    """How a request names a schema: one of id, version, the schema itself, or none for the newest.

    Attributes:
        type: "AVRO", "JSONSCHEMA" or "PROTOBUF", with `schema` only.
        subject: where the schema is registered; else by the strategy.
        subject_name_strategy: "TOPIC_NAME" (default), "RECORD_NAME" or "TOPIC_RECORD_NAME".
        schema_id, schema_version, schema: see above.
    """

    type: str | None = None
    subject: str | None = None
    subject_name_strategy: str | None = None
    schema_id: int | None = None
    schema_version: int | None = None
    schema: str | None = None

    def check(self) -> None:
        """Refuses members that contradict each other.

        Raises:
            HttpError: 400.
        """
        ways = [self.schema_id, self.schema_version, self.schema]
        if sum(each is not None for each in ways) > 1:
            raise bad_request("only one of schema_id, schema_version and schema can be used")
        if self.subject is not None and self.subject_name_strategy is not None:
            raise bad_request("only one of subject and subject_name_strategy can be used")
        if (self.type is None) != (self.schema is None):
            raise bad_request("type and schema belong together: a type with a schema needs it, and only it")
        if self.type is not None and self.type not in _KINDS:
            raise bad_request(f"type must be one of {', '.join(_KINDS)}")
        if self.subject_name_strategy not in (None, TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME):
            raise bad_request(
                f"subject_name_strategy must be {TOPIC_NAME}, {RECORD_NAME} or {TOPIC_RECORD_NAME}"
            )


class SchemaData(Struct):
    """A key or value with a schema: what of it is not a SchemaChoice."""

    data: Any = None


class Encoder(NamedTuple):
    """Encodes values of one schema of one subject.

    Attributes:
        encode: returns bytes after the schema's id; raises any error for data that does not fit.
        start: bytes at the start of every value.
        members: of answers, as JSON text that ends with a comma.
        until: time.monotonic() until which it is the one that a choice means.
    """

    encode: Encode
    start: bytes
    members: bytes
    until: float


class SchemaEncoding:
    """Encodes for all topics. Any thread may call.

    Args:
        client: of the registry.
    """

    def __init__(self, client: RegistryClient):
        self._client = client
        self._lock = threading.Lock()
        self._encoders: dict[tuple[str, bool, SchemaChoice], Encoder] = {}
        self._characters = 0

    def encode(self, topic: str, is_key: bool, text: bytes) -> tuple[bytes | None, bytes]:
        """Returns the bytes of a key or value, and members of its answer.

        Args:
            topic: where it goes.
            is_key: whether it is a key.
            text: its JSON: members of SchemaChoice, and `data`.

        Raises:
            HttpError: 400, the data does not fit; 42205, the schema is none; 42207, the registry has no such
                schema, does not take it, or does not answer.
        """
        try:
            choice = msgspec.json.decode(text, type=SchemaChoice)
            data = msgspec.json.decode(text, type=SchemaData).data
        except (msgspec.DecodeError, RecursionError) as error:
            raise bad_request(f"the {_field(is_key)} is wrong: {error}") from None
        encoder = self.encoder(topic, is_key, choice)
        if data is None:
            return None, encoder.members
        return encoder.start + encoded(encoder, data, _field(is_key)), encoder.members

    def encoder(self, topic: str, is_key: bool, choice: SchemaChoice) -> Encoder:
        """Returns the encoder of a choice. Raises like `encode`."""
        key = (topic, is_key, choice)
        found = self._encoders.get(key)
        if found is not None and time.monotonic() < found.until:
            return found
        choice.check()
        try:
            found = self._found(topic, is_key, choice)
        except SchemaRegistryError as error:
            if error.code == REFUSED_SCHEMA:
                raise HttpError(422, 42205, f"Invalid schema: {error}") from error
            raise HttpError(422, 42207, f"Error serializing message. {error}") from error
        except MissingPackageError as error:
            raise HttpError(501, 50101, str(error)) from error
        except ClientError as error:
            raise HttpError(422, 42205, f"Invalid schema: {error}") from error
        with self._lock:
            self._characters += len(choice.schema or "")
            if len(self._encoders) >= ENCODERS_MAX or self._characters > SCHEMA_CHARACTERS_MAX:
                self._encoders.clear()
                self._characters = len(choice.schema or "")
            self._encoders[key] = found
        return found

    def _found(self, topic: str, is_key: bool, choice: SchemaChoice) -> Encoder:
        client = self._client
        is_fixed = (
            choice.schema_id is not None or choice.schema_version is not None or choice.schema is not None
        )
        if choice.schema_id is not None:
            registered = client.by_id(choice.schema_id)
            subject = self._subject(topic, is_key, choice, registered)
            registered = registered._replace(version=client.look_up(subject, registered).version)
        elif choice.schema is not None:
            assert choice.type is not None
            given = RegisteredSchema(_KINDS[choice.type], choice.schema)
            subject = self._subject(topic, is_key, choice, given)
            client.register(subject, given)
            known = client.look_up(subject, given)
            # Of Protobuf the serialized form is needed.
            registered = client.by_id(known.schema_id)._replace(version=known.version)
        else:
            subject = self._subject(topic, is_key, choice, None)
            version = choice.schema_version
            registered = client.latest(subject) if version is None else client.by_version(subject, version)
        return self._encoder(subject, registered, time.monotonic() + (3600.0 if is_fixed else NEWEST_S))

    def _subject(
        self, topic: str, is_key: bool, choice: SchemaChoice, schema: RegisteredSchema | None
    ) -> str:
        if choice.subject is not None:
            return choice.subject
        if choice.subject_name_strategy in (None, TOPIC_NAME):
            return f"{topic}-{_field(is_key)}"
        name = "" if schema is None else self._record_name(schema)
        if not name:
            raise bad_request(
                f"subject_name_strategy={choice.subject_name_strategy} needs a schema with a name: give "
                "schema_id or schema, or subject"
            )
        return name if choice.subject_name_strategy == RECORD_NAME else f"{topic}-{name}"

    def _record_name(self, schema: RegisteredSchema) -> str:
        """Returns the full name of a record, the name of a message, or the title of a JSON Schema."""
        if schema.kind == "PROTOBUF":
            try:
                return str(message_at(file_descriptor(self._client, schema), (0,)).full_name)
            except UnusableSchemaError:  # it is text, not a serialized file
                return _message_name(schema.text)
        try:
            document = json.loads(schema.text)
        except (ValueError, RecursionError):
            return ""
        if not isinstance(document, dict):
            return ""
        if schema.kind == "JSON":
            return str(document.get("title", ""))
        name, space = str(document.get("name", "")), document.get("namespace")
        return f"{space}.{name}" if space and "." not in name else name

    def _encoder(self, subject: str, schema: RegisteredSchema, until: float) -> Encoder:
        makers = {"AVRO": _avro, "JSON": _json, "PROTOBUF": _protobuf}
        if schema.kind not in makers:
            raise bad_request(f"the schema is {schema.kind}, which is none of {', '.join(makers)}")
        members = msgspec.json.encode(
            {
                "type": _NAMES[schema.kind],
                "subject": subject,
                "schema_id": schema.schema_id,
                "schema_version": schema.version,
            }
        )
        start = prefix(schema.schema_id, (0,) if schema.kind == "PROTOBUF" else None)
        return Encoder(makers[schema.kind](self._client, schema), start, members[1:-1] + b",", until)


def schemas_of(caller: Caller, options: RestOptions) -> SchemaEncoding | None:
    """Returns what encodes by schemas of the registry, which sees the caller's credentials; None without one.

    Args:
        caller: of a request.
        options: of the proxy.
    """
    client = registry_of(caller, options)
    return None if client is None else caller.shared("schemas", lambda: SchemaEncoding(client))


def registry_of(caller: Caller, options: RestOptions) -> RegistryClient | None:
    """Returns the client of the registry with the caller's credentials; None without a registry.

    Args:
        caller: of a request.
        options: of the proxy.
    """
    address = options.schema_registry
    if address is None:
        return None

    def make() -> RegistryClient:
        return RegistryClient(address, HttpLogin(*_login(caller, address)), options.timeout_s)

    return caller.shared("registry", make)


def registry_format(caller: Caller, options: RestOptions) -> Registry:
    """Returns a format of typed columns, with the caller's credentials, where there is a registry.

    It is of one request: columns keep the newest schema that they begin with.

    Args:
        caller: of a request.
        options: of the proxy.
    """
    from bowstring.clients.registry.registry import Registry

    address = options.schema_registry
    assert address is not None

    user, password, token = (each or None for each in _login(caller, address))
    return Registry(address, user=user, password=password, token=token, timeout=options.timeout_s)


def _login(caller: Caller, address: str) -> tuple[str, str, str]:
    """Returns user, password and token for the registry: the caller's, unless the address has some."""
    if "@" in address:
        return "", "", ""
    security = caller.settings.get("security", {})
    user, password, token = ("sasl.username", "sasl.password", "sasl.oauthbearer.token")
    return str(security.get(user, "")), str(security.get(password, "")), str(security.get(token, ""))


def encoded(encoder: Encoder, data: Any, what: str) -> bytes:
    """Returns data by a schema.

    Raises:
        HttpError: 400, it does not fit.
    """
    try:
        return encoder.encode(data)
    except Exception as error:  # libraries raise many kinds for data that does not fit
        reason = " ".join(str(error).split())[:500] or type(error).__name__
        raise bad_request(f"the {what} does not fit its schema: {reason}") from None


def _field(is_key: bool) -> str:
    return "key" if is_key else "value"


def _message_name(text: str) -> str:
    """Returns the full name of the first message of a Protobuf file.

    Raises:
        HttpError: 42205, it is none.
    """
    from bowstring.schemas.errors import InvalidSchemaError
    from bowstring.schemas.parsing import parse_schema

    try:
        return parse_schema("PROTOBUF", text).name or ""
    except InvalidSchemaError as error:
        raise HttpError(422, 42205, f"Invalid schema: {error}") from None


def _avro(client: RegistryClient, schema: RegisteredSchema) -> Encode:
    try:
        import fastavro
    except ModuleNotFoundError as error:
        raise MissingPackageError("fastavro", "avro") from error
    named: dict[str, Any] = {}
    try:
        for text in avro_texts(client, schema):
            tree = json.loads(text)
            refuse_parsed(tree)
            parsed = fastavro.parse_schema(tree, named_schemas=named)
        if is_endless(parsed, named):
            raise bad_request(
                f"the Avro schema contains more than {TYPES_MAX} types, or a default that needs itself"
            )
    except (fastavro.schema.SchemaParseException, *SCHEMA_FAULTS) as error:
        raise bad_request(f"the Avro schema cannot be used: {error}") from None

    def encode(data: Any) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(out, parsed, avro_value(parsed, named, data))
        return out.getvalue()

    return encode


def _json(client: RegistryClient, schema: RegisteredSchema) -> Encode:
    try:
        document = json.loads(schema.text)
        others = {name: json.loads(each.text) for name, each in imported(client, schema.references, "JSON")}
    except (ValueError, RecursionError) as error:
        raise UnusableSchemaError(f"a JSON Schema is not JSON: {error}") from None
    validate = json_validator(document, others)

    def encode(data: Any) -> bytes:
        text = msgspec.json.encode(data)
        validate(data, len(text))
        return text

    return encode


def _protobuf(client: RegistryClient, schema: RegisteredSchema) -> Encode:
    file = file_descriptor(client, schema)
    from google.protobuf import json_format, message_factory  # type: ignore[import-untyped]

    kind = message_factory.GetMessageClass(message_at(file, (0,)))

    def encode(data: Any) -> bytes:
        return bytes(json_format.ParseDict(data, kind(), descriptor_pool=file.pool).SerializeToString())

    return encode
