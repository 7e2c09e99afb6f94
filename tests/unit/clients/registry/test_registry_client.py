"""The client of registries: answers that never come or never end, several addresses, log-ins, what is kept."""

import socket
import threading
import time

import pytest

from bowstring.clients.errors import ConfigError
from bowstring.clients.http_login import HttpLogin
from bowstring.clients.registry.registered_schema import RegisteredSchema
from bowstring.clients.registry.registry_client import RegistryClient
from bowstring.clients.registry.registry_errors import SchemaNotFoundError, SchemaRegistryError
from tests.support.addresses import own_address
from tests.support.schema_registry_double import basic, schema_registry
from tests.support.waiting import HANG_S

LONG = RegisteredSchema("AVRO", '"long"')


@pytest.fixture
def registry():
    with schema_registry() as double:
        yield double


@pytest.fixture(params=["silent", "endless"])
def stuck(request):
    """A server that accepts requests and does not answer, or not to the end."""
    ended = threading.Event()

    def serve(listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                if request.param == "endless":
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 999999\r\n\r\n")
                while not ended.wait(0.02):
                    try:
                        if request.param == "endless":
                            connection.sendall(b" ")
                    except OSError:
                        break

    with socket.create_server((own_address(), 0)) as listener:
        thread = threading.Thread(target=serve, args=[listener])
        thread.start()
        yield f"http://{own_address()}:{listener.getsockname()[1]}"
        ended.set()
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_a_registry_that_does_not_answer(stuck):
    client = RegistryClient(stuck, timeout_s=0.2)
    began = time.monotonic()
    with pytest.raises(SchemaRegistryError, match="check its address and that it runs") as caught:
        client.by_id(1)
    assert time.monotonic() - began < HANG_S and caught.value.status == 0
    with pytest.raises(SchemaRegistryError) as again:
        client.by_id(2)
    assert again.value is caught.value, "it is not asked again at once"


def test_the_next_address_answers(registry):
    number = registry.add("s", LONG.request())
    client = RegistryClient(f"http://{own_address()}:9, {registry.url}/", timeout_s=HANG_S)
    assert client.by_id(number)[:2] == client.by_id(number)[:2] == client.latest("s")[:2] == LONG[:2]
    assert sum("ids" in each for each in registry.requests) == 1
    assert client.look_up("s", LONG).version == 1 and client.register("t", LONG).schema_id == number
    with pytest.raises(SchemaNotFoundError) as caught:
        client.by_version("s", 7)
    assert (caught.value.status, caught.value.code) == (404, 40401)


def test_log_ins(registry):
    number = registry.add("s", LONG.request())
    registry.login = basic("ann@x", "p:w")
    where = registry.url.removeprefix("http://")
    for client in (
        RegistryClient(f"http://ann%40x:p%3Aw@{where}"),
        RegistryClient(registry.url, HttpLogin("ann@x", "p:w")),
    ):
        assert client.by_id(number).text == LONG.text and "p:w" not in f"{client!r} {client.address}"
    with pytest.raises(SchemaRegistryError, match="refuses the user") as caught:
        RegistryClient(registry.url, HttpLogin("ann@x", "s3cret")).by_id(number)
    assert "s3cret" not in str(caught.value)


def test_answers_that_are_none(registry):
    for status, body, words in ((200, 1, "something else"), (500, 50001, "HTTP 500"), (409, 409, "level")):
        registry.failure = (status, body, "why it is so")
        with pytest.raises(SchemaRegistryError, match=words):
            RegistryClient(registry.url).register("s", LONG)


@pytest.mark.parametrize(
    "address", ["registry:8081", "", "http://", "ftp://r", "http://u:s3cret@r:x", "file:///etc"]
)
def test_addresses_that_are_none(address):
    with pytest.raises(ConfigError, match="http://registry:8081") as caught:
        RegistryClient(address)
    assert "s3cret" not in str(caught.value)
