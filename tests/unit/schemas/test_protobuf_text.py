"""What is stored for a .proto text, and its normal form: as Confluent's registry 8 writes them."""

import pytest

from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.parsing import parse_schema
from bowstring.schemas.protobuf import parse, proto_reader
from bowstring.schemas.resolved_reference import ResolvedReference

UNITS = ResolvedReference(
    "shop/units.proto",
    "units",
    3,
    """
    syntax = "proto3"; package shop;
    import "google/protobuf/descriptor.proto";
    message Weight { double grams = 1; }
    enum Unit { UNIT_NONE = 0; UNIT_KG = 1; }
    extend google.protobuf.FieldOptions { Hints hints = 50001; repeated string notes = 50002; }
    message Hints { string label = 1; int32 rank = 2; repeated string tags = 3; Hints inner = 4; }
    """,
)
WRITTEN = """
// A comment, which goes.
syntax = 'proto3';  /* and another */
package shop.orders ;
import public "google/protobuf/timestamp.proto";
import "shop/units.proto"; import "google/protobuf/duration.proto";
option java_package = "org.example." "orders";
option (confluent.file_meta).doc = "say \\"hi\\"";;
enum Colour {
  reserved 7, 9 to 12; reserved "GREY";
  option allow_alias = true; RED = 0; CRIMSON = 0; BLUE = 0x10; }
message Order {
  reserved "old"; reserved 90 to max, 20;
  enum State { NEW = 0; }
  map < string , Line > lines = 4;
  string id = 2 [(hints).label = "Id", (hints).rank = 1.50, json_name = "orderId", (notes) = "b", (notes) = "a"];
  oneof payment { option (x.y) = true; string card = 8; shop.Unit unit = 7; }
  optional int32 count = 1;
  .google.protobuf.Timestamp at = 3 [deprecated = true];
  message Line { repeated Weight weights = 2 [packed = false, (hints) = {rank: 2 tags: ["x"], inner {label: 'y'}}]; }
  State state = 5;
}
service Shop {
  rpc Place (stream Order) returns (Order.Line) { option deprecated = true; }
  rpc Get(Order) returns(Order);
}
"""
CANONICAL = """\
syntax = "proto3";
package shop.orders;

import "shop/units.proto";
import "google/protobuf/duration.proto";
import public "google/protobuf/timestamp.proto";

option java_package = "org.example.orders";
option (confluent.file_meta).doc = "say \\"hi\\"";

message Order {
  reserved "old";
  reserved 90 to max, 20;

  map<string, Line> lines = 4;
  string id = 2 [
    (hints).label = "Id",
    (hints).rank = 1.50,
    (notes) = "b",
    (notes) = "a",
    json_name = "orderId"
  ];
  optional int32 count = 1;
  .google.protobuf.Timestamp at = 3 [deprecated = true];
  State state = 5;

  oneof payment {
    option (x.y) = true;
__
    string card = 8;
    shop.Unit unit = 7;
  }

  message Line {
    repeated Weight weights = 2 [
      packed = false,
      (hints) = {
        rank: 2,
        tags: [
          "x"
        ],
        inner: {
          label: "y"
        }
      }
    ];
  }
  enum State {
    NEW = 0;
  }
}
enum Colour {
  reserved 7, 9 to 12;
  reserved "GREY";
  option allow_alias = true;
  RED = 0;
  CRIMSON = 0;
  BLUE = 16;
}

service Shop {
  rpc Place (stream Order) returns (Order.Line) {
    option deprecated = true;
  };
  rpc Get (Order) returns (Order);
}
""".replace("__", "  ")
NORMALIZED = """\
syntax = "proto3";
package shop.orders;

import "google/protobuf/duration.proto";
import "shop/units.proto";
import public "google/protobuf/timestamp.proto";

option (confluent.file_meta) = {
  doc: "say \\"hi\\""
};
option java_package = "org.example.orders";

message Order {
  reserved 20;
  reserved 90 to max;
  reserved "old";

  optional int32 count = 1;
  string id = 2 [
    json_name = "orderId",
    (shop.hints) = {
      label: "Id",
      rank: 1.5
    },
    (shop.notes) = "b",
    (shop.notes) = "a"
  ];
  .google.protobuf.Timestamp at = 3 [deprecated = true];
  map<string, .shop.orders.Order.Line> lines = 4;
  .shop.orders.Order.State state = 5;

  oneof payment {
    option (x.y) = true;
__
    .shop.Unit unit = 7;
    string card = 8;
  }

  message Line {
    repeated .shop.Weight weights = 2 [
      packed = false,
      (shop.hints) = {
        inner: {
          label: "y"
        },
        rank: 2,
        tags: "x"
      }
    ];
  }
  enum State {
    NEW = 0;
  }
}
enum Colour {
  reserved 7;
  reserved 9 to 12;
  reserved "GREY";
  option allow_alias = true;
  CRIMSON = 0;
  RED = 0;
  BLUE = 16;
}

service Shop {
  rpc Place (stream .shop.orders.Order) returns (.shop.orders.Order.Line) {
    option deprecated = true;
  };
  rpc Get (.shop.orders.Order) returns (.shop.orders.Order);
}
""".replace("__", "  ")


