"""Which changes of .proto files are incompatible: by name, path, and what protobuf's decoder makes of the data."""

import base64
import random
from types import SimpleNamespace

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, EncodeError

from bowstring.schemas.compatibility import check
from bowstring.schemas.parsing import parse_schema
from bowstring.schemas.protobuf import parse
from bowstring.schemas.protobuf.file_comparison import DESCRIPTIONS
from bowstring.schemas.resolved_reference import ResolvedReference

PROTO3 = 'syntax = "proto3"; package p; '


def reference(version, text, name="dep.proto"):
    return ResolvedReference(name, "dep", version, text)


def found(old, new, old_references=(), new_references=()):
    """The changes that keep `new` from data of `old`."""
    reader = parse(new, new_references)
    return [f"{each.kind} {each.path}" for each in reader.differences(parse(old, old_references))]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("message A { int32 a = 1; }", "message A { int64 b = 1; }"),
        ("message A { int32 a = 1; }", "message A { E a = 1; } enum E { Z = 0; }"),
        ("message A { sint32 a = 1; }", "message A { sint64 a = 1; }"),
        ("message A { string a = 1; }", "message A { repeated bytes a = 1; }"),
        ("message A { fixed32 a = 1; }", "message A { optional sfixed32 a = 1; }"),
        ("message A { int32 a = 1; string b = 2; }", "message A { string c = 3; }"),
        ("message A { int32 a = 1; }", "message A { oneof o { int32 a = 1; } }"),
        ("message A { oneof o { int32 a = 1; string b = 2; } }", "message A { int32 a = 1; string b = 2; }"),
        ("message A { oneof o { int32 a = 1; string b = 2; } }", "message A { }"),
        ("message A { oneof o { int32 a = 1; } }", "message A { oneof q { int32 a = 1; string b = 2; } }"),
        ("message A { B b = 1; } message B { }", "message B { int32 c = 1; } message A { .p.B b = 1; }"),
        ("message A { map<int32, string> a = 1; }", "message A { map<int64, bytes> a = 1; }"),
        ("enum E { Z = 0; Y = 1; } enum F { X = 0; }", "enum E { W = 0; V = 2; }"),
        ("message A { map<string, B> a = 1; } message B { }", "message A { map<string, B> a = 1; } message B { B b = 1; }"),
        ("message A { reserved 2; }", "message A { int32 b = 2; message C { } }"),
        (
            "message A { repeated E m = 1; message E { option map_entry = true; string key = 1; int32 value = 2; } }",
            "message A { map<string, int64> m = 1; }",
        ),
    ],
)  # fmt: skip
def test_compatible_changes(old, new):
    assert found(PROTO3 + old, PROTO3 + new) == []


# kind and path, the old and the new file without syntax and package, data of the old message A
INCOMPATIBLE = [
    ("FIELD_SCALAR_KIND_CHANGED #/A/1", "message A { int32 a = 1; }", "message A { sint32 a = 1; }", {"a": 5}),
    ("FIELD_SCALAR_KIND_CHANGED #/A/1", "message A { float a = 1; }", "message A { fixed32 a = 1; }", {"a": 5}),
    ("FIELD_SCALAR_KIND_CHANGED #/A/o/1", "message A { oneof o { string a = 1; } }",
     "message A { oneof o { int32 a = 1; } }", {"a": "x"}),
    ("FIELD_SCALAR_KIND_CHANGED #/A/1", "message A { map<string, int32> a = 1; }",
     "message A { map<string, sint32> a = 1; }", {"a": {"x": 5}}),
    ("FIELD_KIND_CHANGED #/A/1", "message A { string a = 1; }", "message A { B a = 1; } message B { int32 b = 1; }",
     {"a": "x"}),
    ("FIELD_KIND_CHANGED #/A/1", "message A { map<string, int32> a = 1; }", "message A { int32 a = 1; }",
     {"a": {"x": 1}}),
    ("FIELD_NAMED_TYPE_CHANGED #/A/1", "message A { B a = 1; } message B { int32 b = 1; } message C { }",
     "message A { C a = 1; } message B { int32 b = 1; } message C { }", {"a": {"b": 1}}),
    ("FIELD_NUMERIC_LABEL_CHANGED #/A/1", "message A { repeated int32 a = 1; }", "message A { optional int32 a = 1; }",
     {"a": [1, 2]}),
    ("ONEOF_FIELD_REMOVED #/A/o/2", "message A { oneof o { int32 a = 1; int32 b = 2; } }",
     "message A { oneof o { int32 a = 1; } }", {"b": 1}),
    ("ONEOF_FIELD_REMOVED #/A/o/2", "message A { oneof o { int32 a = 1; int32 b = 2; } }",
     "message A { int32 a = 1; }", {"b": 1}),
    ("MULTIPLE_FIELDS_MOVED_TO_ONEOF #/A/o", "message A { int32 a = 1; int32 b = 2; }",
     "message A { oneof o { int32 a = 1; int32 b = 2; } }", {"a": 1, "b": 2}),
    ("FIELD_MOVED_TO_EXISTING_ONEOF #/A/o", "message A { int32 a = 1; oneof o { int32 b = 2; } }",
     "message A { oneof o { int32 a = 1; int32 b = 2; } }", {"a": 1, "b": 2}),
]  # fmt: skip


