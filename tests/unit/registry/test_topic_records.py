"""Records are Confluent's, byte for byte, and are read in every spelling."""

import pytest

from bowstring.registry import topic_records as records
from bowstring.registry.schema_record import SchemaRecord, SchemaReference
from bowstring.registry.topic_records import TopicKey

# As Confluent's serializer writes them: members in this order, nothing between them.
KEYS = [
    (TopicKey("SCHEMA", "a-value", 3), b'{"keytype":"SCHEMA","subject":"a-value","version":3,"magic":1}'),
    (
        TopicKey("SCHEMA", 'ü"\\', 1),
        '{"keytype":"SCHEMA","subject":"ü\\"\\\\","version":1,"magic":1}'.encode(),
    ),
    (
        TopicKey("SCHEMA", "\x1f\n\\u001f", 1),
        rb'{"keytype":"SCHEMA","subject":"\u001F\n\\u001f","version":1,"magic":1}',
    ),
    (TopicKey("SCHEMA", "", 1), b'{"keytype":"SCHEMA","version":1,"magic":1}'),
    (TopicKey("DELETE_SUBJECT", ""), b'{"keytype":"DELETE_SUBJECT","magic":0}'),
    (TopicKey("CONFIG"), b'{"keytype":"CONFIG","magic":0}'),
    (TopicKey("CONFIG", "a"), b'{"keytype":"CONFIG","subject":"a","magic":0}'),
    (TopicKey("MODE", ":.c:"), b'{"keytype":"MODE","subject":":.c:","magic":0}'),
    (TopicKey("DELETE_SUBJECT", "a"), b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}'),
    (TopicKey("CLEAR_SUBJECT", "a"), b'{"keytype":"CLEAR_SUBJECT","subject":"a","magic":0}'),
    (TopicKey("CONTEXT", ".c"), b'{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}'),
    (TopicKey("NOOP"), b'{"keytype":"NOOP","magic":0}'),
]


@pytest.mark.parametrize(("key", "written"), KEYS)
def test_keys_are_written_as_confluent_does_and_read_back(key, written):
    assert records.encode_key(key) == written
    assert records.decode_key(written) == key


@pytest.mark.parametrize(
    ("written", "key"),
    [
        (b'{"subject": "a", "version": 1, "magic": 0, "keytype": "SCHEMA"}', TopicKey("SCHEMA", "a", 1)),
        (b'{"subject": null, "magic": 0, "keytype": "CONFIG"}', TopicKey("CONFIG")),
        (b'{"keytype":"NOOP","magic":0,"new":[1]}', TopicKey("NOOP")),
        (b'{"keytype":"SCHEMA","subject":":.:a","version":1,"magic":1}', TopicKey("SCHEMA", "a", 1)),
    ],
    ids=["Karapace's order", "null subject", "new member", "default context"],
)
def test_other_spellings_are_read(written, key):
    assert records.decode_key(written) == key


