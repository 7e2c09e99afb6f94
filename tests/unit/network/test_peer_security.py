"""Connections to listeners of other nodes with TLS and SASL."""

import asyncio
import datetime
import logging

import pytest

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.network.broker_addresses import (
    check_peer_security,
    controller_security,
    inter_broker_security,
)
from bowstring.engine.network.connection import NoAnswerError, PeerConnection
from bowstring.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from tests.support.certificates import authority, client_identity, foreign_authority
from tests.support.secured_double import JAAS, PASSWORD, SecuredDouble, node_identity, secured
from tests.support.waiting import FOR_EVER_S, pause_async

TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority().certificate.decode()}
LOGIN = {
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.inner.plain.sasl.jaas.config": JAAS,
}
KEYS = {
    "listener.name.inner.ssl.keystore.type": "PEM",
    "listener.name.inner.ssl.keystore.key": client_identity().key.decode(),
    "listener.name.inner.ssl.keystore.certificate.chain": client_identity().certificate.decode(),
}


def configs(protocol, **settings):
    return BrokerConfigs(
        {
            "inter.broker.listener.name": "INNER",
            "listener.security.protocol.map": f"INNER:{protocol},CONTROLLER:PLAINTEXT",
        }
        | settings
    )


def exchanging(double, settings, scenario=None, timeout_s=FOR_EVER_S):
    """Runs a scenario, by default one exchange, over a connection to the double."""
    security = inter_broker_security(settings)
    assert security is not None

    async def all_of_it():
        async with secured(double):
            connection = PeerConnection(double.host, double.port, "test", security)
            try:
                if scenario is not None:
                    await scenario(connection)
                else:
                    await ask(connection, timeout_s)
            finally:
                connection.close()

    asyncio.run(all_of_it())


async def ask(connection, timeout_s=FOR_EVER_S):
    answer, _ = await connection.exchange(DescribeQuorumRequest(), (0, 2), timeout_s)
    assert answer == DescribeQuorumResponse()


def answering(request):
    return DescribeQuorumResponse()


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_each_protocol(protocol):
    identity = node_identity() if protocol.endswith("SSL") else None
    double = SecuredDouble(answering, identity=identity)
    needed = (TRUST if identity else {}) | (LOGIN if protocol.startswith("SASL") else {})

    async def scenario(connection):
        for _ in range(3):
            await ask(connection)

    exchanging(double, configs(protocol, **needed), scenario)
    assert double.accepted == 1
    assert len(double.logins) == protocol.startswith("SASL")


def test_a_node_presents_the_key_store_of_the_listener():
    trusted = authority().certificate
    double = SecuredDouble(answering, identity=node_identity(), trusted=trusted)
    exchanging(double, configs("SSL", **TRUST, **KEYS))


def test_a_login_is_renewed_before_it_ends():
    double = SecuredDouble(answering, lifetime_ms=1)

    async def scenario(connection):
        for _ in range(3):
            await ask(connection)
            await pause_async(0.002, "the session's time passes")

    exchanging(double, configs("SASL_PLAINTEXT", **LOGIN), scenario)
    assert len(double.logins) == 3


def test_a_connection_that_was_closed_while_idle_is_made_again():
    double = SecuredDouble(answering, identity=node_identity())

    async def scenario(connection):
        await ask(connection)
        for transport in list(double.transports):
            transport.close()
        await pause_async(0.05, "the end arrives")
        await ask(connection)

    double.transports = []
    serve = double.serve

    async def noting(reader, writer):
        double.transports.append(writer.transport)
        await serve(reader, writer)

    double.serve = noting
    exchanging(double, configs("SSL", **TRUST), scenario)
    assert double.accepted == 2


@pytest.mark.parametrize("has_tls", [False, True])
def test_a_close_ends_the_wait_for_an_answer(has_tls):
    double = SecuredDouble(identity=node_identity() if has_tls else None)
    settings = configs("SASL_SSL", **TRUST, **LOGIN) if has_tls else configs("SASL_PLAINTEXT", **LOGIN)

    async def scenario(connection):
        waiting = asyncio.ensure_future(ask(connection))
        await double.until_asked(3)
        connection.close()
        with pytest.raises(NoAnswerError):
            await waiting

    exchanging(double, settings, scenario)


LATE = {"valid_from": datetime.timedelta(days=-9), "valid_for": datetime.timedelta(days=8)}