def message_class(schema, name, dependencies=()):
    """protobuf's class of a message, by what `?format=serialized` answers."""
    pool = descriptor_pool.DescriptorPool()
    for path, each in [*dependencies, ("default", schema)]:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(each.formatted("serialized")))
        file.name = path
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def plain(message):
    """A message as a dict of the fields that are set, by their names."""
    return {
        field.name: dict(value.items())
        if hasattr(value, "items")
        else [*value]
        if field.is_repeated
        else value
        for field, value in message.ListFields()
    }


@pytest.mark.parametrize(("change", "old", "new", "data"), INCOMPATIBLE)
def test_incompatible_changes_lose_data(change, old, new, data):
    old, new = PROTO3 + old, PROTO3 + new
    assert found(old, new) == [change]
    written = message_class(parse(old), "p.A")(**data).SerializeToString()
    try:
        read = plain(message_class(parse(new), "p.A").FromString(written))
    except DecodeError:
        return
    assert read != data


def test_required_fields_must_stay():
    old, new = (
        "message A { optional int32 a = 1; }",
        "message A { required int32 a = 1; required int32 b = 2; }",
    )
    assert found(old, new) == ["FIELD_NUMERIC_LABEL_CHANGED #/A/1", "REQUIRED_FIELD_ADDED #/A/2"]
    written = message_class(parse(old), "A")(a=1).SerializeToString()
    assert not message_class(parse(new), "A").FromString(written).IsInitialized()
    assert found(new, old) == ["FIELD_NUMERIC_LABEL_CHANGED #/A/1", "REQUIRED_FIELD_REMOVED #/A/2"]
    with pytest.raises(EncodeError):
        message_class(parse(new), "A")(a=1).SerializeToString()


def test_names_of_messages_and_packages_must_stay():
    old = "message A { message B { } } message C { }"
    assert found(PROTO3 + old, PROTO3 + "message A { }") == ["MESSAGE_REMOVED #/A/B", "MESSAGE_REMOVED #/C"]
    assert found(PROTO3 + old, f'syntax = "proto3"; {old}') == ["PACKAGE_CHANGED #/"]


def test_every_incompatible_change_has_a_test():
    tested = {change.split()[0] for change, *_ in INCOMPATIBLE}
    assert tested | {
        "REQUIRED_FIELD_ADDED",
        "REQUIRED_FIELD_REMOVED",
        "MESSAGE_REMOVED",
        "PACKAGE_CHANGED",
    } == {*DESCRIPTIONS}


def test_messages_of_other_files_are_compared_unless_the_version_is_the_same():
    text = f'{PROTO3} import "dep.proto"; message A {{ q.D d = 1; q.D e = 2; map<string, q.D> m = 3; }}'
    one = reference(
        1, 'syntax = "proto3"; package q; message D { D next = 1; E e = 2; } message E { int32 i = 1; }'
    )
    two = reference(2, one.text.replace("int32 i", "string i"))
    assert found(text, text, [one], [reference(1, two.text)]) == []
    changes = found(text, text, [one], [two])
    assert changes[0] == "FIELD_SCALAR_KIND_CHANGED #/E/1"
    assert sorted(changes[1:]) == [
        *(f"FIELD_NAMED_TYPE_CHANGED #/A/{tag}" for tag in (1, 2, 3)),
        *(f"FIELD_NAMED_TYPE_CHANGED #/D/{tag}" for tag in (1, 2)),
    ]