@pytest.mark.parametrize(
    "written",
    [
        *(b"", b"x", b"[]", b"{}", b"\xff", b'{"keytype":"ASSOC"}', b'{"keytype":"SCHEMA","magic":1}'),
        b'{"keytype":"CONTEXT"}',
        b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":2}',
        b'{"keytype":"SCHEMA","subject":"a","version":"1","magic":1}',
        b'{"keytype":"SCHEMA","subject":"a","version":2147483648,"magic":1}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_key_is_refused(written):
    with pytest.raises(ValueError, match=r"."):
        records.decode_key(written)


def test_schemas_are_written_as_confluent_does():
    record = SchemaRecord(
        *("a", 2, 7, "AVRO", '"string"'),
        references=(SchemaReference("x.Y", "b", 1),),
        metadata={"tags": {"a.b": ["PII"]}, "properties": {"k": "v"}, "sensitive": ["k"]},
        rule_set={"domainRules": [{"name": "r", "kind": "TRANSFORM", "mode": "WRITE", "disabled": False}]},
    )
    assert records.encode_schema(record) == (
        b'{"subject":"a","version":2,"id":7,"schemaType":"AVRO",'
        b'"references":[{"name":"x.Y","subject":"b","version":1}],'
        b'"metadata":{"tags":{"a.b":["PII"]},"properties":{"k":"v"},"sensitive":["k"]},'
        b'"ruleSet":{"domainRules":[{"name":"r","kind":"TRANSFORM","mode":"WRITE","disabled":false}]},'
        b'"schema":"\\"string\\"","deleted":false}'
    )


def test_schemas_read_back_as_they_were_written():
    record = SchemaRecord("a", 2, 7, "JSON", "{}", references=(SchemaReference("x", "b", 1),), deleted=True)
    read = records.decode_schema(records.encode_schema(record), 5)
    names = set(SchemaRecord.__slots__) - {"timestamp_ms"}
    assert {name: getattr(read, name) for name in names} == {name: getattr(record, name) for name in names}
    assert read.timestamp_ms == 5


def test_empty_texts_are_left_out_as_confluent_does():
    record = SchemaRecord("", 1, 1, "AVRO", "x", references=(SchemaReference("", "b", 1),))
    written = (
        b'{"version":1,"id":1,"schemaType":"AVRO","references":[{"subject":"b","version":1}],'
        b'"schema":"x","deleted":false}'
    )
    assert records.encode_schema(record) == written
    read = records.decode_schema(written)
    assert (read.subject, read.references, read.md5) == ("", record.references, record.md5)


def test_schemas_of_earlier_registries_have_no_type_and_may_lack_deleted():
    read = records.decode_schema(b'{"subject":"a","version":1,"id":1,"schema":"\\"int\\""}')
    assert (read.kind, read.deleted, read.references, read.metadata) == ("AVRO", False, (), None)


def test_the_hash_of_encrypted_metadata_is_kept():
    value = (
        b'{"subject":"a","version":1,"id":1,"md5":"AAECAwQFBgcICQoLDA0ODw==","schemaType":"AVRO",'
        b'"metadata":{"properties":{"__enc__":"true","k":"zzz"},"sensitive":["k"]},'
        b'"schema":"\\"int\\"","deleted":false}'
    )
    read = records.decode_schema(value)
    assert read.guid == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert records.encode_schema(read) == value


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"[]", b"{}", b'{"subject":"a","version":1,"id":1}'),
        b'{"subject":"a","version":1,"id":-1,"schema":"x"}',
        b'{"subject":"a","version":1,"id":1,"schema":"\\ud800"}',
        b'{"subject":"a","version":1,"id":1,"schema":"x","references":[{"name":"x"}]}',
        b'{"subject":"a","version":1,"id":1,"schema":"x","references":["x"]}',
        b'{"subject":"a","version":1,"id":1,"schema":"x","references":{"a":1}}',
        b'{"subject":"a","version":1,"id":1,"schema":"x","metadata":[]}',
        b'{"subject":"a","version":1,"id":1,"schema":"x","ruleSet":{"domainRules":[{"mode":"SIDEWAYS"}]}}',
        b'{"subject":"a","version":1,"id":1,"schema":"x","md5":"AAEC"}',
    ],
)
def test_what_is_no_schema_is_refused(value):
    with pytest.raises(ValueError, match=r"."):
        records.decode_schema(value)


def test_configs_modes_and_the_rest_are_written_as_confluent_does():
    config = {"compatibilityLevel": "FULL", "alias": "b", "normalize": True, "compatibilityGroup": ""}
    assert records.encode_config("a", config) == (
        b'{"subject":"a","alias":"b","normalize":true,"compatibilityLevel":"FULL"}'
    )
    assert records.encode_config(None, {}) == b"{}"
    assert records.encode_mode(None, "IMPORT") == b'{"mode":"IMPORT"}'
    assert records.encode_mode("a", "IMPORT") == b'{"subject":"a","mode":"IMPORT"}'
    assert records.encode_delete_subject("a", 3) == b'{"subject":"a","version":3}'
    assert records.encode_clear_subject(None) == b"{}"
    assert records.encode_context(".c") == b'{"tenant":"default","context":".c"}'


def test_the_highest_ids_are_read_back_and_nothing_else_is_taken_for_them():
    assert records.decode_max_ids(records.encode_max_ids({".": 7, ".c": 1})) == {".": 7, ".c": 1}
    assert records.decode_max_ids(b"x") == {}
    assert records.decode_max_ids(b'{"maxIds":[]}') == {}
    assert records.decode_max_ids(b'{"maxIds":{".":true,".a":"1",".b":0,".c":2}}') == {".c": 2}
