"""Implements Avro values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bowstring._native.values.avro_decode import AvroDecoder
from bowstring._native.values.avro_encode import AvroEncoder
from bowstring._native.values.column_objects import ColumnObjects
from bowstring._native.values.decoder import frame_ids
from bowstring.clients.errors import ConfigError
from bowstring.values.avro_encoding import encode_plan
from bowstring.values.avro_plan import plan
from bowstring.values.avro_schema import AvroSchema, AvroType, parse_avro
from bowstring.values.class_schema import ClassSchema, avro_document, checked_class
from bowstring.values.decoder_arrays import describe
from bowstring.values.errors import ValueSchemaError
from bowstring.values.format import Framing, OnError, ValueFormat
from bowstring.values.object_plan import object_plan

if TYPE_CHECKING:
    from bowstring._native.base.object_decoder import ObjectDecoder
    from bowstring._native.values.column import Finished, Input

SchemasById = Mapping[int, AvroSchema] | Callable[[int], AvroSchema]


class Avro(ValueFormat):
    """Values in Avro's binary encoding (specification 1.12), without a container's header.

    Records become structs. A union of null and one type becomes that type; other unions become a struct with
    a field `member0`, `member1` … for each type, one of which is not null. Enums become strings. Decimals,
    dates, times and timestamps become the Arrow types of the same name.

    Args:
        schema: of the columns, a record: JSON text, parsed JSON, a file's path, or a class (a dataclass,
            TypedDict, msgspec struct or pydantic model), whose Avro schema is `avro_schema`.
        writer_schema: the schema with which the values were written, if different (schema resolution: fields
            by name or alias, promoted numbers, defaults).
        framing: "confluent" for values that begin with a zero byte and a schema's id.
        schemas: with that framing, the writer's schemas by id, or a function that returns them (a registry's
            client), called once for an id; a value with an unknown id is bad. Without it, all values have
            `writer_schema`.
        schema_id: written by `encode` when framing is "confluent".
        on_error: "column", "raise", or a DeadLetter.

    Raises:
        ValueSchemaError: a schema cannot be parsed, contains itself, or cannot be resolved.

    Examples:
        >>> import bowstring, pyarrow as pa
        >>> orders = bowstring.Avro('''{"type": "record", "name": "Order", "fields": [
        ...     {"name": "id", "type": "long"}, {"name": "item", "type": ["null", "string"]}]}''')
        >>> orders.decode(pa.array([b"\\x02\\x02\\x06hat"]))[0].to_pylist()
        [{'id': 1, 'item': 'hat'}]
    """

    def __init__(
        self,
        schema: AvroSchema,
        *,
        writer_schema: AvroSchema | None = None,
        framing: Framing = None,
        schemas: SchemasById | None = None,
        schema_id: int = 0,
        on_error: OnError = "column",
    ):
        super().__init__(on_error, framing, schema_id)
        if isinstance(schema, type):
            self._class = ClassSchema(checked_class(schema))
        self._reader = _record(schema if self._class is None else avro_document(self._class))
        self._writer = self._reader if writer_schema is None else _record(writer_schema)
        self._schemas = schemas
        self.schema = pa.schema(list(self._reader.arrow()))
        self._columns = describe(self.type)
        self._plan = plan(self._writer, self._reader)
        self._known: set[int] = set()

    @property
    def avro_schema(self) -> dict[str, Any]:
        """The Avro schema that was derived from a class, as parsed JSON, such as a registry takes.

        Raises:
            ConfigError: the schema was not given as a class.
        """
        if self._class is None:
            raise ConfigError("the schema was not given as a class; it is the one that Avro() got")
        return avro_document(self._class)

    _unpicklable = (*ValueFormat._unpicklable, "_known")

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)
        self._known = set()

    def __repr__(self) -> str:
        return f"Avro({self._reader.name})"

    def object_decoder(self) -> ObjectDecoder:
        """Returns a new decoder to objects, for one thread."""
        decoder = self._make_decoder()
        learns = self._schemas is not None and self.framing is not None
        learn = partial(self._learn, decoder) if learns else None
        return self._instances(ColumnObjects(decoder, object_plan(self.type), learn))

    def _make_decoder(self) -> AvroDecoder:
        decoder = AvroDecoder(self._columns, self.framing is not None, self._schemas is None)
        if self._schemas is None:
            decoder.add(0, self._plan)
        return decoder

    def _make_encoder(self, start: bytes) -> AvroEncoder:
        return AvroEncoder(start, encode_plan(self._reader))

    def _decode(self, values: Input) -> tuple[Finished, list[tuple[int, str]]]:
        if self._schemas is not None and self.framing:
            for schema_id in frame_ids(values) - self._known:
                self._learn(self._native_decoder(), schema_id)
                self._known.add(schema_id)
        return super()._decode(values)

    def _learn(self, decoder: AvroDecoder, schema_id: int) -> None:
        schemas = self._schemas
        assert schemas is not None
        found = schemas(schema_id) if callable(schemas) else schemas.get(schema_id)
        if found is not None:
            decoder.add(schema_id, plan(_record(found), self._reader))


def _record(schema: AvroSchema) -> AvroType:
    found = parse_avro(schema)
    if found.kind != "record":
        raise ValueSchemaError(f"an Avro value must be a record, not {found.kind}")
    return found
