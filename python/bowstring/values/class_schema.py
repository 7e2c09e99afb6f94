"""Derives schemas from classes: dataclasses, TypedDicts, msgspec structs and pydantic models."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import re
import types
import typing
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from bowstring.values.errors import ValueSchemaError

# A Decimal without digits of its own: what Spark takes, too.
_DECIMAL = pa.decimal128(38, 18)
_SIMPLE: dict[Any, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    bytearray: pa.binary(),
    decimal.Decimal: _DECIMAL,
    datetime.datetime: pa.timestamp("us", "UTC"),
    datetime.date: pa.date32(),
    datetime.time: pa.time64("us"),
    uuid.UUID: pa.string(),
}
LISTS = (
    *(list, tuple, set, frozenset),
    *(collections.abc.Sequence, collections.abc.Collection, collections.abc.Iterable, collections.abc.Set),
)
MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_USE = (
    "use int, float, bool, str, bytes, Decimal, datetime, date, time, UUID, an Enum, Literal, list[X], "
    "dict[str, X], another such class, or X | None"
)
_NO_DEFAULT: Any = object()


class ClassField(NamedTuple):
    """A field of a class.

    Attributes:
        name: in the schema.
        attribute: of the class's objects.
        annotation: its type.
        default: _NO_DEFAULT if it must be given.
        digits: of a pydantic model's Decimal: how many, and how many of them after the point.
    """

    name: str
    attribute: str
    annotation: Any
    default: Any
    digits: tuple[int, int] | None = None


class ClassSchema:
    """The schema of a class.

    Args:
        cls: the class.

    Attributes:
        type: the Arrow struct; fields that an object must have are not nullable.
        attributes: the attribute of objects by the path of a field, where it has another name.

    Raises:
        ValueSchemaError: a field has a type that columns cannot represent.
    """

    def __init__(self, cls: type):
        self.cls = cls
        self.attributes: dict[str, str] = {}
        self._open: list[type] = []
        self.type: pa.StructType = self._struct(cls, "")

    def _struct(self, cls: type, path: str) -> pa.StructType:
        if cls in self._open:
            raise ValueSchemaError(
                f"the class {cls.__name__} contains itself ({path}), which columns cannot represent; "
                "replace that field by text or by an id"
            )
        self._open.append(cls)
        fields = []
        for field in fields_of(cls):
            below = f"{path}.{field.name}" if path else field.name
            if field.attribute != field.name:
                self.attributes[below] = field.attribute
            of, is_optional = self._of(
                field.annotation, f"{cls.__name__}.{field.attribute}", below, field.digits
            )
            required = not is_optional and field.default is _NO_DEFAULT
            fields.append(pa.field(field.name, of, nullable=not required))
        self._open.pop()
        if not fields:
            raise ValueSchemaError(f"the class {cls.__name__} has no fields; annotate them")
        return pa.struct(fields)

    def _of(
        self, annotation: Any, where: str, path: str, digits: tuple[int, int] | None = None
    ) -> tuple[pa.DataType, bool]:
        """Returns a type, and whether it includes None."""
        annotation = unwrapped(annotation)
        origin, given = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is typing.Annotated:
            own = next((each for each in given[1:] if isinstance(each, pa.DataType)), None)
            found, is_optional = self._of(given[0], where, path, digits or _digits(given[1:]))
            return own or found, is_optional
        if origin in (typing.Union, types.UnionType):
            rest = [each for each in given if each is not type(None)]
            if len(rest) != 1:
                raise ValueSchemaError(
                    f"{where} is a union of several types, {annotation}; give it one, or X | None"
                )
            return self._of(rest[0], where, path, digits)[0], len(rest) < len(given)
        if annotation is decimal.Decimal and digits is not None:
            return pa.decimal128(*digits), False
        found = _leaf(annotation, where)
        return (self._nested(annotation, where, path) if found is None else found), False

    def _nested(self, annotation: Any, where: str, path: str) -> pa.DataType:
        origin, given = typing.get_origin(annotation), typing.get_args(annotation)
        if origin in LISTS and given:
            if len({each for each in given if each is not ...}) > 1:
                raise ValueSchemaError(
                    f"{where} is a tuple of several types, {annotation}; use a class with fields"
                )
            item, is_optional = self._of(given[0], where, f"{path}[]")
            return pa.list_(pa.field("item", item, nullable=is_optional))
        if origin in MAPS and given:
            if unwrapped(given[0]) is not str:
                raise ValueSchemaError(f"{where} has keys of the type {given[0]}; use dict[str, X]")
            item, is_optional = self._of(given[1], where, f"{path}{{}}")
            return pa.map_(pa.string(), pa.field("value", item, nullable=is_optional))
        if is_schema_class(annotation):
            return self._struct(annotation, path)
        raise ValueSchemaError(
            f"{where} is of the type {annotation!r}, which columns cannot represent; {_USE}"
        )


def _leaf(annotation: Any, where: str) -> pa.DataType | None:
    """Returns the type of an annotation without parts, None if it has parts."""
    if isinstance(annotation, collections.abc.Hashable) and annotation in _SIMPLE:
        return _SIMPLE[annotation]
    if typing.get_origin(annotation) is typing.Literal:
        return _of_constants(list(typing.get_args(annotation)), where)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return _of_constants([each.value for each in annotation], where)
    return None


def unwrapped(annotation: Any) -> Any:
    """Returns what a NewType, a type alias or Required[…] stands for."""
    while True:
        if hasattr(annotation, "__supertype__"):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        elif typing.get_origin(annotation) in (
            typing.Required,
            typing.NotRequired,
            typing.ClassVar,
            typing.Final,
        ):
            annotation = typing.get_args(annotation)[0]
        else:
            return annotation


def _of_constants(values: list[Any], where: str) -> pa.DataType:
    if values and all(isinstance(each, str) for each in values):
        return pa.string()
    if values and all(isinstance(each, int) and not isinstance(each, bool) for each in values):
        return pa.int64()
    raise ValueSchemaError(f"{where} has the values {values[:5]!r}; make all text, or all whole numbers")


def _digits(metadata: typing.Iterable[Any]) -> tuple[int, int] | None:
    """Returns the digits that pydantic's Field(max_digits=…, decimal_places=…) allows."""
    most = places = None
    for each in metadata:
        most = getattr(each, "max_digits", None) or most
        places = getattr(each, "decimal_places", None) if places is None else places
    return None if most is None or places is None else (most, places)


