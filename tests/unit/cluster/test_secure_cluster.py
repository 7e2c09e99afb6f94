"""What `cluster start --secure` prepares: files that only their owner reads, and settings of nodes."""

import json
import stat

import pytest

from bowstring.cluster import layout
from bowstring.cluster.secure_cluster import SecureCluster
from bowstring.engine.configs import ConfigError

PLAIN = {
    "listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
}


def passwords(directory):
    return json.loads((directory / layout.SECURITY / layout.PASSWORDS).read_text())


def test_only_the_owner_reads_what_is_made(tmp_path):
    secure = SecureCluster(tmp_path)
    secure.write_environment("127.0.0.1:1,127.0.0.1:2")
    lines = secure.advice()
    folder = tmp_path / layout.SECURITY
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes.pop("ca.pem") == 0o644 and set(modes.values()) == {0o600}
    assert set(modes) == {"ca.key", "broker.pem", "passwords.json", "admin.properties", "admin.env"}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    secrets = passwords(tmp_path).values()
    assert not any(secret in text for secret in secrets for text in (*lines, str(vars(secure)["admin_file"])))
    assert "BOWSTRING_BOOTSTRAP_SERVERS=127.0.0.1:1,127.0.0.1:2\n" in (folder / "admin.env").read_text()


def test_no_listener_is_plain(tmp_path):
    settings = SecureCluster(tmp_path).settings(PLAIN)
    assert settings["listeners"] == "SASL_SSL://127.0.0.1:1,CONTROLLER://127.0.0.1:2"
    assert settings["listener.security.protocol.map"] == "SASL_SSL:SASL_SSL,CONTROLLER:SSL"
    assert settings["listener.name.controller.ssl.client.auth"] == "required"
    assert settings["super.users"] == "User:admin;User:broker"
    assert "allow.everyone.if.no.acl.found" not in settings


def test_a_later_start_has_the_same_users_and_authority(tmp_path):
    first = SecureCluster(tmp_path)
    before = passwords(tmp_path), (tmp_path / "security" / "ca.pem").read_bytes()
    again = SecureCluster(tmp_path)
    assert (passwords(tmp_path), (tmp_path / "security" / "ca.pem").read_bytes()) == before
    assert first.settings(PLAIN) == again.settings(PLAIN)
    options = again.format_options(None, "an-id")
    assert list(options.add_scram) == [
        f"SCRAM-SHA-512=[name={name},password={password}]" for name, password in before[0].items()
    ]
    assert not any(password in repr(options) for password in before[0].values())


def test_a_plain_cluster_does_not_become_secure_by_itself(tmp_path):
    node = tmp_path / "node-1"
    node.mkdir()
    (node / "server.properties").write_text("node.id=1\nprocess.roles=broker\n")
    with pytest.raises(ConfigError, match="has a cluster without security"):
        SecureCluster(tmp_path)


def test_damaged_passwords_are_named(tmp_path):
    SecureCluster(tmp_path)
    (tmp_path / "security" / "passwords.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"passwords.json does not have the passwords of admin and broker"):
        SecureCluster(tmp_path)