@pytest.mark.parametrize(
    ("double", "settings", "complaint"),
    [
        ({"identity": "foreign"}, TRUST, "ssl.truststore"),
        ({"identity": "late"}, TRUST, "expired"),
        ({"identity": "elsewhere"}, TRUST, "subjectAltName"),
        ({"identity": "node", "trusted": "any"}, TRUST, "trusts this node's certificate"),
        ({"identity": "node"}, TRUST | LOGIN | {"protocol": "SASL_PLAINTEXT"}, "sasl"),
        ({}, LOGIN | {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, "sasl.username is missing"),
        (
            {},
            LOGIN | {"listener.name.inner.plain.sasl.jaas.config": JAAS.replace(PASSWORD, "a known secret")},
            "Authentication failed",
        ),
    ],
)
def test_why_there_is_no_connection(double, settings, complaint, caplog):
    identities = {
        "node": node_identity(),
        "late": node_identity(**LATE),
        "elsewhere": authority().identity("node", ("elsewhere.example",)),
        "foreign": foreign_authority().identity("node", (SecuredDouble().host,)),
        None: None,
    }
    trusted = authority().certificate if "trusted" in double else None
    made = SecuredDouble(answering, identity=identities[double.get("identity")], trusted=trusted)
    protocol = "SASL_PLAINTEXT" if settings.keys() & LOGIN.keys() else "SSL"
    needed = {name: text for name, text in settings.items() if name != "protocol"}

    async def scenario(connection):
        for _ in range(3):
            with pytest.raises(NoAnswerError, match=complaint) as failure:
                await ask(connection, 5)
            assert "a known secret" not in str(failure.value)

    with caplog.at_level(logging.ERROR):
        exchanging(made, configs(protocol, **needed), scenario)
    said = [each.getMessage() for each in caplog.records if "no secured connection" in each.getMessage()]
    may_pass = "trusted" in double or "protocol" in settings  # the node closes the connection
    assert len(said) == (not may_pass)
    assert "a known secret" not in caplog.text


def test_a_node_that_never_ends_its_handshake_costs_the_timeout_only():
    silent = SecuredDouble(answering)
    silent.serve = lambda reader, writer: pause_async(FOR_EVER_S, "the node says nothing")

    async def scenario(connection):
        with pytest.raises(NoAnswerError):
            await ask(connection, 0.2)

    exchanging(silent, configs("SSL", **TRUST), scenario)


def test_host_names_need_not_match_without_an_algorithm():
    double = SecuredDouble(answering, identity=authority().identity("node", ("elsewhere.example",)))
    exchanging(double, configs("SSL", **TRUST, **{"ssl.endpoint.identification.algorithm": ""}))


def test_a_replaced_file_counts_for_new_connections(tmp_path):
    trust = tmp_path / "trust.pem"
    trust.write_bytes(foreign_authority().certificate)
    double = SecuredDouble(answering, identity=node_identity())
    settings = configs("SSL", **{"ssl.truststore.type": "PEM", "ssl.truststore.location": str(trust)})

    async def scenario(connection):
        with pytest.raises(NoAnswerError):
            await ask(connection)
        trust.write_bytes(authority().certificate + b"\n")
        await ask(connection)

    exchanging(double, settings, scenario)


def test_plain_listeners_need_nothing():
    assert inter_broker_security(BrokerConfigs({})) is None
    assert controller_security(BrokerConfigs({}), "CONTROLLER") is None


def test_controllers_have_a_mechanism_of_their_own():
    made = controller_security(
        BrokerConfigs(
            {
                "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "listener.name.controller.plain.sasl.jaas.config": JAAS,
            }
        ),
        "CONTROLLER",
    )
    assert made is not None
    assert made.settings()["sasl.mechanism"] == "PLAIN"
    made.check()


def test_a_login_without_a_user_is_refused_with_the_setting():
    made = inter_broker_security(configs("SASL_PLAINTEXT"))
    assert made is not None
    with pytest.raises(
        ConfigError, match=r"GSSAPI, .* no keytab; .*sasl.mechanism.inter.broker.protocol=GSSAPI"
    ):
        made.check()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (
            {"inter.broker.listener.name": "INNER", "security.inter.broker.protocol": "SSL"},
            "set only one of",
        ),
        ({"security.inter.broker.protocol": "SSL"}, "security.inter.broker.protocol names a listener SSL"),
        ({"inter.broker.listener.name": "INNER"}, "listeners has only PLAINTEXT"),
    ],
)
def test_contradictions_are_refused(settings, complaint):
    with pytest.raises(ConfigError, match=complaint):
        check_peer_security(BrokerConfigs(settings), "CONTROLLER", is_broker=True)


def test_key_files_that_become_unusable_leave_the_last_ones_in_force(tmp_path, caplog):
    store = tmp_path / "node.pem"
    whole = client_identity().certificate + client_identity().key
    store.write_bytes(whole)
    keys = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
    security = inter_broker_security(configs("SSL", **TRUST, **keys))
    used = security.client()
    store.write_bytes(whole[: len(whole) // 2])
    with caplog.at_level(logging.ERROR, "bowstring"):
        assert security.client() is used
        assert security.client() is used
    assert security.failed_reloads == 1
    (record,) = caplog.records
    assert "node.pem" in record.facts["detail"]
    store.write_bytes(whole + b"\n")
    assert security.client() is not used
    assert security.failed_reloads == 1


@pytest.mark.parametrize(
    ("location", "why"), [("/dev/zero", "is no regular file"), ("a\0b", "cannot be read: embedded null")]
)
def test_a_location_that_is_no_file_leaves_the_last_keys_in_force(tmp_path, caplog, location, why):
    """The control loop reads key files: a device would stop the node."""
    store = tmp_path / "node.pem"
    store.write_bytes(client_identity().certificate + client_identity().key)
    settings = configs("SSL", **TRUST, **{"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)})
    security = inter_broker_security(settings)
    used = security.client()
    settings.dynamic_broker = {"listener.name.inner.ssl.keystore.location": location}
    assert security.client() is used
    assert security.failed_reloads == 1
    (record,) = caplog.records
    assert why in record.facts["detail"]