def test_what_is_stored_has_the_text_in_one_layout():
    assert parse(WRITTEN, [UNITS]).canonical == CANONICAL


def test_normal_form_is_sorted_and_resolved():
    assert parse(WRITTEN, [UNITS]).normalized().canonical == NORMALIZED


@pytest.mark.parametrize("text", [CANONICAL, NORMALIZED])
def test_stored_texts_are_stored_as_they_are(text):
    assert parse(parse(text, [UNITS]).canonical, [UNITS]).canonical == parse(text, [UNITS]).canonical


def test_normal_form_has_one_normal_form():
    normal = parse(WRITTEN, [UNITS]).normalized()
    assert normal.normalized().canonical == normal.canonical


def test_name_is_that_of_the_first_message():
    assert parse(WRITTEN, [UNITS]).name == "shop.orders.Order"
    assert parse("enum Colour { RED = 0; }").name == "Colour"
    assert parse('import public "shop/units.proto";', [UNITS]).name == "shop.Weight"
    assert parse('import public "google/protobuf/timestamp.proto";').name == "google.protobuf.Timestamp"
    assert parse('syntax = "proto3";').name is None


def test_texts_without_extensions_keep_what_is_confluents():
    text = parse(WRITTEN, [UNITS]).formatted("IGNORE_EXTENSIONS")
    assert "hints" not in text and "x.y" not in text
    assert '(confluent.file_meta).doc = "say' in text and "[packed = false]" in text


@pytest.mark.parametrize("format", ["", "default", "resolved"])
def test_other_formats_give_the_text(format):
    assert parse(WRITTEN, [UNITS]).formatted(format) == CANONICAL


def test_proto2_keeps_labels_defaults_groups_and_extensions():
    text = """\
syntax = "proto2";

message Base {
  required string name = 1 [default = "n\\'"];
  optional bytes raw = 2 [default = abc];
  optional double low = 3 [default = -inf];

  oneof one {
    group Inside = 5 {
      optional int32 a = 6;
    }
  }

  repeated group Rows = 4 {
    optional int32 b = 1;
  }

  extensions 100, 200 to max [verification = UNVERIFIED];

  extend Base {
    optional int32 more = 100;
  }
}

extend Base {
  optional int32 even_more = 200;
}
"""
    assert parse(text).canonical == text


def test_defaults_of_bytes_stay_readable():
    """Confluent's registry writes them without quotes, and cannot read what it stored."""
    text = parse('message A { optional bytes b = 1 [default = "a b\\n"]; }').canonical
    assert '[default = "a b\\n"]' in text
    assert parse(text).canonical == text


