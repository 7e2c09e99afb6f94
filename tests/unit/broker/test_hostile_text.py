"""Whatever clients write into their requests, a line of the log is one line and moves no terminal's cursor."""

import io
import logging

import pytest

from bowstring.engine.event_log import LOGGER, JsonFormatter, TextFormatter
from bowstring.protocol import encode_request
from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.messages.metadata import MetadataRequest
from bowstring.protocol.schema import ARRAY, BYTES, RECORDS, STRING, STRUCT, fields_of
from bowstring.protocol.versions import API_VERSIONS
from tests.support.access import STANDARD
from tests.support.waiting import wait_until
from tests.support.wire_client import WireClient

EVIL = "x\x1b[2J\x07\x9b1m\u202e\r\n2026-01-31 12:00:00,123 ERROR forged"
WITHOUT = {ApiKeys.SASL_HANDSHAKE, ApiKeys.SASL_AUTHENTICATE}


def hostile(kind, version, depth=0):
    """A request, or a struct in it, with the text in each field that can have it."""
    values = {}
    for field in fields_of(kind):
        if not field.versions[0] <= version <= field.versions[1]:
            continue
        if field.kind == STRING:
            values[field.name] = EVIL
        elif field.kind == BYTES:
            values[field.name] = EVIL.encode()
        elif field.kind == STRUCT and depth < 6:
            values[field.name] = hostile(field.struct, version, depth + 1)
        elif field.kind == ARRAY and field.element == STRUCT and depth < 6:
            values[field.name] = [hostile(field.struct, version, depth + 1)]
        elif field.kind == ARRAY and field.element == STRING:
            values[field.name] = [EVIL]
        elif field.kind == RECORDS:
            values[field.name] = EVIL.encode()
    return kind(**values)


@pytest.fixture
def lines():
    """The log of a broker, as text and as JSON."""
    outputs = [io.StringIO(), io.StringIO()]
    handlers = [logging.StreamHandler(each) for each in outputs]
    for handler, formatter in zip(handlers, (TextFormatter(), JsonFormatter()), strict=True):
        handler.setFormatter(formatter)
        LOGGER.addHandler(handler)
    level = LOGGER.level
    LOGGER.setLevel(logging.DEBUG)
    yield lambda: [each.getvalue() for each in outputs]
    LOGGER.setLevel(level)
    for handler in handlers:
        LOGGER.removeHandler(handler)


class Clients:
    """Connections on which a request each has been sent; whatever the answer is."""

    def __init__(self, port):
        self._port = port
        self._open = []

    def send(self, key):
        api = API_VERSIONS[key]
        client = WireClient(self._port)
        client.send(encode_request(hostile(api.request, api.lowest), api.lowest, 1, EVIL))
        self._open.append(client)

    def close(self):
        """Ends the connections, once the broker has taken up all requests."""
        last = WireClient(self._port)
        last.ask(MetadataRequest(topics=[]))
        for client in (*self._open, last):
            client.close()


def check(lines):
    text, objects = lines()
    assert len(text) > 0
    for line in text.split("\n"):
        assert line.isprintable(), line
        assert not line.startswith("2026-01-31 12:00:00,123"), line
    assert all(line.isprintable() for line in objects.split("\n"))


def test_requests_of_every_api(serve, lines):
    served = serve(authorizer_class_name=STANDARD, super_users="User:ANONYMOUS")
    clients = Clients(served.broker.port)
    for key, api in sorted(API_VERSIONS.items()):
        if key not in WITHOUT and "broker" in api.served_by:
            clients.send(key)
    clients.close()
    served.stop()
    check(lines)


def test_denials(serve, lines):
    served = serve(authorizer_class_name=STANDARD, super_users="User:nobody")
    clients = Clients(served.broker.port)
    for key in (ApiKeys.FIND_COORDINATOR, ApiKeys.CREATE_ACLS, ApiKeys.CREATE_TOPICS, ApiKeys.PRODUCE):
        clients.send(key)
    wait_until(lambda: "denied" in lines()[0])
    clients.close()
    served.stop()
    check(lines)
