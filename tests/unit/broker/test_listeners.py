"""Listeners: parsed, checked, advertised."""

import pytest

from bowstring.engine.broker.listeners import (
    Listener,
    advertised_listeners,
    client_listeners,
    parse_listener,
)
from bowstring.engine.configs import BrokerConfigs, ConfigError


def test_a_listener_is_name_host_and_port():
    assert parse_listener("PLAINTEXT://:9092") == ("PLAINTEXT", "", 9092)
    assert parse_listener("external://example.org:0") == ("EXTERNAL", "example.org", 0)
    assert parse_listener("PLAINTEXT://[::1]:9092") == ("PLAINTEXT", "::1", 9092)


@pytest.mark.parametrize(
    "text", ["", "9092", "PLAINTEXT:9092", "PLAINTEXT://h", "PLAINTEXT://h:x", "A://h:70000"]
)
def test_what_is_no_listener_is_named(text):
    with pytest.raises(ConfigError, match="is not a listener"):
        parse_listener(text)


def test_kafkas_own_example_file_has_one_client_listener():
    configs = BrokerConfigs(
        {
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        }
    )
    listeners = client_listeners(configs)
    assert listeners == [Listener("PLAINTEXT", "", 9092)]
    assert advertised_listeners(configs, listeners) == [Listener("PLAINTEXT", "localhost", 9092)]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"listeners": "A://:1,A://:2"}, "two listeners are called A"),
        ({"listeners": "CLIENTS://:1"}, "add CLIENTS:PLAINTEXT"),
        ({"listeners": "SSL://:1"}, "only PLAINTEXT is there so far"),
        ({"listeners": "CONTROLLER://:1"}, "none is left for clients"),
    ],
)
def test_listeners_that_cannot_be_are_refused(settings, message):
    if "A://" in settings["listeners"]:
        settings["listener.security.protocol.map"] = "A:PLAINTEXT"
    with pytest.raises(ConfigError, match=message):
        client_listeners(BrokerConfigs(settings))


def test_what_is_bound_is_advertised_unless_told_otherwise():
    bound = [Listener("PLAINTEXT", "127.0.0.1", 40000)]
    assert advertised_listeners(BrokerConfigs(), bound) == bound
    elsewhere = BrokerConfigs({"advertised.listeners": "PLAINTEXT://example.org:1"})
    assert advertised_listeners(elsewhere, bound) == [Listener("PLAINTEXT", "example.org", 1)]
    same_port = BrokerConfigs({"advertised.listeners": "PLAINTEXT://example.org:0"})
    assert advertised_listeners(same_port, bound) == [Listener("PLAINTEXT", "example.org", 40000)]
    assert advertised_listeners(BrokerConfigs(), [Listener("PLAINTEXT", "", 5)])[0].host != ""


@pytest.mark.parametrize(
    "text, message",
    [("OTHER://h:1", "OTHER is not among listeners"), ("PLAINTEXT://0.0.0.0:1", "no address to reach")],
)
def test_what_cannot_be_advertised_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        advertised_listeners(
            BrokerConfigs({"advertised.listeners": text}), [Listener("PLAINTEXT", "127.0.0.1", 40000)]
        )
