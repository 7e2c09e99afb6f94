"""Connections to leaders with secured listeners: every order is answered."""

import asyncio
import socket
from types import SimpleNamespace

import pytest

from bowstring.engine.broker.follower_links import FollowerLinks
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import BrokerImage, Endpoint
from bowstring.engine.network.broker_addresses import inter_broker_security
from tests.support.secured_double import JAAS, PASSWORD, SecuredDouble, secured
from tests.support.waiting import FOR_EVER_S, wait_until_async

DIAL = (2, 0, 0, 1)


class Orders:
    """The data plane's side: one order, and its answers."""

    def __init__(self):
        self.dials, self.given, self.refused = [DIAL], [], []

    def take_dials(self):
        taken, self.dials = self.dials, []
        return taken

    def give_link(self, dial, fd, stream, *, renew_after_ms):
        self.given.append((dial, socket.socket(fileno=fd).getpeername()[1], stream, renew_after_ms))

    def refuse_dial(self, dial, why):
        self.refused.append((dial, why))


def answered(*, jaas=JAAS, listener="INNER", lifetime_ms=0, timeout_s=FOR_EVER_S, serve=None, leaders=(2,)):
    """Carries one order out; returns its answers and the port of the leader."""
    orders, double = Orders(), SecuredDouble(lifetime_ms=lifetime_ms)
    double.serve = serve or double.serve
    configs = BrokerConfigs(
        {
            "inter.broker.listener.name": "INNER",
            "listener.security.protocol.map": "INNER:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.inner.plain.sasl.jaas.config": jaas,
        }
    )

    async def all_of_it():
        async with secured(double):
            endpoints = (Endpoint(listener, double.host, double.port, 2),)
            brokers = {
                id: BrokerImage(id, 7, b"", endpoints, None, fenced=False, directories=()) for id in leaders
            }
            metadata = SimpleNamespace(image=SimpleNamespace(brokers=brokers))
            links = FollowerLinks(orders, metadata, inter_broker_security(configs), timeout_s)
            links.look()
            await wait_until_async(lambda: orders.given or orders.refused)
            await links.stop()

    asyncio.run(all_of_it())
    return orders, double.port


def test_a_connection_is_given_with_the_time_of_its_renewal():
    orders, port = answered(lifetime_ms=8000)
    ((dial, peer_port, stream, renew_after_ms),) = orders.given
    assert (dial, peer_port, stream) == (DIAL, port, None)
    assert 3000 <= renew_after_ms <= 4000
    assert orders.refused == []


def test_a_session_without_an_end_is_not_renewed():
    ((*_, renew_after_ms),) = answered()[0].given
    assert renew_after_ms == 0


async def silent(reader, writer):
    while await reader.read(1024):
        pass
    writer.close()


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({"jaas": JAAS.replace(PASSWORD, "another")}, "Authentication failed"),
        ({"listener": "OUTER"}, "it has no listener INNER"),
        ({"leaders": ()}, "it has no listener INNER"),
        (
            {"serve": silent, "timeout_s": 0.1},
            "it did not answer for 0.1 s",
        ),
    ],
)
def test_a_refusal_says_why(about, why):
    orders, _ = answered(**about)
    ((dial, said),) = orders.refused
    assert dial == DIAL and why in said
    assert orders.given == []


class Link:
    """One that cannot be given away: the leader has sent more than its answers."""

    has_more = True

    def __init__(self):
        self.closed = False

    def close(self):
        self.closed = True


@pytest.mark.parametrize("fails", [True, False])
def test_every_order_is_answered(fails):
    orders, link = Orders(), Link()

    async def connect(host, port, client_id):
        if fails:
            raise RuntimeError("a bug")
        return link

    async def all_of_it():
        brokers = {2: SimpleNamespace(endpoint=lambda name: Endpoint(name, "127.0.0.1", 1, 2))}
        security = SimpleNamespace(listener="INNER", connect=connect)
        metadata = SimpleNamespace(image=SimpleNamespace(brokers=brokers))
        links = FollowerLinks(orders, metadata, security, FOR_EVER_S)
        links.look()
        await wait_until_async(lambda: orders.refused)
        await links.stop()

    asyncio.run(all_of_it())
    assert [dial for dial, _ in orders.refused] == [DIAL]
    assert link.closed is not fails