# ------------------------------------------------------------ classes


def is_schema_class(cls: Any) -> bool:
    """Returns whether a schema can be derived from a class."""
    if not isinstance(cls, type):
        return False
    return (
        dataclasses.is_dataclass(cls)
        or typing.is_typeddict(cls)
        or hasattr(cls, "__struct_fields__")
        or is_pydantic(cls)
    )


def checked_class(cls: type) -> type:
    """Returns the class if a schema can be derived from it.

    Raises:
        ValueSchemaError: it cannot.
    """
    if not is_schema_class(cls):
        raise ValueSchemaError(
            f"schema is the class {cls.__name__}, it must be a dataclass, TypedDict, msgspec struct or "
            "pydantic model, or a schema as text, parsed JSON or a file's path"
        )
    return cls


def is_pydantic(cls: type) -> bool:
    """Returns whether a class is a model of pydantic 2."""
    return hasattr(cls, "model_fields") and hasattr(cls, "model_validate")


def fields_of(cls: type) -> list[ClassField]:
    """Returns the fields of a class in their order.

    Raises:
        ValueSchemaError: an annotation cannot be resolved.
    """
    if is_pydantic(cls):
        return list(_pydantic_fields(cls))
    if hasattr(cls, "__struct_fields__"):
        return list(_struct_fields(cls))
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError) as error:
        raise ValueSchemaError(
            f"an annotation of {cls.__name__} cannot be resolved: {error}; define its types at the top of "
            "a module"
        ) from None
    if dataclasses.is_dataclass(cls):
        return [
            ClassField(each.name, each.name, hints[each.name], _dataclass_default(each))
            for each in dataclasses.fields(cls)
            if each.init
        ]
    required: frozenset[str] = cls.__required_keys__  # type: ignore[attr-defined]
    return [
        ClassField(name, name, hint, _NO_DEFAULT if name in required else None)
        for name, hint in hints.items()
    ]


def _dataclass_default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return _NO_DEFAULT if field.default_factory is dataclasses.MISSING else None


