"""Decodes JSON, Avro, Protobuf and text into Arrow columns and back, whole arrays at a time, or into objects.

orders = bowstring.Json(pyarrow.schema({"id": pyarrow.int64(), "item": pyarrow.string()}))
structs, errors = orders.decode(batch.column("value"))

Imported by: cli, clients.arrow, clients.registry, rest.records, spark, tables.
May import: _native.base, _native.values, clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bowstring.values.avro_format import Avro as Avro
    from bowstring.values.dead_letter import DeadLetter as DeadLetter
    from bowstring.values.errors import ValueDecodeError as ValueDecodeError
    from bowstring.values.errors import ValueEncodeError as ValueEncodeError
    from bowstring.values.errors import ValueSchemaError as ValueSchemaError
    from bowstring.values.errors import ValuesTooLargeError as ValuesTooLargeError
    from bowstring.values.format import ValueFormat as ValueFormat
    from bowstring.values.json_format import Json as Json
    from bowstring.values.protobuf_format import Protobuf as Protobuf
    from bowstring.values.text_format import Text as Text

_MODULES = {
    "Avro": "avro_format",
    "DeadLetter": "dead_letter",
    "Json": "json_format",
    "Protobuf": "protobuf_format",
    "Text": "text_format",
    "ValueDecodeError": "errors",
    "ValueEncodeError": "errors",
    "ValueFormat": "format",
    "ValueSchemaError": "errors",
    "ValuesTooLargeError": "errors",
}
__all__ = [
    "Avro",
    "DeadLetter",
    "Json",
    "Protobuf",
    "Text",
    "ValueDecodeError",
    "ValueEncodeError",
    "ValueFormat",
    "ValueSchemaError",
    "ValuesTooLargeError",
]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'bowstring.values' has no attribute {name!r}")
    from importlib import import_module

    try:
        value = getattr(import_module(f"bowstring.values.{module}"), name)
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        from bowstring.clients.errors import MissingPackageError

        raise MissingPackageError("pyarrow", "arrow") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
