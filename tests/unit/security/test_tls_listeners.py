"""Keys of TLS listeners: settings for each, replaced while the node runs, warned of before they expire."""

import logging
import os
from typing import NamedTuple

import pytest

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.security.tls_listeners import TlsListeners, client_auth
from bowstring.security.key_material import KeyMaterial
from tests.support.certificates import DAY, authority, server_identity

DAY_MS = 86_400_000


class Listener(NamedTuple):
    name: str
    protocol: str


TWO = (Listener("PLAINTEXT", "PLAINTEXT"), Listener("SECURE", "SSL"))


class FakePlane:
    def __init__(self):
        self.given = []

    def set_tls(self, listener, tls):
        self.given.append((listener, tls))


def pem(identity):
    return identity.certificate + identity.key


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "server.pem"
    path.write_bytes(pem(server_identity()))
    return path


@pytest.fixture
def plane():
    return FakePlane()


def made(key_file, listeners=TWO, *, must_authenticate=lambda index: False, **settings):
    settings = {name.replace("__", "."): value for name, value in settings.items()}
    configs = BrokerConfigs({"log.dirs": "/tmp/unused", "ssl.keystore.location": str(key_file), **settings})
    return configs, TlsListeners(configs, listeners, must_authenticate=must_authenticate)


def test_only_tls_listeners_have_keys(key_file):
    _, found = made(key_file)
    assert found.context(0) is None
    assert found.context(1).protocols == ("TLSv1.2", "TLSv1.3")
    assert list(found.valid_until_ms()) == ["SECURE"]


def test_settings_of_a_listener_come_first(key_file, tmp_path):
    other = tmp_path / "other.pem"
    other.write_bytes(pem(authority().identity("other")))
    _, found = made(
        key_file,
        (Listener("A", "SSL"), Listener("B", "SSL")),
        **{
            "listener.name.b.ssl.keystore.location": str(other),
            "listener.name.b.ssl.enabled.protocols": "TLSv1.3",
        },
    )
    assert found.context(0).certificate != found.context(1).certificate
    assert found.context(0).protocols == ("TLSv1.2", "TLSv1.3")
    assert found.context(1).protocols == ("TLSv1.3",)


@pytest.mark.parametrize(
    ("protocol", "settings", "wish"),
    [
        ("SSL", {}, "none"),
        ("SSL", {"ssl.client.auth": "required"}, "required"),
        ("SASL_SSL", {"ssl.client.auth": "required"}, "none"),
        ("SASL_SSL", {"listener.name.secure.ssl.client.auth": "required"}, "required"),
    ],
)
def test_client_authentication(protocol, settings, wish):
    configs = BrokerConfigs({"log.dirs": "/tmp/unused", **settings})
    assert client_auth(configs, Listener("SECURE", protocol)) == wish


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"ssl__keystore__location": "/nowhere.pem"}, r"listener SECURE: .*/nowhere\.pem cannot be read"),
        ({"ssl__client__auth": "required"}, r"SECURE: .*ssl\.truststore\.location"),
        ({"ssl__enabled__protocols": "TLSv1.1"}, "TLSv1.1' is not offered"),
        ({"ssl__cipher__suites": "RC4"}, "unknown, or too weak"),
    ],
)
def test_bad_settings_name_the_listener(key_file, settings, why):
    with pytest.raises(ConfigError, match=why):
        made(key_file, **settings)


