"""Decodes and encodes the keys or values of topics by schemas of a registry."""

from __future__ import annotations

import math
import threading
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from bowstring._native.values.instance_objects import InstanceObjects
from bowstring._native.values.keyed_objects import CalledObjects, KeyedObjects
from bowstring.clients.errors import ConfigError
from bowstring.clients.registry import decoding
from bowstring.clients.registry.newest_reader import NewestReader
from bowstring.clients.registry.registered_schema import RegisteredSchema
from bowstring.clients.registry.registry_errors import SchemaNotFoundError
from bowstring.clients.registry.renewal import Renewal
from bowstring.clients.registry.schema_keys import parts, with_header
from bowstring.clients.registry.schema_sources import message_indexes_of
from bowstring.clients.registry.tree_decoders import tree_decoder
from bowstring.values.decoder_arrays import binary_array
from bowstring.values.errors import ValueDecodeError, ValueSchemaError
from bowstring.values.framing import indexes_bytes, prefix

if TYPE_CHECKING:
    from collections.abc import Callable

    from bowstring._native.base.object_decoder import ObjectDecoder
    from bowstring.clients.registry.decoding import Reader
    from bowstring.clients.registry.registry import Registry
    from bowstring.values.format import ValueFormat

NO_KEY = (
    "the value lacks a schema id: it has neither Confluent's framing (a zero byte and the id) nor the header"
)
KEYS_MAX = 10_000


class Writing(NamedTuple):
    """How values are written.

    Attributes:
        format: with the first bytes of every value.
        is_single: whether values are no records, so that the format has one column.
        header: bytes of the header that names the schema; None without it.
    """

    format: ValueFormat
    is_single: bool
    header: bytes | None