def test_messages_may_move_to_another_file():
    local = f"{PROTO3} message A {{ B b = 1; }} message B {{ int32 i = 1; }}"
    moved = f'{PROTO3} import "dep.proto"; message A {{ q.B b = 1; }}'
    assert found(local, moved, (), [reference(1, "package q; message B { optional int64 i = 1; }")]) == [
        "MESSAGE_REMOVED #/B"
    ]
    assert "FIELD_NAMED_TYPE_CHANGED #/A/1" in found(
        local, moved, (), [reference(1, "package q; message B { optional string i = 1; }")]
    )


def test_well_known_types_are_equal_to_their_files():
    text = f'{PROTO3} import "google/type/date.proto"; message A {{ google.type.Date d = 1; }}'
    own = 'syntax = "proto3"; package google.type; message Date { int32 year = 1; string month = 2; }'
    assert found(text, text) == []
    assert found(text, text, (), [reference(1, own, "google/type/date.proto")]) == [
        "FIELD_SCALAR_KIND_CHANGED #/Date/2",
        "FIELD_NAMED_TYPE_CHANGED #/A/1",
    ]


def test_messages_of_long_chains_are_compared():
    count = 3_000
    chain = "".join(f"message M{i} {{ M{i + 1} a = 1; M{i + 1} b = 2; }}\n" for i in range(count))
    text = f"{PROTO3} message A {{ q.M0 m = 1; }}"
    one = reference(1, f'syntax = "proto3"; package q; {chain} message M{count} {{ int32 i = 1; }}')
    two = reference(2, one.text.replace("int32 i", "string i"))
    changes = found(text, text, [one], [two])
    assert len(changes) == 1_000
    assert changes[0] == f"FIELD_SCALAR_KIND_CHANGED #/M{count}/1"


def test_levels_and_messages():
    old, new = (
        parse_schema("PROTOBUF", PROTO3 + f"message A {{ {kind} a = 1; }}") for kind in ("int32", "string")
    )
    [difference] = check("BACKWARD", new, [old])
    assert difference.message() == (
        "{errorType:'FIELD_SCALAR_KIND_CHANGED', description:'the type of the field #/A/1 in the new schema is "
        "encoded in another way than that in the old schema'}"
    )
    assert len(check("FULL", new, [old])) == 2
    assert check("NONE", new, [old]) == []


# A random file, a changed copy, and records of the one in the eyes of the other.

GROUPS = [
    ["int32", "int64", "uint32", "uint64", "bool", "E"],
    ["sint32", "sint64"],
    ["string", "bytes"],
    ["fixed32", "sfixed32"],
    ["fixed64", "sfixed64"],
    ["float"],
    ["double"],
]
SCALARS = [name for group in GROUPS for name in group]


def random_type(randoms):
    kind = randoms.random()
    if kind < 0.2:
        return randoms.choice(["M0", "M1", "d.D"])
    if kind < 0.3:
        return f"map<{randoms.choice(['string', 'int32', 'bool'])}, {randoms.choice([*SCALARS, 'M1'])}>"
    return randoms.choice(SCALARS)


def random_field(randoms, tag):
    kind = random_type(randoms)
    oneof = randoms.choice(["", "", "x", "y"]) if "<" not in kind else ""
    # A label "" and `repeated` are compatible by Confluent's rules, although packed numbers are lost.
    label = "repeated" if not oneof and "<" not in kind and randoms.random() < 0.2 else ""
    return SimpleNamespace(tag=tag, name=f"f{tag}", type=kind, oneof=oneof, label=label)


def random_file(randoms):
    return {
        name: [random_field(randoms, tag) for tag in range(1, 7) if randoms.random() < 0.7]
        for name in ("M0", "M1", "d.D")
    }


def changed(randoms, file):
    """A copy with a change or two."""
    copy = {name: [SimpleNamespace(**vars(field)) for field in fields] for name, fields in file.items()}
    for _ in range(randoms.randint(1, 2)):
        fields = copy[randoms.choice([*copy])]
        field = randoms.choice(fields) if fields else None
        match randoms.randint(0, 5):
            case 0:
                new = random_field(randoms, 10 + len(fields))
                fields.append(new)
            case 1 if field is not None:
                fields.remove(field)
            case 2 if field is not None:
                field.name = f"renamed_{field.tag}"
            case 3 if field is not None and field.type in SCALARS:
                field.type = randoms.choice(next(group for group in GROUPS if field.type in group))
            case 4 if field is not None and field.type in SCALARS:
                field.type = randoms.choice(SCALARS)
            case 5 if field is not None and "<" not in field.type and not field.label:
                field.oneof = "" if field.oneof else randoms.choice(["x", "y", "z"])
        randoms.shuffle(fields)
    return copy


