"""Configs of listeners: their own values, and their security protocols."""

import pytest

from bowstring.engine.broker.broker import Broker
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.configs.listener_configs import (
    listener_protocol,
    listener_text,
    listener_value,
    misnamed,
)

JAAS = "sasl.jaas.config"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, None),
        ({JAAS: "all"}, "all"),
        ({JAAS: "all", f"listener.name.inner.{JAAS}": "its"}, "its"),
        ({f"listener.name.inner.{JAAS}": "its", f"listener.name.inner.plain.{JAAS}": "plain"}, "plain"),
        ({JAAS: "all", f"listener.name.outer.{JAAS}": "another"}, "all"),
    ],
)
def test_a_value_of_the_mechanism_comes_before_the_listener_s_and_that_before_the_broker_s(given, found):
    assert listener_text(BrokerConfigs(given), "INNER", JAAS, mechanism="PLAIN") == found


def test_a_listener_s_static_value_comes_before_a_dynamic_one_of_the_broker():
    configs = BrokerConfigs({"listener.name.inner.ssl.keystore.type": "PEM"})
    configs.set_dynamic({"ssl.keystore.type": "PKCS12"}, {})
    assert listener_text(configs, "INNER", "ssl.keystore.type") == "PEM"
    assert listener_text(configs, "OUTER", "ssl.keystore.type") == "PKCS12"


def test_a_value_is_typed():
    configs = BrokerConfigs({"listener.name.inner.ssl.enabled.protocols": "TLSv1.3, TLSv1.2"})
    assert listener_value(configs, "INNER", "ssl.enabled.protocols") == ["TLSv1.3", "TLSv1.2"]


@pytest.mark.parametrize(
    ("given", "protocol"),
    [
        ({}, "PLAINTEXT"),
        ({"controller.listener.names": "CONTROLLER,INNER"}, "PLAINTEXT"),
        ({"listener.security.protocol.map": "outer:SSL, inner:sasl_ssl"}, "SASL_SSL"),
    ],
)
def test_listeners_have_protocols(given, protocol):
    name = "CONTROLLER" if not given else "INNER"
    assert listener_protocol(BrokerConfigs(given), name) == protocol


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"listeners": "SSL://127.0.0.1:9092"}, "no security protocol for CONTROLLER"),
        ({"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"}, "no security protocol for CONTROLLER"),
        (
            {"listener.security.protocol.map": "CONTROLLER:TLS"},
            "TLS of CONTROLLER is not a security protocol",
        ),
    ],
)
def test_a_listener_without_a_protocol_is_refused(given, complaint):
    with pytest.raises(ConfigError, match=complaint):
        listener_protocol(BrokerConfigs(given), "CONTROLLER")


LISTENERS = {
    "listeners": "CLIENTS://:9092,CONTROLLER://:9093",
    "listener.security.protocol.map": "CLIENTS:SASL_SSL,CONTROLLER:SSL,ELSEWHERE:SSL",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "CLIENTS",
}


@pytest.mark.parametrize(
    "name",
    [
        "clients.ssl.keystore.location",
        "clients.scram-sha-256.sasl.jaas.config",
        "clients.sasl.jaas.config",
        "clients.plain.connections.max.reauth.ms",
        "controller.ssl.key.password",
        "elsewhere.ssl.keystore.location",  # of another node that has the same file
        "clients.max.connections",
    ],
)
def test_names_of_listeners_that_exist(name):
    assert misnamed(BrokerConfigs(LISTENERS | {f"listener.name.{name}": "1"})) == ([], [])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "cleints.ssl.keystore.location",
            "no listener has that name; the listeners are controller, clients, elsewhere",
        ),
        ("CLIENTS.ssl.keystore.location", "the name of the listener must be in lower case"),
        ("plaintext.sasl.jaas.config", "no listener has that name"),
        ("clients.scram-sha256.sasl.jaas.config", "scram-sha256 is not a SASL mechanism in lower case"),
        (
            "clients.PLAIN.sasl.jaas.config",
            "PLAIN is not a SASL mechanism in lower case; write listener.name.",
        ),
        ("clients.plain.ssl.keystore.location", "is not a SASL mechanism"),
        ("cleints.plain.connections.max.reauth.ms", "no listener has that name"),
    ],
)
def test_what_protects_is_refused_where_it_has_no_effect(name, message):
    (refused,), warned = misnamed(BrokerConfigs(LISTENERS | {f"listener.name.{name}": "1"}))
    assert refused.startswith(f"listener.name.{name} would have no effect: ") and message in refused
    assert warned == []


def test_other_configs_are_warned_of():
    refused, (warned,) = misnamed(BrokerConfigs(LISTENERS | {"listener.name.cleints.max.connections": "1"}))
    assert refused == [] and "no listener has that name" in warned


def test_a_node_does_not_start_with_them(tmp_path):
    settings = {"log.dirs": str(tmp_path), "listener.name.typo.ssl.keystore.location": "/etc/keys.pem"}
    broker = Broker(settings)
    with pytest.raises(ConfigError, match=r"listener.name.typo.ssl.*the listeners are controller, plaintext"):
        broker.open()