def test_editions_are_kept():
    text = 'edition = "2023";\n\nmessage A {\n  int32 a = 1 [features.field_presence = IMPLICIT];\n}\n'
    assert parse(text).canonical == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('syntax = "proto4";', "line 1, column 1: syntax is"),
        ('message A {}\nsyntax = "proto3";', "line 2, column 1: syntax must be the first"),
        ("message A { optional int32 a = 1;\n\n  int32 b = 2; }", "line 3, column 3: unexpected int32"),
        ('syntax = "proto3"; message A { required int32 a = 1; }', "no required fields"),
        ("message A { optional map<string, string> a = 1; }", "a map has no label"),
        ("message A { optional int32 a = 4294967296; }", "expected an integer of 32 bits"),
        ("message A { optional int32 9a = 1; }", "begins with a digit"),
        ("message A {", "the text ends too early"),
        ("/* message A {}", "the comment has no end"),
        ('import "a.proto', "the string has no end"),
        ("message A { reserved 1 bis 2; }", "expected `to`"),
        ('import "\\xg";', "line 1, column 8: the string has \\x without"),
        ("message A { optional int32 a = 1 [default = {a: 1}]; }", "default must be one value"),
        ('{"type": "record"}', "expected a word"),
        ("message A { extensions 4 to 5 [x = [1 2]]; }", "in the list"),
        ("service A { message B {} }", "unexpected message in a service"),
    ],
)
def test_errors_name_place_and_problem(text, problem):
    for is_new in (True, False):
        with pytest.raises(InvalidSchemaError) as raised:
            parse_schema("PROTOBUF", text, is_new=is_new)
        assert problem in str(raised.value)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("message A { optional B b = 1; }", "A.b: the type B is declared neither here nor in a reference"),
        ("message A { optional .B b = 1; } message B { optional .A.C c = 1; }", "the type .A.C is declared"),
        ("message A { map<double, string> m = 1; }", "double cannot be the key of a map"),
        ("message A {} message A {}", "the file: the type A is declared twice"),
        ("service A { rpc B (C) returns (C); }", "A.B: the type C is declared"),
        (
            "message A { optional int32 a = 1; optional int32 b = 1; }",
            "A: the field number 1 is declared twice",
        ),
        ("message A { optional int32 a = 1; oneof b { int32 c = 1; } }", "A: the field number 1"),
        ("message A { optional int32 a = 1; repeated int32 a = 2; }", "A: the field or oneof a is declared"),
        (
            "message A { message B { optional int32 a = 19500; } }",
            "A.B.a: the field number 19500 is not allowed",
        ),
        ("message A { optional int32 a = 0; }", "the field number 0 is not allowed"),
        ("message A { reserved 1, 4 to 6, 5 to max; optional int32 a = 536870911; }", "is reserved"),
        ('message A { reserved "a"; optional int32 a = 1; }', "A.a: the name is reserved"),
        ("enum A { B = 0; C = 0; }", "A: the number 0 is declared twice"),
        ("enum A { B = 0; B = 1; }", "A: the value B is declared twice"),
        ('syntax = "proto3"; enum A { B = 1; }', "the first value of an enum of proto3 must be 0"),
        ("enum A { reserved 5 to 7; B = 6; }", "A.B: the number 6 is reserved"),
        ("message A { enum B {} }", "A.B: the enum has no value"),
    ],
)
def test_new_schemas_are_valid(text, problem):
    with pytest.raises(InvalidSchemaError) as raised:
        parse_schema("PROTOBUF", text)
    assert problem in str(raised.value)
    assert parse_schema("PROTOBUF", text, is_new=False).canonical


def test_errors_in_references_name_the_reference():
    broken = ResolvedReference("a/b.proto", "b", 1, "message {")
    with pytest.raises(InvalidSchemaError, match=r"the reference a/b.proto: line 1, column 9"):
        parse("message A {}", [broken])


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        *[("1.50", "1.5"), ("-0.0", "-0"), ("010", "8"), ("08", "08"), ("0x1F", "31"), ("-0x1f", "-31")],
        *[("0.1234567", "0.123"), ("0.0625", "0.062"), ("0.0015", "0.002"), ("1e10", "10000000000")],
        *[("123456.789012", "123456.789"), ("1.5f", "1.5"), ("2.5D", "2.5"), ("12L", "12"), ("-inf", "-inf")],
        *[("12345678901234567890", "12345678901234567890"), ("1e9999", "1e9999"), ("9" * 300, "9" * 300)],
    ],
)
def test_numbers_of_options_get_javas_normal_form(written, normal):
    text = f"message A {{ optional int32 a = 1 [x = {written}]; }}"
    assert f"[x = {normal}]" in parse(text).normalized().canonical


def test_parts_of_an_option_are_merged():
    text = """
    import "google/protobuf/descriptor.proto";
    message Opt { optional Opt inner = 1; repeated int32 many = 2; optional string one = 3; }
    extend google.protobuf.MessageOptions { optional Opt opt = 50000; }
    message A {
      option (opt).inner.many = 1; option (opt).inner.many = 2; option (opt).inner.many = 1;
      option (opt) = { many: [3, 4] one: "x" }; option (opt).one = "y"; option (opt).inner.one = "z";
    }"""
    normal = parse(text).normalized().canonical
    assert (
        """
  option (opt) = {
    inner: {
      many: [
        1,
        2
      ],
      one: "z"
    },
    many: [
      3,
      4
    ],
    one: "y"
  };"""
        in normal
    )


