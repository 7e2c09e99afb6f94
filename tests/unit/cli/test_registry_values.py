"""`bowstring produce` and `consume` with `--value registry`: JSON on lines, schemas in a registry."""

import json

import pytest

from tests.support.schema_registry_double import schema_registry

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "raw", "type": "bytes", "default": ""},
    ],
}
ORDER = {"id": 1, "at": "2026-01-31T12:00:00+00:00", "raw": "AAE="}


@pytest.fixture
def registry():
    with schema_registry() as double:
        yield double


def test_there_and_back(cli, new_topic, registry, tmp_path):
    topic, lines, schema = new_topic(), tmp_path / "lines", tmp_path / "order.avsc"
    lines.write_text(f"k1={json.dumps(ORDER)}\n")
    schema.write_text(json.dumps(SCHEMA))
    form = ("--value", "registry", "--schema-registry", registry.url)
    sent = cli("produce", topic, *form, "--value-schema", schema, "--file", lines, "-K", "=")
    assert sent.code == 0, sent.err
    registry.add(f"{topic}-key", {"schema": '"string"'})
    both = (*form, "--key-format", "registry")
    lines.write_text(f"k2={json.dumps(ORDER | {'id': 2})}\n")
    sent = cli("produce", topic, *both, "--file", lines, "-K", "=")
    assert sent.code == 0, sent.err
    shown = cli("consume", topic, *form, "-n", 2)
    assert [json.loads(line) for line in shown.lines] == [ORDER, ORDER | {"id": 2}], shown.err
    last = json.loads(cli("consume", topic, *both, "--from", 1, "--json").lines[0])
    assert (last["key"], last["value"]) == ("k2", ORDER | {"id": 2})
    again = tmp_path / "copy"
    again.write_text(json.dumps(last))
    sent = cli("produce", topic, *both, "--format", "json", "--file", again)
    assert sent.code == 0, sent.err
    assert json.loads(cli("consume", topic, *form, "--from", 2).lines[0]) == ORDER | {"id": 2}


def test_errors_name_the_line_and_the_registry(cli, new_topic, registry, tmp_path):
    topic, lines, schema = new_topic(), tmp_path / "lines", tmp_path / "order.avsc"
    schema.write_text(json.dumps(SCHEMA))
    form = ("--value", "registry", "--schema-registry", registry.url, "--file", lines)
    lines.write_text("{}\n")
    assert "give schema=" in cli("produce", topic, *form).err
    for text, words in (("{", "line 1 does not fit"), ('{"id": "x"}', "line 1 does not fit"), ("{}", "id")):
        lines.write_text(text + "\n")
        failed = cli("produce", topic, *form, "--value-schema", schema)
        assert failed.code != 0 and words in failed.err, failed.err
    assert "needs --value registry" in cli("produce", topic, "--value-schema", schema, "--file", lines).err
