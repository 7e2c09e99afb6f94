"""protobuf's classes of descriptors, with Confluent's options.

They stand in a pool of their own: an application in this process may have another version of Confluent's
options in the common pool.
"""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any

from bowstring.clients.errors import MissingPackageError
from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.protobuf import proto_reader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bowstring.schemas.protobuf.elements import OptionValue

_LOCK = Lock()
_REPEATED = 3
# Of a descriptor: in memory it may take a hundred times as much.
SERIALIZED_MAX = 2 << 20
# A field has a name, a number, a label and a type, to begin with.
_VALUES_OF_A_PART = 8
# A map is a list of entries on the wire. Read as a list it keeps its order, which is that of the text.
_PARAMS = "map<string, string> params = 2;"
_ORDERED_PARAMS = "message Param { string key = 1; string value = 2; } repeated Param params = 2;"


def _pool() -> Any:
    # Two threads at once would make two pools, and the extensions of one are unknown to classes of the other.
    with _LOCK:
        return _made_pool()


@lru_cache(maxsize=1)
def _made_pool() -> Any:
    from bowstring.schemas.protobuf.proto_parser import parse_proto
    from bowstring.schemas.protobuf.to_descriptor import add_file
    from bowstring.schemas.protobuf.well_known import META

    try:
        from google.protobuf import descriptor_pb2, descriptor_pool  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise MissingPackageError("protobuf", "registry") from error
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(descriptor_pb2.DESCRIPTOR.serialized_pb)
    meta = descriptor_pb2.FileDescriptorProto(name="confluent/meta.proto")
    add_file(meta, parse_proto(META.replace(_PARAMS, _ORDERED_PARAMS)))
    pool.Add(meta)
    return pool


@lru_cache(maxsize=1)
def file_class() -> Any:
    """Returns the class FileDescriptorProto.

    Raises:
        MissingPackageError: protobuf is not installed.
    """
    pool = _pool()
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto"))


def parse_file(serialized: bytes) -> Any:
    """Returns a FileDescriptorProto.

    Raises:
        InvalidSchemaError: the bytes are none.
        MissingPackageError: protobuf is not installed.
    """
    if len(serialized) > SERIALIZED_MAX:
        raise InvalidSchemaError(
            f"the descriptor has {len(serialized):,} bytes; at most {SERIALIZED_MAX:,} are accepted"
        )
    kind = file_class()
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        found = kind.FromString(serialized)
    except DecodeError as error:
        raise InvalidSchemaError(f"the bytes are not a FileDescriptorProto: {error}") from None
    _check(found)
    return found


def _check(descriptor: Any) -> None:
    """Checks that there are not too many parts, and that strings are UTF-8.

    protobuf returns bytes for strings of proto2 that are not.
    """
    pending = [descriptor]
    counted = 0
    while pending:
        for field, value in pending.pop().ListFields():
            values = value if is_repeated(field) else (value,)
            counted += len(values)
            if counted > proto_reader.PARTS_MAX * _VALUES_OF_A_PART:
                raise InvalidSchemaError("the descriptor has too many parts")
            if field.message_type is not None:
                pending.extend(values)
            elif field.type == field.TYPE_STRING and any(isinstance(each, bytes) for each in values):
                raise InvalidSchemaError(f"the {field.name} of the descriptor is not UTF-8")


def metadata_of(options: Any, name: str) -> Any:
    """Returns Confluent's metadata of options, confluent.field_meta for example; None if they have none."""
    extension = _pool().FindExtensionByName(name)
    return options.Extensions[extension] if options.HasExtension(extension) else None


def is_repeated(field: Any) -> bool:
    """Whether a field is repeated."""
    # protobuf 6 adds is_repeated and removes label.
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == _REPEATED


def set_metadata(options: Any, name: str, value: Mapping[str, OptionValue]) -> None:
    """Adds to Confluent's metadata of options, confluent.field_meta for example.

    Args:
        options: of a part of a descriptor.
        name: of Confluent's option.
        value: doc, params, tags and rules, as the text has them.
    """
    metadata = options.Extensions[_pool().FindExtensionByName(name)]
    if isinstance(doc := value.get("doc"), str):
        metadata.doc = doc
    for each in _listed(value.get("params")):
        if isinstance(each, dict) and isinstance(key := each.get("key"), str):
            text = each.get("value")
            metadata.params.add(key=key, value=text if isinstance(text, str) else "")
    metadata.tags.extend(each for each in _listed(value.get("tags")) if isinstance(each, str))
    for each in _listed(value.get("rules")):
        if isinstance(each, dict):
            known = {
                key: text for key in ("name", "doc", "expr", "sql") if isinstance(text := each.get(key), str)
            }
            if known:
                metadata.rules.add(**known)


def _listed(value: OptionValue | None) -> list[OptionValue]:
    """Returns the values of a repeated field, which may stand alone."""
    return value if isinstance(value, list) else [] if value is None else [value]
