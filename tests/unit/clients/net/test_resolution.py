"""How long clients wait for names of bootstrap servers that do not resolve (KIP-909)."""

import socket
import threading

import pytest

import bowstring
from bowstring.clients.errors import BootstrapResolutionError, ConfigError, NoBrokerError
from tests.support.addresses import own_address
from tests.support.fake_broker import FakeBroker
from tests.support.waiting import FOR_EVER_MS, HANG_S

NOWHERE = "nowhere.invalid:9092,elsewhere.invalid:9092"
CLIENTS = {
    "Producer": bowstring.Producer,
    "Consumer": bowstring.Consumer,
    "ShareConsumer": lambda servers, **options: bowstring.ShareConsumer(servers, group_id="g", **options),
    "Admin": bowstring.Admin,
}


@pytest.fixture
def names(monkeypatch):
    """Names that resolve to this machine; others do not resolve."""
    known = {own_address()}
    resolve = socket.getaddrinfo

    def look_up(host, port, *args, **options):
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(own_address(), port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


@pytest.mark.parametrize("make", CLIENTS.values(), ids=CLIENTS)
def test_with_0_names_are_looked_up_when_the_client_is_made(names, make):
    with pytest.raises(
        ConfigError, match=r"no name of bootstrap_servers resolves \(nowhere.invalid: Name or"
    ):
        make(NOWHERE, bootstrap_resolve_timeout_ms=0)
    with FakeBroker() as broker:
        make(f"nowhere.invalid:1,{broker.bootstrap}", bootstrap_resolve_timeout_ms=0).close()


@pytest.mark.parametrize("make", CLIENTS.values(), ids=CLIENTS)
def test_clients_are_made_without_looking_names_up(names, make):
    make(NOWHERE).close()
    make(NOWHERE, bootstrap_resolve_timeout_ms=60_000).close()


def test_calls_fail_for_good_when_time_is_over(names):
    limit = {"bootstrap_resolve_timeout_ms": 50}
    with bowstring.Admin({"bootstrap.servers": NOWHERE, "bootstrap.resolve.timeout.ms": "50"}) as admin:
        for call in (admin.topics, lambda: admin.create_topic("t"), admin.topics):
            with pytest.raises(BootstrapResolutionError, match=r"\(nowhere.invalid, elsewhere.invalid\)"):
                call()
            names.add("nowhere.invalid")
    names.clear()
    with bowstring.Producer(NOWHERE, **limit) as producer:
        for _ in range(2):
            with pytest.raises(BootstrapResolutionError, match=r"within 0\.05 s"):
                producer.send("t", b"v")
    with bowstring.Consumer(NOWHERE, **limit) as consumer:
        consumer.assign([("t", 0)])
        for _ in range(2):
            with pytest.raises(BootstrapResolutionError):
                consumer.poll(timeout=HANG_S)


def test_a_name_that_resolves_in_time_is_used(names):
    with FakeBroker() as broker:
        servers = f"broker.invalid:{broker.port}"
        waits = {"bootstrap_resolve_timeout_ms": FOR_EVER_MS, "timeout_ms": int(HANG_S * 1000)}
        with bowstring.Admin(servers, **waits) as admin:
            threading.Timer(0.2, lambda: names.add("broker.invalid")).start()
            assert list(admin.topics()) == []


def test_a_name_that_resolves_to_nobody_is_no_failure_of_resolution(names):
    with socket.create_server((own_address(), 0)) as listener:
        host, port = listener.getsockname()
    waits = {"bootstrap_resolve_timeout_ms": 1, "timeout_ms": 200}
    with bowstring.Admin(f"{host}:{port}", **waits) as admin, pytest.raises(NoBrokerError):
        admin.topics()
