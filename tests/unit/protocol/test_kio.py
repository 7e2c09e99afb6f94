"""Byte for byte what the PyPI package kio reads and writes, for every class and version it has."""

import importlib
import io
import random

import pytest
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from bowstring.protocol import encode
from bowstring.protocol.errors import Errors
from bowstring.protocol.schema import Request, fields_of
from tests.support.declared_messages import name_of, requests_and_responses, structs_in, versions
from tests.support.example_messages import example

EXAMPLES = 4
CODES = sorted(code for code in Errors.BY_CODE if code <= max(ErrorCode))
# What Kafka 4.4 added and kio does not have yet.
NEWER_APIS = {93, 94}
NEWER_VERSIONS = {18: 5, 28: 6, 42: 3, 88: 1, 89: 1}


def kio_class(declared, version):
    kind = "request" if issubclass(declared, Request) else "response"
    module = declared.__module__.rpartition(".")[2]
    return getattr(importlib.import_module(f"kio.schema.{module}.v{version}.{kind}"), declared.__name__)


def keep_to_what_kio_has_types_for(instance, version):
    """kio turns error codes into an enum, and durations and timestamps into Python's, which end earlier."""
    for struct in structs_in(instance, version):
        for field in fields_of(type(struct)):
            value = getattr(struct, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value == field.default:
                continue
            if field.name.endswith("error_code"):
                setattr(struct, field.name, CODES[value % len(CODES)])
            elif field.name.endswith("_ms") or "timestamp" in field.name:
                setattr(struct, field.name, value % 10**9)


def known_to_kio():
    return [each for each in requests_and_responses() if each.api_key not in NEWER_APIS]


@pytest.mark.parametrize("declared", known_to_kio(), ids=name_of)
def test_same_bytes(declared):
    for version in versions(declared):
        if version == NEWER_VERSIONS.get(declared.api_key):
            continue
        theirs = kio_class(declared, version)
        read, write = entity_reader(theirs), entity_writer(theirs)
        for seed in range(EXAMPLES):
            instance = example(declared, version, random.Random(seed))
            keep_to_what_kio_has_types_for(instance, version)
            data = encode(instance, version)
            entity, size = read(data, 0)
            written = io.BytesIO()
            write(written, entity)
            assert (size, written.getvalue()) == (len(data), data), f"version {version}, seed {seed}"