class TestReload:
    def test_a_changed_file(self, key_file, plane):
        _, found = made(key_file)
        found.check(plane)
        assert plane.given == []
        key_file.write_bytes(pem(authority().identity()))
        found.check(plane)
        found.check(plane)
        assert plane.given == [(1, found.context(1))]
        assert found.reloads == 1

    def test_a_dynamic_setting_of_the_listener(self, key_file, plane, tmp_path):
        configs, found = made(key_file)
        other = tmp_path / "other.pem"
        other.write_bytes(pem(authority().identity()))
        configs.dynamic_broker = {"listener.name.secure.ssl.keystore.location": str(other)}
        found.check(plane)
        assert len(plane.given) == 1

    @pytest.mark.parametrize(
        ("content", "why"),
        [
            (b"half a file", "no PKCS12 key store"),
            (lambda: pem(authority().identity("renamed")), "ssl.allow.dn.changes"),
            (lambda: pem(authority().identity(names=("localhost",))), "ssl.allow.san.changes"),
            (lambda: pem(authority().identity(valid_from=-400 * DAY)), "expired"),
        ],
    )
    def test_what_is_not_acceptable_is_reported_once(self, key_file, plane, caplog, content, why):
        _, found = made(key_file)
        key_file.write_bytes(content if isinstance(content, bytes) else content())
        with caplog.at_level(logging.ERROR, "bowstring"):
            found.check(plane)
            found.check(plane)
        assert plane.given == []
        (record,) = caplog.records
        assert why in record.facts["detail"]
        key_file.write_bytes(pem(authority().identity()))
        found.check(plane)
        assert len(plane.given) == 1

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("ssl.client.auth", "required"),
            ("listener.name.secure.ssl.client.auth", "required"),
            ("ssl.enabled.protocols", "TLSv1.3"),
            ("ssl.cipher.suites", "TLS_AES_256_GCM_SHA384"),
        ],
    )
    def test_what_clients_must_do(self, key_file, plane, name, value):
        trusted = {"ssl.truststore.location": str(key_file)}
        configs, found = made(key_file, **trusted)
        configs.dynamic_broker = {name: value}
        found.check(plane)
        found.check(plane)
        assert [listener for listener, _ in plane.given] == [1]

    @pytest.mark.parametrize("must_authenticate", [False, True])
    def test_a_listener_is_not_opened_to_everyone(self, key_file, plane, caplog, must_authenticate):
        settings = {"ssl.truststore.location": str(key_file), "ssl.client.auth": "required"}
        configs, found = made(key_file, must_authenticate=lambda index: must_authenticate, **settings)
        configs.dynamic_broker = {"ssl.client.auth": "none"}
        found.check(plane)
        assert len(plane.given) == (0 if must_authenticate else 1)
        refused = [line for line in caplog.records if "not acceptable" in line.getMessage()]
        assert [("leave it at required" in line.facts["detail"]) for line in refused] == [
            True
        ] * must_authenticate

    def test_a_change_while_the_file_is_read_is_seen(self, key_file, plane, monkeypatch):
        read = KeyMaterial.of

        def read_and_replaced(settings):
            found = read(settings)
            key_file.write_bytes(pem(authority().identity()))
            monkeypatch.undo()
            return found

        monkeypatch.setattr(KeyMaterial, "of", read_and_replaced)
        _, found = made(key_file)
        before = found.context(1).certificate
        found.check(plane)
        assert found.context(1).certificate != before

    @pytest.mark.parametrize(
        ("content", "why"),
        [
            (None, "cannot be read"),
            (b"half a file", "no PKCS12 key store"),
            (lambda: server_identity().certificate + authority().identity().key, "does not belong"),
            (lambda: pem(authority().identity("renamed")), "ssl.allow.dn.changes"),
            (lambda: pem(authority().identity(names=("localhost",))), "ssl.allow.san.changes"),
        ],
    )
    def test_a_wanted_change_is_checked_before_it_is_made(self, key_file, plane, tmp_path, content, why):
        _, found = made(key_file)
        other = tmp_path / "other.pem"
        if content is not None:
            other.write_bytes(content if isinstance(content, bytes) else content())
        wanted = {"listener.name.secure.ssl.keystore.location": str(other)}
        with pytest.raises(ConfigError, match=f"listener SECURE: .*{why}"):
            found.check_change(wanted, {})
        other.write_bytes(pem(authority().identity()))
        found.check_change(wanted, {})
        found.check_change({"log.retention.ms": "5"}, {})
        found.check(plane)
        assert plane.given == []

    @pytest.mark.parametrize(
        ("location", "why"),
        [
            ("/dev/zero", "is no regular file"),
            ("PIPE", "is no regular file"),
            ("a\0b", "cannot be read: embedded null"),
            ("-----BEGIN PRIVATE KEY-----\nc2VjcmV0", "has a PEM text"),
        ],
    )
    def test_a_location_that_is_no_file_stops_nothing(self, key_file, plane, tmp_path, caplog, location, why):
        """Reading a pipe or a device would never end; the other listeners' keys are looked after."""
        if location == "PIPE":
            location = str(tmp_path / "pipe")
            os.mkfifo(location)
        configs, found = made(key_file, (Listener("BAD", "SSL"), Listener("SECURE", "SSL")))
        wanted = {"listener.name.bad.ssl.keystore.location": location}
        with pytest.raises(ConfigError, match=f"listener BAD: .*{why}") as error:
            found.check_change(wanted, {})
        assert "c2VjcmV0" not in str(error.value)
        configs.dynamic_broker = wanted
        key_file.write_bytes(pem(authority().identity()))
        found.check(plane)
        assert [listener for listener, _ in plane.given] == [1]
        (line,) = [line for line in caplog.records if "not acceptable" in line.getMessage()]
        assert why in line.facts["detail"]
        assert "c2VjcmV0" not in line.facts["detail"]

    def test_other_names_may_be_allowed(self, key_file, plane):
        _, found = made(key_file, ssl__allow__dn__changes="true", ssl__allow__san__changes="true")
        key_file.write_bytes(pem(authority().identity("renamed", ("example.org",))))
        found.check(plane)
        assert len(plane.given) == 1


@pytest.mark.parametrize(
    ("days_left", "stage"), [(31, None), (29, "30 days"), (6, "7 days"), (0.5, "1 days"), (-1, "has expired")]
)
def test_expiry_is_warned_of_once_for_each_stage(key_file, plane, caplog, days_left, stage):
    configs, found = made(key_file)
    (until_ms,) = found.valid_until_ms().values()
    found = TlsListeners(configs, TWO, clock=lambda: until_ms - int(days_left * DAY_MS))
    with caplog.at_level(logging.WARNING, "bowstring"):
        found.check(plane)
        found.check(plane)
    assert [stage in record.getMessage() for record in caplog.records] == ([True] if stage else [])
