"""Who may use a registry whose clients log in as users of the broker: passwords, rules, certificates."""

import base64
import json
import ssl
import urllib.error
import urllib.request

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError

import bowstring
from bowstring.clients.admin.scram_users import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.support.certificates import authority
from tests.support.registry_command import RegistryCommand
from tests.support.registry_double import record_schema
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S

LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PASSWORDS = {"registry": "r-secret", "ann": "a-secret", "bob": "b-secret"}
RULES = """
[[rules]]
users = ["ann"]
subjects = ["orders-*"]
operations = ["read", "write"]
"""


@pytest.fixture(scope="module")
def broker():
    inner = steady_port()
    config = {
        "listeners": f"OUTER://127.0.0.1:0,INNER://127.0.0.1:{inner}",
        "listener.security.protocol.map": "OUTER:SASL_PLAINTEXT,INNER:PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    with bowstring.Broker(config=config) as broker:
        with bowstring.Admin(f"127.0.0.1:{inner}") as admin:
            scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
            users = [UserScramCredentialUpsertion(name, scram, word) for name, word in PASSWORDS.items()]
            admin.alter_user_scram_credentials(users)
        yield broker


@pytest.fixture(scope="module")
def registry(broker, tmp_path_factory):
    folder = tmp_path_factory.mktemp("registry")
    (folder / "rules.toml").write_text(RULES)
    (folder / "client.properties").write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        f'sasl.jaas.config={LOGIN} username="registry" password="r-secret";\n'
    )
    options = ("-b", f"127.0.0.1:{broker.port}", "--command-config", str(folder / "client.properties"))
    command = RegistryCommand(
        *options, "--sign-in", "--access-rules", str(folder / "rules.toml"), "--access-log"
    )
    assert command.url, command.text
    yield command
    command.stop()
    assert not any(secret in command.text for secret in PASSWORDS.values())
    assert "127.0.0.1 - ann [" in command.text


def status_of(url, user=None, password=None):
    request = urllib.request.Request(url)
    if user is not None:
        word = base64.b64encode(f"{user}:{password}".encode()).decode()
        request.add_header("Authorization", f"Basic {word}")
    try:
        with urllib.request.urlopen(request, timeout=HANG_S) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        assert json.load(error)["error_code"] in (401, 40301)
        return error.code


def test_users_of_the_broker_log_in(registry):
    url = f"{registry.url}/subjects"
    assert status_of(url) == 401
    assert status_of(url, "ann", "wrong") == 401
    assert status_of(url, "nobody", "x") == 401
    assert [status_of(url, "ann", PASSWORDS["ann"]) for _ in range(3)] == [200] * 3
    assert status_of(f"{registry.url}/metrics") == 200


def test_rules_say_what_a_user_may_do(registry):
    schema = Schema(record_schema("a"), "AVRO")
    ann = {"url": registry.url, "basic.auth.user.info": f"ann:{PASSWORDS['ann']}"}
    with SchemaRegistryClient(ann) as client:
        assert client.register_schema("orders-value", schema) == 1
        assert client.get_subjects() == ["orders-value"]
        with pytest.raises(SchemaRegistryError) as refusal:
            client.register_schema("payments", schema)
        assert refusal.value.error_code == 40301
    bob = {"url": registry.url, "basic.auth.user.info": f"bob:{PASSWORDS['bob']}"}
    with SchemaRegistryClient(bob) as client:
        assert client.get_subjects() == []
        with pytest.raises(SchemaRegistryError) as refusal:
            client.get_latest_version("orders-value")
        assert refusal.value.error_code == 40301


def test_a_wrong_user_of_the_registry_itself_is_named(broker):
    command = RegistryCommand(
        *("-b", f"127.0.0.1:{broker.port}"),
        BOWSTRING_SECURITY_PROTOCOL="SASL_PLAINTEXT",
        BOWSTRING_SASL_MECHANISM="SCRAM-SHA-256",
    )
    assert command.stop() == 1
    assert "user of its own" in command.text


def test_beside_a_broker_with_log_ins_clients_log_in(monkeypatch):
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    users = " ".join(f'user_{name}="{word}"' for name, word in PASSWORDS.items())
    config = {
        "listeners": "OUTER://127.0.0.1:0",
        "listener.security.protocol.map": "OUTER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "OUTER",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.outer.plain.sasl.jaas.config": (
            f'{login} username="registry" password="{PASSWORDS["registry"]}" {users};'
        ),
    }
    monkeypatch.setenv("BOWSTRING_SASL_USERNAME", "registry")
    monkeypatch.setenv("BOWSTRING_SASL_PASSWORD", PASSWORDS["registry"])
    with bowstring.Broker(config=config, registry=True) as broker:
        url = f"{broker.registry_url}/subjects"
        assert status_of(url) == 401
        assert status_of(url, "ann", "wrong") == 401
        assert status_of(url, "ann", PASSWORDS["ann"]) == 200


def test_certificates_say_who_clients_are(tmp_path):
    found = authority()
    server, client = found.identity(), found.identity("orders")
    files = {"ca": found.certificate, "server": server.certificate, "server-key": server.key}
    files |= {"client": client.certificate, "client-key": client.key}
    files["rules"] = (
        b'[[rules]]\nusers = ["CN=orders,O=Bowstring", "CN=localhost,O=Bowstring"]\nsubjects = ["*"]\noperations = ["all"]\n'
    )
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    options = ("--tls-certificate", "server", "--tls-key", "server-key", "--tls-client-authorities", "ca")
    paths = [each if each.startswith("--") else str(tmp_path / each) for each in options]
    with bowstring.Broker() as broker:
        command = RegistryCommand(
            *("-b", broker.bootstrap_servers, *paths, "--client-certificates", "requested"),
            *("--access-rules", str(tmp_path / "rules")),
        )
        assert command.url.startswith("https://"), command.text
        other = RegistryCommand(
            *("-b", broker.bootstrap_servers, *paths, "--client-certificates", "required", "--follower"),
            *("--leader-authorities", str(tmp_path / "ca")),
        )
        try:
            forwarded = write(other.url, tmp_path)
            assert forwarded["id"] == 1
            for chain, status in ((("client", "client-key"), 200), ((), 403)):
                context = ssl.create_default_context(cafile=str(tmp_path / "ca"))
                if chain:
                    context.load_cert_chain(*(str(tmp_path / each) for each in chain))
                request = urllib.request.Request(f"{command.url}/config")
                try:
                    with urllib.request.urlopen(request, context=context, timeout=HANG_S) as answer:
                        assert answer.status == status
                except urllib.error.HTTPError as error:
                    assert error.code == status
        finally:
            assert (other.stop(), command.stop()) == (0, 0)


def write(url, folder):
    """Registers a schema with the client's certificate."""
    context = ssl.create_default_context(cafile=str(folder / "ca"))
    context.load_cert_chain(str(folder / "client"), str(folder / "client-key"))
    body = json.dumps({"schema": record_schema("a")}).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{url}/subjects/forwarded/versions", body, headers)
    with urllib.request.urlopen(request, context=context, timeout=HANG_S) as answer:
        return json.load(answer)