class TopicFormat:
    """The format of the keys or values of topics. Any thread may call, but for object decoders.

    Args:
        registry: its settings.
        topics: their names; empty: unknown.
        field: "key" or "value".

    Attributes:
        header_name: of the header that names the schema of a record's key or value.
        on_error: the registry's.
    """

    def __init__(self, registry: Registry, topics: tuple[str, ...], field: str):
        self._registry = registry
        self._client = registry.client
        self._topics = topics
        self._field = field
        self.header_name = f"__{field}_schema_id"
        self.on_error = registry.on_error
        self._lock = threading.Lock()
        self._reader: Reader | None = None
        self._newest_reader = NewestReader(self._newest, registry.latest_ttl)
        self._writing: Writing | None = None
        self._writing_id = -1
        self._renewal = Renewal(self._renew_writing, registry.latest_ttl)
        self._local = threading.local()
        self._forms: dict[bytes, ValueFormat] = {}

    def __repr__(self) -> str:
        return f"TopicFormat({self._registry!r}, {', '.join(self._topics)} {self._field})"

    @property
    def dead_letter(self) -> Any:
        """The DeadLetter for bad values, if any."""
        return None if isinstance(self.on_error, str) else self.on_error

    # ------------------------------------------------------------ reading

    @property
    def schema(self) -> pa.Schema:
        """The columns; asks the registry for the newest schema where none was given."""
        return self.column_reader().format.schema

    @property
    def type(self) -> pa.DataType:
        """The type of what `decode` returns: a struct, but of values that are no records their own type."""
        reader = self.column_reader()
        return reader.format.schema.field(0).type if reader.is_single else reader.format.type

    def column_reader(self) -> Reader:
        """Returns the schema of the columns.

        Raises:
            SchemaRegistryError: the registry does not answer, or the subject has no schema.
            ValueSchemaError: columns cannot represent the schema.
        """
        reader = self._found_reader(needed=True)
        assert reader is not None
        if reader.no_columns:
            raise ValueSchemaError(
                f"columns cannot represent the schema of {', '.join(self._topics)} {self._field}s: "
                f"{reader.no_columns}. Read objects with poll(), or give a simpler schema="
            )
        return reader

    def _found_reader(self, *, needed: bool) -> Reader | None:
        """Returns the reader's schema: the given one; if it is needed, or by choice, the newest."""
        with self._lock:
            if self._reader is None:
                given, use_latest = self._registry.given, self._registry.use_latest
                if given is not None and not use_latest:
                    self._reader = decoding.given_reader(given, self._client, self._field)
                elif needed or use_latest:
                    self._reader = self._newest()
            return self._reader

    def _newest(self) -> Reader:
        subject = self.subject()
        schema = self._client.latest(subject)
        try:
            return decoding.reader_of(self._client, schema, self._field)
        except decoding.SCHEMA_FAULTS as error:
            fault = decoding.fault_of(error, f"the newest schema of subject {subject}")
            raise ValueSchemaError(f"{fault}. Read objects with poll(), or give schema=") from None

    def subject(self) -> str:
        """Returns the subject of the schemas.

        Raises:
            ConfigError: it depends on a topic, or a record's name, that is not known.
        """
        return self._registry.subject_of(self._topics, self._field)

    def _registered(self, key: bytes) -> RegisteredSchema:
        if key[0] == 0:
            return self._client.by_id(int.from_bytes(key[1:5], "big"))
        return self._client.by_guid(key[1:17])

    def object_decoder(self) -> ObjectDecoder:
        """Returns a new decoder to objects, for one thread."""
        header, find = self.header_name.encode(), self._object_decoder_of
        every_s = self._registry.latest_ttl
        if not self._registry.use_latest or math.isinf(every_s):
            return KeyedObjects(find, header, NO_KEY)
        return KeyedObjects(find, header, NO_KEY, self._newest_reader.watch(), every_s)

    def _object_decoder_of(self, key: bytes) -> ObjectDecoder | str | None:
        """Returns the decoder of values with a key, or why there is none; None: message indexes follow."""
        try:
            written = self._registered(key)
        except SchemaNotFoundError as error:
            return str(error)
        indexes = message_indexes_of(key)
        if written.kind == "PROTOBUF" and not indexes:
            return None
        reader = (
            self._newest_reader.reader() if self._registry.use_latest else self._found_reader(needed=False)
        )
        try:
            if reader is None:
                return self._own_decoder(written, indexes)
            decoder = reader.written_with(self._client, written, indexes).object_decoder()
        except decoding.SCHEMA_FAULTS as error:
            return decoding.fault_of(error, _named(key))
        return _single(decoder, self._field) if reader.is_single else decoder

    def _own_decoder(self, written: RegisteredSchema, indexes: tuple[int, ...]) -> ObjectDecoder:
        """Returns the decoder by the schema that values were written with."""
        try:
            form, is_single = decoding.object_format(self._client, written, indexes, self._field)
        except ValueSchemaError:  # columns cannot represent it, such as one that contains itself
            _, decode = tree_decoder(self._client, written, indexes)
            return CalledObjects(decode, str)
        decoder = form.object_decoder()
        return _single(decoder, self._field) if is_single else decoder

    def decode(self, array: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, pa.StringArray | None]:
        """Decodes values that begin with the key of their schema; see `decode_records`.

        Args:
            array: binary, binary_view or strings, or their large variants. Null stays null.
        """
        return self.decode_records(array, None)

    def decode_records(
        self, array: pa.Array | pa.ChunkedArray, headers: pa.Array | None
    ) -> tuple[pa.Array, pa.StringArray | None]:
        """Decodes values in bulk, whatever schemas they were written with, to the columns of `schema`.

        Args:
            array: the values, as for `decode`.
            headers: of the records, which may name the schemas; None: they were not read.

        Returns:
            A value of `type` for each, and the errors of bad ones (null for good ones), or None if all are
            good.

        Raises:
            SchemaRegistryError: the registry does not answer.
            ValueDecodeError: with `on_error="raise"`, for the first bad value.
        """
        values = binary_array(array)
        reader = self.column_reader()
        found = [
            (part.rows, *self._decode_part(reader, part.key, part.values, part.skip))
            for part in parts(values, headers, self.header_name, indexed=reader.kind == "PROTOBUF")
        ]
        made, errors = _joined(found)
        if errors is not None and self.on_error == "raise":
            row = pc.index(pc.is_valid(errors), True).as_py()
            raise ValueDecodeError(row, errors[row].as_py(), len(errors) - errors.null_count)
        return made, errors

    def _decode_part(
        self, reader: Reader, key: bytes, values: pa.Array, skip: int
    ) -> tuple[pa.Array, pa.StringArray | None]:
        form = None if values.null_count == len(values) else self._column_format(reader, key)
        if form is None:
            return pa.nulls(len(values), self.type), None
        if isinstance(form, str):
            reasons = pc.if_else(values.is_valid(), form, pa.scalar(None, pa.string()))
            return pa.nulls(len(values), self.type), reasons
        made, bad = form.decode_all(values, skip)
        errors = None
        if bad:
            texts: list[str | None] = [None] * len(values)
            for row, reason in bad:
                texts[row] = reason
            errors = pa.array(texts, pa.string())
        # flatten() also applies the struct's nulls to its column.
        return (made.flatten()[0] if reader.is_single else made), errors

    def _column_format(self, reader: Reader, key: bytes) -> ValueFormat | str:
        """Returns the format of values with a key, or why they cannot be decoded."""
        form = self._forms.get(key)
        if form is not None:
            return form
        if not key:
            return NO_KEY
        try:
            written = self._registered(key)
            form = reader.written_with(self._client, written, message_indexes_of(key) or (0,))
        except SchemaNotFoundError as error:
            return str(error)
        except decoding.SCHEMA_FAULTS as error:
            return decoding.fault_of(error, _named(key))
        if len(self._forms) >= KEYS_MAX:
            self._forms.clear()
        self._forms[key] = form
        return form

    # ------------------------------------------------------------ writing

    @property
    def write_schema(self) -> pa.Schema:
        """The columns that `encode` takes. Raises like `prepare`."""
        return self.prepare().format.schema

    def prepare(self) -> Writing:
        """Registers the given schema, or gets the newest one; returns how values are written.

        Raises:
            SchemaRegistryError: the registry does not answer, or refuses the schema.
            ConfigError: no schema is known.
        """
        self._renewal.look()
        known = self._writing
        if known is not None:
            return known
        with self._lock:
            if self._writing is None:
                self._writing = self._prepared()
            return self._writing

    @property
    def is_prepared(self) -> bool:
        """Whether `encode_value` needs no answer of the registry at present."""
        return self._writing is not None and not self._renewal.is_due

    def _prepared(self) -> Writing:
        registry, subject = self._registry, self.subject()
        given = registry.given
        if given is None or registry.use_latest:
            schema = self._latest_to_write(subject)
            writing = self._writing_of(schema, decoding.reader_of(self._client, schema, self._field))
            self._writing_id = schema.schema_id
            self._renewal.begin()
            return writing
        wanted = given.registrable(
            self._client, register=registry.auto_register, normalize=registry.normalize
        )
        schema = self._agreed(subject, wanted)
        return self._writing_of(schema, decoding.given_reader(given, self._client, self._field))

    def _renew_writing(self) -> None:
        """Takes a newer schema, if there is one; raises if it cannot be used."""
        schema = self._client.latest(self.subject())
        if schema.schema_id != self._writing_id:
            reader = decoding.reader_of(self._client, schema, self._field)
            self._writing, self._writing_id = self._writing_of(schema, reader), schema.schema_id

    def _writing_of(self, schema: RegisteredSchema, reader: Reader) -> Writing:
        indexes = getattr(reader.format, "message_indexes", None)
        if self._registry.wire == "prefix":
            start = prefix(schema.schema_id, indexes)
            return Writing(reader.format.with_start(start), reader.is_single, None)
        guid = schema.guid or self._client.by_id(schema.schema_id).guid
        if guid is None:
            raise ConfigError(
                f"the schema registry {self._client.address} has no guids of schemas, which headers need: "
                'use wire="prefix"'
            )
        return Writing(reader.format, reader.is_single, b"\1" + guid + indexes_bytes(indexes))

    def _latest_to_write(self, subject: str) -> RegisteredSchema:
        try:
            return self._client.latest(subject)
        except SchemaNotFoundError as error:
            raise SchemaNotFoundError(
                f"{error}. To register one, give schema= to Registry", error.status, error.code
            ) from None

    def _agreed(self, subject: str, schema: RegisteredSchema) -> RegisteredSchema:
        registry = self._registry
        if registry.auto_register:
            return self._client.register(subject, schema, normalize=registry.normalize)
        try:
            return self._client.look_up(subject, schema, normalize=registry.normalize)
        except SchemaNotFoundError as error:
            raise SchemaNotFoundError(
                f"subject {subject} of {self._client.address} does not have the schema: register it first, "
                "or give auto_register=True",
                error.status,
                error.code,
            ) from None

    def encoder(self) -> Callable[[Any], bytes | None]:
        """Returns what does the same as `encode_value`. Raises like `prepare`."""
        writing = self.prepare()
        is_fixed = math.isinf(self._renewal.due_at) and not writing.is_single
        return writing.format.encode_value if is_fixed else self.encode_value

    def encode_value(self, value: Any) -> bytes | None:
        """Encodes one value, as `Producer.send` does.

        Args:
            value: as for the schema's own format, such as bowstring.Avro; bytes and None are unchanged.

        Raises:
            SchemaRegistryError: the registry does not answer, or refuses the schema.
            ValueEncodeError: the value does not fit the schema.
        """
        if value is None or isinstance(value, bytes):
            return value
        # The one whose header the record has, where there is one.
        writing = vars(self._local).pop("writing", None) or self.prepare()
        return writing.format.encode_value({self._field: value} if writing.is_single else value)

    def encode(self, columns: pa.StructArray | pa.RecordBatch | pa.Table) -> pa.BinaryArray:
        """Encodes columns in bulk; a null struct gives null.

        Args:
            columns: structs, or the columns of a batch or table, by the names of the schema.

        Raises:
            SchemaRegistryError: the registry does not answer, or refuses the schema.
            ValueEncodeError: a field does not fit the schema.
        """
        writing = self.prepare()
        self._local.of_columns = writing
        return writing.format.encode(columns)

    def header_of(self, value: Any) -> tuple[str, bytes] | None:
        """Returns the header of a record with a value that this format encodes, None without one.

        Args:
            value: as for `encode_value`, whose errors it raises.
        """
        if value is None or isinstance(value, bytes):
            return None
        writing = self.prepare()
        if writing.header is None:
            return None
        self._local.writing = writing
        return self.header_name, writing.header

    def add_headers(self, headers: pa.Array | None, encoded: pa.Array) -> pa.Array | None:
        """Returns the headers of records with the one that names the schema.

        Args:
            headers: of the records, None without.
            encoded: what `encode` has made in this thread; null values get no header.
        """
        header = (vars(self._local).get("of_columns") or self.prepare()).header
        if header is None:
            return headers
        return with_header(headers, encoded.is_valid(), self.header_name, header)


def _joined(
    found: list[tuple[pa.Array | None, pa.Array, pa.StringArray | None]],
) -> tuple[pa.Array, pa.StringArray | None]:
    """Returns the values and errors of parts in the order of their rows."""
    if len(found) == 1 and found[0][0] is None:
        return found[0][1], found[0][2]
    order = pc.sort_indices(pa.concat_arrays([rows for rows, _, _ in found]))
    made = pa.concat_arrays([each for _, each, _ in found]).take(order)
    if all(each is None for _, _, each in found):
        return made, None
    texts = [pa.nulls(len(some), pa.string()) if each is None else each for _, some, each in found]
    return made, pa.concat_arrays(texts).take(order)


def _single(decoder: ObjectDecoder, field: str) -> ObjectDecoder:
    """Returns a decoder to the only column of what another one makes."""
    take: Callable[[Any], Any] = itemgetter(field)
    return InstanceObjects(decoder, take, str)


def _named(key: bytes) -> str:
    if key[0] == 0:
        return f"schema {int.from_bytes(key[1:5], 'big')}"
    return f"schema {key[1:17].hex()}"