def test_types_of_options_are_those_of_the_place():
    text = """
    package acme.common;
    import "google/protobuf/descriptor.proto";
    message Rules { optional Range range = 1; message Other { } }
    message Range { optional int64 min = 1; optional int64 max = 2; }
    extend google.protobuf.FieldOptions { optional Rules rules = 50001; }
    message A { optional string a = 1 [(rules).range.min = 1, (rules).range.max = 9]; }"""
    written = """
  optional string a = 1 [(acme.common.rules) = {
    range: {
      max: 9,
      min: 1
    }
  }];"""
    assert written in parse(text).normalized().canonical


def test_sections_that_the_normal_form_empties_leave_a_blank_line():
    text = "message A { oneof o { group G = 1 { } } } extend A { } service S { }"
    assert parse(text).normalized().canonical == "\nmessage A {\n}\n\n\nservice S {}\n"


# What costs a client little and would cost the registry much.
HOSTILE = {
    "deep messages": "message A {" * 50_000,
    "deep options": "option (a) = " + "{a:" * 50_000,
    "deep lists": "option (a) = " + "[" * 50_000,
    "long paths": "option (a)" + ".b" * 50_000 + " = 1;",
    "long scopes": f"message {'a' * 100} {{" * 20,
    "many fields": "message A {" + "optional int32 a=1;" * 3_000 + "}",
    "many values": "option (a) = {" + "a:1 " * 3_000 + "};",
    "many reserved numbers": "message A { reserved " + "1," * 3_000 + "2; }",
    "many semicolons": ";" * 3_000,
    "many strings": "import " + "'a'" * 10_001 + ";",
    "a long name": f"message {'a' * 100_000} {{}}",
    "a long package": f"package {'a.' * 100}b;",
    "a long number": f"message A {{ optional int32 a = {'9' * 100_000}; }}",
    "a comment without an end": "/*" + "*" * 100_000,
    "a string without an end": 'import "' + "\\x" * 50_000,
    "an unfinished path": "message A { optional a" + " . b" * 100_000,
    "half a character": 'import "\ud800";',
    "base64 of nothing": "AAAA" * 100_000,
    "base64 of messages that are deep": "Igc" * 100_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_texts_are_refused(monkeypatch, text):
    monkeypatch.setattr(proto_reader, "PARTS_MAX", 2_000)
    with pytest.raises(InvalidSchemaError) as raised:
        parse_schema("PROTOBUF", text)
    assert len(str(raised.value)) < 400


def test_short_texts_do_not_get_long():
    many = ", ".join(str(number) for number in range(1, 3_000))
    options = ", ".join(f"declaration = {{ number: {number} }}" for number in range(3_000))
    schema = parse(f"message A {{ extensions {many} [{options}]; }}")
    for make in (schema.normalized, lambda: schema.formatted("serialized")):
        with pytest.raises(InvalidSchemaError, match=r"ranges? of extensions"):
            make()


def test_references_count_like_the_schema(monkeypatch):
    monkeypatch.setattr(proto_reader, "PARTS_MAX", 100)
    given = [ResolvedReference(f"{i}.proto", "a", i, f"message A{i} {{ }}") for i in range(99)]
    assert parse("message A { }", given).name == "A"
    with pytest.raises(InvalidSchemaError, match="the schema and its references have more than 100"):
        parse("message A { } message B { }", given)


def test_files_may_import_each_other():
    first = ResolvedReference("a.proto", "a", 1, 'import "b.proto"; message A { optional B b = 1; }')
    second = ResolvedReference("b.proto", "b", 1, 'import "a.proto"; message B { optional A a = 1; }')
    schema = parse(first.text, [first, second])
    assert "optional .B b = 1;" in schema.normalized().canonical
    assert schema.differences(parse(first.text, [first, second])) == []
    assert schema.formatted("serialized")


def test_names_mean_the_innermost_type():
    text = """
    package p.q;
    message A { message B { message A { } optional A one = 1; optional p.q.A two = 2; optional .p.q.A three = 3; } }
    message p { message r { } }
    message C { optional p.r four = 4; }
    """
    normal = parse(text).normalized().canonical
    for written in (".p.q.A.B.A one", ".p.q.A two", ".p.q.A three", ".p.q.p.r four"):
        assert f"optional {written} =" in normal
