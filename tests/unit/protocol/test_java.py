"""Byte for byte and value for value what Kafka's own classes make of every message and version."""

import base64
import json
import random

import pytest

from bowstring.protocol import encode, format_uuid
from bowstring.protocol.errors import Errors
from bowstring.protocol.schema import ARRAY, BYTES, RECORDS, STRUCT, UUID, fields_of
from tests.support.declared_messages import all_messages, name_of, versions
from tests.support.example_messages import example
from tests.support.java_echo import java_echo

EXAMPLES = 6


@pytest.fixture(scope="module")
def answers():
    """(instance, bytes, Java's answer) by class name and version, and Java's error table, from one JVM."""
    cases = [
        (declared.__name__, version, instance)
        for declared in all_messages()
        for version in versions(declared)
        for seed in range(EXAMPLES)
        for instance in [declared() if seed == 0 else example(declared, version, random.Random(seed))]
    ]
    encoded = [encode(instance, version) for _, version, instance in cases]
    lines = [
        f"{name} {version} {data.hex()}" for (name, version, _), data in zip(cases, encoded, strict=True)
    ]
    errors, *replies = java_echo(["errors", *lines])
    found = {"errors": errors}
    for (name, version, instance), data, reply in zip(cases, encoded, replies, strict=True):
        found.setdefault((name, version), []).append((instance, data, reply))
    return found


@pytest.mark.parametrize("declared", all_messages(), ids=name_of)
def test_same_bytes_and_values(declared, answers):
    for version in versions(declared):
        for instance, data, reply in answers.get((declared.__name__, version), []):
            written, _, text = reply.partition(" ")
            assert written == data.hex(), f"version {version}: {instance} is {reply}"
            check_values(instance, json.loads(text), version)


def check_values(struct, theirs, version):
    """Each value in Java's JSON is ours under the same name; what it leaves out has its default here."""
    theirs = {name.lower(): value for name, value in theirs.items()}
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        name = field.name.replace("_", "")
        if name in theirs:
            check_value(field, value, theirs.pop(name), version)
        elif field.kind == RECORDS and f"{name}sizeinbytes" in theirs:
            assert theirs.pop(f"{name}sizeinbytes") == len(value or b"")
        else:
            assert value == field.default or value in ([], field.struct and field.struct()), field.name
    assert not theirs, f"fields that {type(struct).__name__} lacks in version {version}"


def check_value(field, ours, theirs, version):
    if field.kind == ARRAY and ours is not None:
        assert len(ours) == len(theirs), field.name
        for one, other in zip(ours, theirs, strict=True):
            check_plain(field, field.element, one, other, version)
    else:
        check_plain(field, field.kind, ours, theirs, version)


def check_plain(field, kind, ours, theirs, version):
    if ours is None:
        assert theirs is None, field.name
    elif kind == STRUCT:
        check_values(ours, theirs, version)
    elif kind == RECORDS:
        pass  # Java's converter writes their length or nothing; the bytes were compared
    elif kind == BYTES:
        assert ours == base64.b64decode(theirs), field.name
    elif kind == UUID:
        assert format_uuid(ours) == theirs, field.name
    else:
        assert ours == theirs, field.name


def test_errors(answers):
    ours = [f"{e.code}:{e.name}:{str(e.retriable).lower()}" for e in Errors.BY_CODE.values()]
    assert sorted(ours) == sorted(answers["errors"].split(" "))
