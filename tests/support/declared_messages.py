"""Every message class the project declares."""

import inspect
from importlib import import_module

from bowstring.protocol import API_VERSIONS, Message
from bowstring.protocol.headers import RequestHeader, ResponseHeader
from bowstring.protocol.records import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from bowstring.protocol.schema import (
    CoordinatorKey,
    CoordinatorValue,
    MetadataRecord,
    Request,
    Response,
    Struct,
    fields_of,
    versions_of,
)

_BASES = {Message, Request, Response, CoordinatorKey, CoordinatorValue, MetadataRecord}


def requests_and_responses():
    return [kind for key in API_VERSIONS for kind in (API_VERSIONS[key].request, API_VERSIONS[key].response)]


def record_classes():
    found = [
        kind
        for topic in (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE)
        for record_type in topic
        for kind in topic[record_type]
    ]
    for name in ("control", "consumer_protocol", "principal"):
        module = import_module(f"bowstring.protocol.records.{name}")
        found += [
            kind
            for _, kind in inspect.getmembers(module, inspect.isclass)
            if issubclass(kind, Message) and kind not in _BASES
        ]
    return found + list(CLUSTER_METADATA.values())


def all_messages():
    return [RequestHeader, ResponseHeader, *requests_and_responses(), *record_classes()]


def versions(declared):
    lowest, highest = versions_of(declared)
    return range(lowest, highest + 1)


def name_of(declared):
    return declared.__name__


def structs_in(instance, version):
    """Yields the instance itself and every struct inside it that `version` has."""
    yield instance
    for field in fields_of(type(instance)):
        if field.versions[0] <= version <= field.versions[1]:
            value = getattr(instance, field.name)
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, Struct):
                    yield from structs_in(item, version)