def _struct_fields(cls: type) -> Iterator[ClassField]:
    import msgspec

    for each in msgspec.structs.fields(cls):
        default = None if each.default is msgspec.NODEFAULT else each.default
        yield ClassField(each.encode_name, each.name, each.type, _NO_DEFAULT if each.required else default)


def _pydantic_fields(cls: Any) -> Iterator[ClassField]:
    for name, info in cls.model_fields.items():
        default = (
            _NO_DEFAULT if info.is_required() else info.default if info.default_factory is None else None
        )
        yield ClassField(info.alias or name, name, info.annotation, default, _digits(info.metadata))


# ------------------------------------------------------------ Avro


def avro_document(schema: ClassSchema) -> dict[str, Any]:
    """Returns the Avro schema (specification 1.12) of a class, as parsed JSON.

    A field that need not be there is a union with null; its default is the class's, where Avro can state
    it, else null.
    """
    document: dict[str, Any] = _AvroWriter(schema.cls).record(schema.cls, schema.type)
    return document


_AVRO: dict[pa.DataType, Any] = {
    pa.bool_(): "boolean",
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32()), "int"),
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
    **{
        pa.timestamp(unit, zone): {"type": "long", "logicalType": f"{local}timestamp-{name}"}
        for zone, local in (("UTC", ""), (None, "local-"))
        for unit, name in (("ms", "millis"), ("us", "micros"), ("ns", "nanos"))
    },
}
_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class _AvroWriter:
    """Writes one schema; the second use of a class is its name."""

    def __init__(self, cls: type):
        self.root = cls
        self.written: dict[str, type] = {}

    def record(self, cls: type, of: pa.StructType) -> Any:
        if self.written.setdefault(cls.__name__, cls) is not cls:
            raise ValueSchemaError(
                f"two classes in {self.root.__name__} have the name {cls.__name__}, and Avro's records need "
                "names of their own: rename one"
            )
        document: dict[str, Any] = {"type": "record", "name": cls.__name__, "fields": []}
        for field, column in zip(fields_of(cls), of, strict=True):
            if not _AVRO_NAME.match(field.name):
                raise ValueSchemaError(
                    f"{cls.__name__}.{field.attribute} is named {field.name!r}, which Avro does not allow: "
                    "use letters, digits and _"
                )
            part = self.part(column.type, field.annotation, f"{cls.__name__}.{field.attribute}")
            document["fields"].append(_avro_field(field, part, column.nullable))
        return document

    def part(self, of: pa.DataType, annotation: Any, where: str) -> Any:
        annotation = _without_none(annotation)
        given = typing.get_args(annotation)
        if pa.types.is_struct(of):
            cls: type = annotation
            return cls.__name__ if self.written.get(cls.__name__) is cls else self.record(cls, of)
        if pa.types.is_list(of):
            return {"type": "array", "items": self.item(of.value_field, given[0], where)}
        if pa.types.is_map(of):
            return {"type": "map", "values": self.item(of.item_field, given[1], where)}
        if pa.types.is_decimal128(of):
            return {"type": "bytes", "logicalType": "decimal", "precision": of.precision, "scale": of.scale}
        if annotation is uuid.UUID:
            return {"type": "string", "logicalType": "uuid"}
        if of not in _AVRO:
            raise ValueSchemaError(
                f"{where} is of the type {of}, which Avro does not have; give it another one"
            )
        return _AVRO[of]

    def item(self, field: pa.Field, annotation: Any, where: str) -> Any:
        part = self.part(field.type, annotation, where)
        return ["null", part] if field.nullable else part


def _avro_field(field: ClassField, part: Any, is_nullable: bool) -> dict[str, Any]:
    if not is_nullable:
        return {"name": field.name, "type": part}
    plain = part if isinstance(part, str) else ""
    default = field.default
    fits = {
        "boolean": isinstance(default, bool),
        "long": type(default) is int,
        "int": type(default) is int,
        "double": type(default) is float,
        "float": type(default) is float,
        "string": type(default) is str,
    }
    if fits.get(plain, False):
        return {"name": field.name, "type": [part, "null"], "default": default}
    return {"name": field.name, "type": ["null", part], "default": None}


def _without_none(annotation: Any) -> Any:
    annotation = unwrapped(annotation)
    origin, given = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _without_none(given[0])
    if origin in (typing.Union, types.UnionType):
        return _without_none(next(each for each in given if each is not type(None)))
    return annotation
