"""Listeners: parsed, checked, advertised."""

import pytest

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.requests.listeners import (
    Listener,
    advertised_listeners,
    client_listeners,
    is_loopback,
    parse_listener,
    told_elsewhere,
)

ALLOWED = {"bowstring.listen.unauthenticated": "true"}


def test_a_listener_is_name_host_and_port():
    assert parse_listener("PLAINTEXT://:9092") == ("PLAINTEXT", "", 9092)
    assert parse_listener("external://example.org:0") == ("EXTERNAL", "example.org", 0)
    assert parse_listener("PLAINTEXT://[::1]:9092") == ("PLAINTEXT", "::1", 9092)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9092",
        "PLAINTEXT:9092",
        "PLAINTEXT://h",
        "PLAINTEXT://h:x",
        "A://h:70000",
        "A://h:²",
        f"A://h:{'9' * 5000}",
    ],
)
def test_what_is_no_listener_is_named(text):
    with pytest.raises(ConfigError, match=r"^listeners: '.*' is not a listener"):
        parse_listener(text)
    with pytest.raises(ConfigError, match=r"^advertised.listeners: '.*' is not a listener"):
        parse_listener(text, "advertised.listeners")


def test_kafkas_own_example_file_has_one_client_listener():
    configs = BrokerConfigs(
        {
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            **ALLOWED,
        }
    )
    listeners = client_listeners(configs)
    assert listeners == [Listener("PLAINTEXT", "", 9092)]
    assert advertised_listeners(configs, listeners) == [Listener("PLAINTEXT", "localhost", 9092)]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"listeners": "A://:1,A://:2", **ALLOWED}, "two listeners are called A"),
        ({"listeners": "CLIENTS://:1"}, "add CLIENTS:PLAINTEXT"),
        ({"listeners": "SSL://:1"}, r"ssl\.client\.auth=required"),
        ({"listeners": "CONTROLLER://:1"}, "has no listener for clients"),
    ],
)
def test_listeners_that_cannot_be_are_refused(settings, message):
    if "A://" in settings["listeners"]:
        settings["listener.security.protocol.map"] = "A:PLAINTEXT"
    with pytest.raises(ConfigError, match=message):
        client_listeners(BrokerConfigs(settings))


@pytest.mark.parametrize(
    "host, loopback",
    [
        ("127.0.0.1", True),
        ("127.5.6.7", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("", False),
        ("0.0.0.0", False),
        ("::", False),
        ("10.1.2.3", False),
        ("::ffff:10.1.2.3", False),
        ("fe80::1", False),
        ("::1%lo", True),
        ("::%1", False),
        ("fe80::1%eth0", False),
        ("fe80::1%no-such-interface", False),
        ("no-such-name.invalid", True),  # nothing can listen there, and the attempt reports that
    ],
)
def test_what_is_loopback(host, loopback):
    assert is_loopback(host) is loopback


def test_the_default_is_loopback_and_all_interfaces_once_that_is_allowed():
    assert client_listeners(BrokerConfigs()) == [Listener("PLAINTEXT", "127.0.0.1", 9092)]
    configs = BrokerConfigs(ALLOWED)
    assert client_listeners(configs) == [Listener("PLAINTEXT", "", 9092)]
    assert configs.text("listeners") == "PLAINTEXT://:9092"


@pytest.mark.parametrize("text", ["PLAINTEXT://:9092", "PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://[::]:9092"])
def test_what_other_machines_reach_needs_a_word(text):
    only = {"listeners": f"PLAINTEXT://127.0.0.1:1,{text.replace('PLAINTEXT', 'OTHER')}"}
    both = only | {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"}
    for settings in ({"listeners": text}, both):
        with pytest.raises(ConfigError) as caught:
            client_listeners(BrokerConfigs(settings))
        (sentence,) = str(caught.value).splitlines()
        assert settings["listeners"].rpartition(",")[2] in sentence
        assert "--listen-unauthenticated" in sentence and "bowstring.listen.unauthenticated=true" in sentence
        assert client_listeners(BrokerConfigs(settings | ALLOWED))


def test_an_address_that_is_advertised_and_not_listened_on_is_found():
    def found(host, told):
        bound = [Listener("PLAINTEXT", host, 1)]
        return told_elsewhere(bound, [Listener("PLAINTEXT", told, 1)])

    assert found("127.0.0.1", "broker.example") == ["PLAINTEXT://broker.example:1"]
    assert found("localhost", "10.0.0.1")
    assert not found("127.0.0.1", "localhost")
    assert not found("127.0.0.1", "127.0.0.1")
    assert not found("127.0.0.1", "::1")
    assert not found("", "broker.example")


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
    [("OTHER://h:1", "OTHER is not among listeners"), ("PLAINTEXT://0.0.0.0:1", "clients cannot connect to")],
)
def test_what_cannot_be_advertised_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        advertised_listeners(
            BrokerConfigs({"advertised.listeners": text}), [Listener("PLAINTEXT", "127.0.0.1", 40000)]
        )
