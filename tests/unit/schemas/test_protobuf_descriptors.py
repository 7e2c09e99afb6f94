"""Schemas that come and go as FileDescriptorProto in Base64, as Confluent's Python client sends them."""

import base64
import subprocess
import sys
from importlib import import_module

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.parsing import parse_schema
from bowstring.schemas.protobuf import descriptor_classes, parse, proto_reader
from bowstring.schemas.protobuf.well_known import FILES
from bowstring.schemas.resolved_reference import ResolvedReference

MODULES = {path: source for path, source in FILES.items() if "\n" not in source}


def in_base64(file):
    return base64.b64encode(file if isinstance(file, bytes) else file.SerializeToString()).decode()


def described(schema, name="default"):
    """The FileDescriptorProto that `?format=serialized` answers."""
    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(schema.formatted("serialized")))
    file.name = name
    return file


def order_file():
    """A descriptor as protoc makes it: with messages for maps, and oneofs for what is optional."""
    file = descriptor_classes.file_class()(name="order.proto", package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "a.proto", "b.proto"])
    file.public_dependency.append(1)
    file.weak_dependency.append(2)
    file.options.go_package, file.options.java_multiple_files = 'x"y', True
    file.options.optimize_for = descriptor_pb2.FileOptions.SPEED
    message = file.message_type.add(name="Order")
    entry = message.nested_type.add(name="LinesEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=1, json_name="key")
    entry.field.add(name="value", number=2, type=Field.TYPE_INT32, label=1)
    message.field.add(
        name="lines", number=4, type=Field.TYPE_MESSAGE, label=3, type_name=".shop.Order.LinesEntry"
    )
    message.field.add(
        name="count", number=2, type=Field.TYPE_INT64, label=1, proto3_optional=True, oneof_index=1
    )
    message.field.add(name="card", number=1, type=Field.TYPE_STRING, label=1, oneof_index=0)
    message.field.add(
        name="at", number=3, type=Field.TYPE_MESSAGE, label=1, type_name=".google.protobuf.Timestamp"
    ).options.deprecated = True
    message.oneof_decl.add(name="payment")
    message.oneof_decl.add(name="_count")
    message.reserved_range.add(start=10, end=11)
    message.reserved_range.add(start=20, end=536870912)
    message.reserved_name.append("old")
    enum = message.enum_type.add(name="State")
    enum.value.add(name="NEW", number=0)
    enum.value.add(name="DONE", number=1).options.deprecated = True
    enum.reserved_range.add(start=5, end=6)
    service = file.service.add(name="Shop")
    service.method.add(
        name="Place", input_type=".shop.Order", output_type=".shop.Order", server_streaming=True
    )
    descriptor_classes.set_metadata(
        message.field[0].options,
        "confluent.field_meta",
        {
            "doc": "lines",
            "tags": ["PII"],
            "params": [{"key": "scale", "value": "2"}, {"key": "z", "value": "y"}],
        },
    )
    return file  # fmt: skip


ORDER = """\
syntax = "proto3";
package shop;

import "google/protobuf/timestamp.proto";
import public "a.proto";

option java_multiple_files = true;
option optimize_for = SPEED;
option go_package = "x\\"y";

message Order {
  reserved 10;
  reserved 20 to max;
  reserved "old";

  repeated .shop.Order.LinesEntry lines = 4 [(confluent.field_meta) = {
    doc: "lines",
    params: [
      {
        value: "2",
        key: "scale"
      },
      {
        key: "z",
        value: "y"
      }
    ],
    tags: [
      "PII"
    ]
  }];
  optional int64 count = 2;
  .google.protobuf.Timestamp at = 3 [deprecated = true];

  oneof payment {
    string card = 1;
  }

  message LinesEntry {
    option map_entry = true;
__
    string key = 1 [json_name = "key"];
    int32 value = 2;
  }
  enum State {
    reserved 5 to 6;
    NEW = 0;
    DONE = 1 [deprecated = true];
  }
}

service Shop {
  rpc Place (.shop.Order) returns (stream .shop.Order);
}
""".replace("__", "  ")


def test_descriptors_are_stored_as_text():
    schema = parse_schema("PROTOBUF", in_base64(order_file()))
    assert schema.canonical == ORDER
    assert schema.name == "shop.Order"
    assert parse(ORDER).canonical == ORDER


def test_normal_form_of_a_descriptor_has_maps():
    normal = parse(in_base64(order_file())).normalized().canonical
    assert "  map<string, int32> lines = 4 [" in normal
    assert "Entry" not in normal


def test_proto2_descriptors_keep_labels_and_defaults():
    file = descriptor_pb2.FileDescriptorProto(name="a.proto")
    message = file.message_type.add(name="A")
    message.field.add(name="a", number=1, type=Field.TYPE_STRING, label=2, default_value='q"')
    message.field.add(name="b", number=2, type=Field.TYPE_BYTES, label=1, default_value="\\001\\'z")
    message.field.add(name="c", number=3, type=Field.TYPE_BOOL, label=1, default_value="true")
    message.extension_range.add(start=100, end=201)
    file.extension.add(name="d", number=100, type=Field.TYPE_INT32, label=3, extendee=".A")
    text = parse(in_base64(file)).canonical
    assert text == (
        '\nmessage A {\n  required string a = 1 [default = "q\\""];\n  optional bytes b = 2 [default = "\x01\\\'z"];\n'
        "  optional bool c = 3 [default = true];\n\n  extensions 100 to 200;\n}\n\n"
        "extend .A {\n  repeated int32 d = 100;\n}\n"
    )
    again = described(parse(text))
    assert again.message_type[0].field[1].default_value == "\\001\\'z"
    descriptor_pool.DescriptorPool().Add(again)


@pytest.mark.parametrize("path", MODULES)
def test_descriptors_of_well_known_files_are_schemas(path):
    serialized = import_module(MODULES[path]).DESCRIPTOR.serialized_pb
    schema = parse(in_base64(serialized))
    assert parse(schema.canonical).canonical == schema.canonical
    file = described(schema, path)
    assert parse(in_base64(file)).normalized().canonical == schema.normalized().canonical
    pool = descriptor_pool.DescriptorPool()
    for dependency in import_module(MODULES[path]).DESCRIPTOR.dependencies:
        for needed in [*dependency.dependencies, dependency]:
            pool.AddSerializedFile(needed.serialized_pb)
    pool.Add(file)


def test_well_known_files_may_be_references():
    """Confluent's Python client registers them, too, unless it is told to skip known types."""
    path = "google/protobuf/timestamp.proto"
    serialized = in_base64(import_module(MODULES[path]).DESCRIPTOR.serialized_pb)
    given = ResolvedReference(path, path, 1, parse(serialized).canonical)
    text = f'syntax = "proto3"; import "{path}"; message A {{ google.protobuf.Timestamp at = 1; }}'
    schema, alone = parse(text, [given]), parse(text)
    assert schema.normalized().canonical == alone.normalized().canonical
    assert described(schema).dependency == [path]
    assert schema.differences(alone) == []
    assert alone.differences(schema) == []


SERIALIZED = """
syntax = "proto3";
package p;
import "google/protobuf/struct.proto";
import public "dep.proto";
import "missing.proto";
option java_package = "x";
option (confluent.file_meta).doc = "file";
message A {
  option deprecated = true;
  option (confluent.message_meta) = { params: { key: "k" value: "v" } };
  map<string, B> my_map = 1;
  optional E e = 2 [packed = false, (confluent.field_meta).tags = "PII", (confluent.field_meta).tags = "B"];
  oneof o { q.D d = 3; google.protobuf.Struct s = 4 [json_name = "S"]; }
  message B { reserved 2 to 4, 9; reserved "x"; }
  enum E { option allow_alias = true; reserved -1, 5 to max; Z = 0; Y = 0 [(confluent.enum_value_meta).doc = "y"]; }
}
service S { rpc R (stream A) returns (A.B) { option idempotency_level = IDEMPOTENT; option deprecated = true; } }
"""


def test_serialized_form_is_what_protoc_makes():
    given = ResolvedReference("dep.proto", "dep", 1, 'syntax = "proto3"; package q; message D { }')
    file = described(parse(SERIALIZED, [given]))
    assert (file.package, file.syntax) == ("p", "proto3")
    assert [*file.dependency] == ["google/protobuf/struct.proto", "dep.proto"]
    assert [*file.public_dependency] == [1]
    message = file.message_type[0]
    assert [each.name for each in message.field] == ["d", "s", "my_map", "e"]
    assert [each.name for each in message.nested_type] == ["B", "MyMapEntry"]
    assert [each.name for each in message.oneof_decl] == ["o", "_e"]
    assert message.field[3].proto3_optional and message.field[3].type == Field.TYPE_ENUM
    assert [(each.start, each.end) for each in message.nested_type[0].reserved_range] == [(2, 5), (9, 10)]
    assert [(each.start, each.end) for each in message.enum_type[0].reserved_range] == [
        (-1, -1),
        (5, 536870911),
    ]
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(import_module("google.protobuf.struct_pb2").DESCRIPTOR.serialized_pb)
    pool.Add(described(parse(given.text), "dep.proto"))
    pool.Add(file)
    found = pool.FindMessageTypeByName("p.A")
    assert found.fields_by_name["my_map"].message_type.GetOptions().map_entry
    text = parse(
        in_base64(base64.b64decode(parse(SERIALIZED, [given]).formatted("serialized"))), [given]
    ).canonical
    for meta in ('doc: "file"', 'key: "k"', '"PII"', 'doc: "y"'):
        assert meta in text


def test_serialized_form_keeps_groups_and_editions():
    text = "message A { repeated group Rows = 1 { optional int32 b = 2; } oneof o { group One = 3 { } } }"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(described(parse(text)))
    fields = pool.FindMessageTypeByName("A").fields_by_name
    assert fields["rows"].type == Field.TYPE_GROUP and fields["one"].containing_oneof.name == "o"
    edition = 'edition = "2023"; message E { int32 a = 1 [features.field_presence = IMPLICIT]; int32 b = 2; }'
    pool.Add(described(parse(edition), "e.proto"))
    fields = pool.FindMessageTypeByName("E").fields_by_name
    assert not fields["a"].has_presence and fields["b"].has_presence


def test_editions_go_and_come_back():
    """Confluent's registry drops the edition from the text, so the features say that there was one."""
    file = descriptor_pb2.FileDescriptorProto(name="e.proto", syntax="editions", edition=1000)
    message = file.message_type.add(name="E")
    message.field.add(name="a", number=1, label=1, type=Field.TYPE_INT32).options.features.field_presence = 2
    message.field.add(name="b", number=2, label=3, type=Field.TYPE_INT32)
    schema = parse(in_base64(file))
    assert schema.canonical.startswith("\nmessage E {\n  optional int32 a = 1 [features = {")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(described(schema))
    assert not pool.FindMessageTypeByName("E").fields_by_name["a"].has_presence


def test_text_that_is_neither_is_refused_as_text():
    for text in ("AAAA", "bm90IGEgZGVzY3JpcHRvcg==", "int32"):
        with pytest.raises(InvalidSchemaError, match="line 1, column"):
            parse(text)


def test_hostile_descriptors_are_refused():
    file = descriptor_pb2.FileDescriptorProto()
    file.message_type.add(name="A { } message B")
    with pytest.raises(InvalidSchemaError, match="has a name or a type that is none"):
        parse(in_base64(file))
    file.message_type[0].name = "A"
    file.message_type[0].field.add(name="a", number=1, label=1, type=Field.TYPE_INT32, oneof_index=7)
    with pytest.raises(InvalidSchemaError, match="oneof"):
        parse(in_base64(file))


def test_descriptors_with_too_many_parts_are_refused(monkeypatch):
    file = descriptor_pb2.FileDescriptorProto()
    for _ in range(1_000):
        file.message_type.add()
    monkeypatch.setattr(proto_reader, "PARTS_MAX", 100)
    with pytest.raises(InvalidSchemaError, match="too many parts"):
        parse(in_base64(file))
    with pytest.raises(InvalidSchemaError, match="at most 2,097,152 are accepted"):
        parse(in_base64(file.SerializeToString() * 3_000))


def test_strings_of_descriptors_are_utf_8():
    file = descriptor_pb2.FileDescriptorProto(package="aaaa").SerializeToString()
    with pytest.raises(InvalidSchemaError, match="package of the descriptor is not UTF-8"):
        parse(in_base64(file.replace(b"aaaa", b"a\xffaa")))


def test_threads_may_parse_the_first_descriptor():
    code = (
        "import sys, threading; from concurrent.futures import ThreadPoolExecutor\n"
        "from bowstring.schemas.protobuf import parse\n"
        "start = threading.Barrier(4)\n"
        "def run(_): start.wait(); return parse(sys.argv[1]).canonical\n"
        "with ThreadPoolExecutor(4) as threads: texts = [*threads.map(run, range(4))]\n"
        "sys.exit(len({*texts}) != 1 or 'PII' not in texts[0])"
    )
    run = subprocess.run([sys.executable, "-c", code, in_base64(order_file())], check=False)
    assert run.returncode == 0


def test_text_is_parsed_without_loading_protobuf():
    code = (
        "import sys; from bowstring.schemas.protobuf import parse\n"
        "parse('message A { optional string a = 1; }').normalized().canonical\n"
        "sys.exit('google.protobuf' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
