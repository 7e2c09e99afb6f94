"""`bowstring cluster start --secure`: TLS, users and rules from the first start on, seen by others' clients."""

import contextlib
import os
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import pytest

import bowstring
from bowstring.clients.errors import ClientError
from tests.support.foreground import Started, port_for_three
from tests.support.waiting import HANG_S, wait_until

# Of alice; nothing may write it down.
PASSWORD = "apples-and-pears-7"


class Secure:
    """The cluster, with what a person does to it."""

    def __init__(self, directory: Path) -> None:
        self.security = directory / "security"
        self.port = port_for_three()
        self.process = Started(directory, self.port, "--secure")
        self.text = self.process.wait_for("other users trust")
        self.servers = re.findall(r"bootstrap servers: (\S+)", self.text)[0]

    def run(self, *arguments: str, stdin: str = "", user: str = "admin") -> subprocess.CompletedProcess[str]:
        environment = os.environ | {
            "BOWSTRING_BOOTSTRAP_SERVERS": self.servers,
            "BOWSTRING_COMMAND_CONFIG": str(self.security / f"{user}.properties"),
            "NO_COLOR": "1",
        }
        return subprocess.run(
            [sys.executable, "-m", "bowstring", *arguments],
            input=stdin, env=environment, capture_output=True, text=True, timeout=HANG_S, check=False,
        )  # fmt: skip

    def must(self, *arguments: str, stdin: str = "") -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def settings(self, user: str, password: str) -> dict[str, str | int | float | bool]:
        return {
            "bootstrap.servers": self.servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.security / "ca.pem"),
        }


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    cluster = Secure(tmp_path_factory.mktemp("secure"))
    yield cluster
    assert cluster.process.stop() == 0, cluster.process.text


def produce(settings: dict[str, str | int | float | bool], topic: str) -> confluent_kafka.KafkaError | None:
    """Produces a record with confluent-kafka; returns why that failed."""
    found: list[confluent_kafka.KafkaError | None] = []
    producer = confluent_kafka.Producer(settings | {"message.timeout.ms": int(HANG_S * 1000), "acks": "all"})
    producer.produce(topic, b"2 apples", callback=lambda error, _: found.append(error))
    producer.flush(HANG_S)
    return found[0]


def test_a_user_may_do_what_rules_say_and_nothing_else(secure: Secure) -> None:
    secure.must("topics", "create", "orders", "--partitions", "3", "--replication-factor", "3")
    secure.must("topics", "create", "secret")
    assert "logs in with SCRAM-SHA-512" in secure.must(
        "users", "add", "alice", "--password-stdin", stdin=f"{PASSWORD}\n"
    )
    alice = secure.settings("alice", PASSWORD)
    assert "User:alice may write" in secure.must(
        "acls", "add", "--allow", "alice", "--producer", "--topic", "orders"
    )
    wait_until(lambda: produce(alice, "orders") is None, "alice may not write")
    refused = produce(alice, "secret")
    assert refused is not None
    assert refused.code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED, refused
    secure.must("acls", "add", "--allow", "alice", "--consumer", "--topic", "orders", "--group", "readers")
    consumer = confluent_kafka.Consumer(alice | {"group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    record = consumer.poll(HANG_S)
    assert record is not None and record.error() is None and record.value() == b"2 apples"
    consumer.close()
    seen = confluent_kafka.admin.AdminClient(alice).list_topics(timeout=HANG_S).topics
    assert set(seen) == {"orders"}
    explained = secure.run("acls", "explain", "alice", "write", "topic:secret")
    assert explained.returncode == 1 and "User:alice may not write topic secret" in explained.stdout
    assert "super.users" in secure.must("acls", "explain", "admin", "write", "topic:secret")


def test_strangers_stay_outside(secure: Secure) -> None:
    host, _, port = secure.servers.split(",")[0].rpartition(":")
    with pytest.raises(ClientError):
        bowstring.Admin(secure.servers, timeout_ms=3000).topics()
    wrong = secure.settings("admin", "not the password")
    with pytest.raises(ClientError, match=r"(?i)authentication"):
        bowstring.Admin(wrong, timeout_ms=int(HANG_S * 1000)).topics()
    # The controllers' port wants a certificate, too.
    context = ssl.create_default_context(cafile=secure.security / "ca.pem")
    with (
        pytest.raises(OSError, match=r"(?i)certificate|alert|reset|EOF"),
        socket.create_connection((host, secure.port + 100), HANG_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as shaken,
    ):
        shaken.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
        if not shaken.recv(4):
            raise ConnectionResetError("reset")
    assert int(port) == secure.port


def test_no_password_is_seen_from_outside(secure: Secure) -> None:
    """After all of the above, also in the metadata log, temporary files and what the clients printed."""
    texts = [secure.text.encode()]
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            texts.append(process.read_bytes())
    texts.append(secure.must("configs", "describe", "--broker", "1", "--all", "--json").encode())
    texts.append(secure.must("users", "list").encode())
    secrets = re.findall(r'": "([\w-]{32})"', (secure.security / "passwords.json").read_text())
    assert len(secrets) == 2
    # Passwords of nodes are where the operator reads them; those of users are nowhere.
    given = {secure.security / "passwords.json", *secure.security.glob("*.properties")}
    folder = secure.security.parent
    given.update(folder.glob("node-*/server.properties"))
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any("__cluster_metadata" in str(path) for path in files)
    for path in files:
        text = path.read_bytes()
        assert PASSWORD.encode() not in text, path
        texts += [] if path in given else [text]
    assert not any(secret.encode() in text for secret in (PASSWORD, *secrets) for text in texts)
    for path in folder.glob("node-*/server.properties"):
        assert path.stat().st_mode & 0o077 == 0 and path.parent.stat().st_mode & 0o077 == 0
