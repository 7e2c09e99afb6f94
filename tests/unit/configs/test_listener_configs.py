"""Configs of listeners: their own values, and their security protocols."""

import pytest

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.configs.listener_configs import listener_protocol, listener_text, listener_value

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