def written(file, name):
    """A message as text."""
    lines = []
    oneofs = {}
    for field in file[name]:
        declared = f"{field.label} {field.type} {field.name} = {field.tag};"
        (oneofs.setdefault(field.oneof, []) if field.oneof else lines).append(declared)
    for oneof, members in oneofs.items():
        lines.append(f"oneof {oneof} {{ {' '.join(members)} }}")
    return f"message {name.removeprefix('d.')} {{ {' '.join(lines)} }}"


def schema_of(file, version):
    """The schema and its reference, parsed."""
    enum = "enum E { Z = 0; Y = 1; }"
    dependency = f'syntax = "proto3"; package d; {enum} {written(file, "d.D").replace(" M0 ", " D ").replace(" M1", " D")}'
    text = f'{PROTO3} import "dep.proto"; {enum} {written(file, "M0")} {written(file, "M1")}'
    given = ResolvedReference("dep.proto", "dep", version, dependency)
    return parse(text, [given]), [("dep.proto", parse(dependency))]


def fill(randoms, message, depth=0):
    """Sets random fields."""
    for field in message.DESCRIPTOR.fields:
        if randoms.random() < 0.3 or (field.message_type is not None and depth > 2):
            continue
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, inner = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            if inner.message_type is None:
                value[some(randoms, key)] = some(randoms, inner)
            else:
                fill(randoms, value[some(randoms, key)], depth + 1)
        elif field.message_type is not None:
            inner_message = value.add() if field.is_repeated else value
            inner_message.SetInParent()
            fill(randoms, inner_message, depth + 1)
        elif field.is_repeated:
            value.extend(some(randoms, field) for _ in range(2))
        else:
            setattr(message, field.name, some(randoms, field))


def some(randoms, field):
    number = randoms.randint(1, 9)
    if field.cpp_type == field.CPPTYPE_STRING:
        return bytes([64 + number]) if field.type == field.TYPE_BYTES else chr(64 + number)
    if field.cpp_type == field.CPPTYPE_BOOL:
        return bool(number % 2)
    return number % 2 if field.enum_type is not None else number


def same(old, new, of):
    """Whether a scalar means the same, as near as its new type can say it."""
    if isinstance(old, bytes | str):
        return (old if isinstance(old, bytes) else old.encode()) == (
            new if isinstance(new, bytes) else new.encode()
        )
    return bool(old) == bool(new) if of.cpp_type == of.CPPTYPE_BOOL else int(old) == int(new)


def assert_kept(old, new):
    """Every field of the old message that the new one has, too, has its value."""
    for field, value in old.ListFields():
        target = new.DESCRIPTOR.fields_by_number.get(field.number)
        if target is None:
            continue
        read = getattr(new, target.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            inner = target.message_type.fields_by_name["value"]
            key = target.message_type.fields_by_name["key"]
            for each, held in value.items():
                [found_key] = [other for other in read if same(each, other, key)]
                if inner.message_type is None:
                    assert same(held, read[found_key], inner)
                else:
                    assert_kept(held, read[found_key])
        elif field.is_repeated:
            assert len(value) == len(read)
            for one, other in zip(value, read, strict=True):
                if field.message_type is None:
                    assert same(one, other, target)
                else:
                    assert_kept(one, other)
        elif field.message_type is None:
            assert same(value, read, target)
        else:
            assert_kept(value, read)


def test_compatible_changes_keep_data():
    compatible = 0
    for seed in range(250):
        randoms = random.Random(seed)
        file = random_file(randoms)
        old, old_files = schema_of(file, 1)
        new, new_files = schema_of(changed(randoms, file), 2)
        if new.differences(old):
            continue
        compatible += 1
        for name in ("p.M0", "p.M1"):
            writer = message_class(old, name, old_files)
            reader = message_class(new, name, new_files)
            for _ in range(3):
                message = writer()
                fill(randoms, message)
                assert_kept(message, reader.FromString(message.SerializeToString()))
    assert 80 < compatible < 240
