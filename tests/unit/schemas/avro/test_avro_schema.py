import json

import pytest

from bowstring.schemas.avro import parse
from bowstring.schemas.compatibility import check
from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.parsing import parse_schema
from bowstring.schemas.resolved_reference import ResolvedReference


def record(*fields, name="shop.Order", **more):
    return json.dumps({"type": "record", "name": name, "fields": list(fields), **more})


def field(name, of, **more):
    return {"name": name, "type": of, **more}


def test_canonical_text_has_javas_order_and_spaces():
    text = """
    { "fields": [ {"default": 1, "order": "ignore", "doc": "d", "name": "a", "type": "int", "x": [1.0, 1e30]},
                  {"aliases": ["old"], "name": "b", "type": ["null", "Order"], "order": "ascending"} ],
      "name": "shop.Order", "aliases": ["Purchase", "old.Order"], "type": "record", "doc": "é \\u0001\\/" }
    """
    assert parse(text).canonical == (
        '{"type":"record","name":"Order","namespace":"shop","doc":"é \\u0001/","fields":['
        '{"name":"a","type":"int","doc":"d","default":1,"order":"ignore","x":[1.0,1.0E30]},'
        '{"name":"b","type":["null","Order"],"aliases":["old"]}],"aliases":["Purchase","old.Order"]}'
    )


def test_references_are_named_and_can_be_written_out():
    inner = record(field("n", "long"), name="shop.Item")
    reference = ResolvedReference("shop.Item", "items", 3, inner)
    schema = parse(record(field("items", {"type": "array", "items": "Item"})), [reference])
    assert schema.canonical.endswith('"items":"Item"}}]}')
    written_out = schema.formatted("resolved")
    assert '"items":{"type":"record","name":"Item","fields"' in written_out
    assert schema.formatted("") == schema.formatted("unknown") == schema.canonical
    assert schema.equivalent(parse(written_out))
    assert not schema.equivalent(parse(inner))
    with pytest.raises(InvalidSchemaError, match=r'"shop\.Item" is defined neither'):
        parse(record(field("items", {"type": "array", "items": "Item"})))
    with pytest.raises(InvalidSchemaError, match=r'reference "x" \(subject "s", version 2\): not JSON'):
        parse('"int"', [ResolvedReference("x", "s", 2, "{")])


def test_names_may_be_used_before_they_are_defined():
    schema = parse(record(field("a", "Late"), field("b", {"type": "fixed", "name": "Late", "size": 2})))
    assert schema.canonical.endswith(
        '"fields":[{"name":"a","type":{"type":"fixed","name":"Late","size":2}},{"name":"b","type":"Late"}]}'
    )


def test_records_have_a_name_and_fields():
    schema = parse_schema("AVRO", record(field("a", "int")))
    assert schema.name == "shop.Order"
    assert schema.has_top_level_field("a")
    assert not schema.has_top_level_field("b")
    assert parse('"int"').name is None


def test_what_a_check_finds_has_path_and_rule():
    old = parse(record(field("a", "int"), field("b", ["null", "string"])))
    new = parse(record(field("a", "string"), field("b", "string"), field("c", "bytes")))
    assert [(each.kind, each.path) for each in check("BACKWARD", new, [old])] == [
        ("TYPE_MISMATCH", "/fields/0/type"),
        ("TYPE_MISMATCH", "/fields/1/type/0"),
        ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/2"),
    ]
    assert [each.kind for each in check("FORWARD", new, [old])] == ["TYPE_MISMATCH"]
