"""The files that schemas import without a reference: of Google and of Confluent."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING

from bowstring.clients.errors import MissingPackageError
from bowstring.schemas.protobuf.proto_parser import parse_proto
from bowstring.schemas.protobuf.type_index import DeclaredTypes

if TYPE_CHECKING:
    from bowstring.schemas.protobuf.elements import ProtoFile

_PROTOBUF = (
    *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct"),
    *("timestamp", "type", "wrappers"),
)
_COMMON = (
    *("calendar_period", "color", "date", "datetime", "dayofweek", "decimal", "expr", "fraction", "interval"),
    *("latlng", "money", "month", "phone_number", "postal_address", "quaternion", "timeofday"),
)
META = """
syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
"""
_DECIMAL = """
syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
"""
_VARIANT = """
syntax = "proto3";
package confluent.type;
message Variant { bytes metadata = 1; bytes value = 2; }
"""

# Each file to the module that has its descriptor, or to its text.
FILES = {
    **{f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2" for name in _PROTOBUF},
    **{f"google/type/{name}.proto": f"google.type.{name}_pb2" for name in _COMMON},
    "confluent/meta.proto": META,
    "confluent/type/decimal.proto": _DECIMAL,
    "confluent/type/variant.proto": _VARIANT,
}


@lru_cache(maxsize=len(FILES))
def well_known_file(name: str) -> ProtoFile:
    """Returns a file of `FILES`.

    Raises:
        MissingPackageError: the package that has it is not installed.
    """
    source = FILES[name]
    if "\n" in source:
        return parse_proto(source)
    # Loads protobuf.
    from bowstring.schemas.protobuf.from_descriptor import file_of

    try:
        module = import_module(source)
    except ModuleNotFoundError as error:
        package = "protobuf" if source.startswith("google.protobuf.") else "googleapis-common-protos"
        raise MissingPackageError(package, "registry") from error
    return file_of(module.DESCRIPTOR.serialized_pb)


@lru_cache(maxsize=64)
def declared_types(package: str, replaced: frozenset[str]) -> DeclaredTypes:
    """Returns what the well-known files of a package declare.

    Args:
        package: with a dot behind it, such as google.type.
        replaced: files to leave out.

    Raises:
        MissingPackageError: the package that has the files is not installed.
    """
    folder = package.replace(".", "/")
    found = DeclaredTypes()
    for name in FILES:
        if name.startswith(folder) and name not in replaced:
            found.add_file(well_known_file(name))
    return found
