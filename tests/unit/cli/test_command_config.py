"""Settings of TLS and SASL of commands: from a file as Kafka's tools have it, and from the environment."""

import pytest

from bowstring.cli import run
from bowstring.cli.command_config import security
from bowstring.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from bowstring.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.support.certificates import authority
from tests.support.secure_broker import PASSWORDS, SecureBroker, server_context

SECRET = PASSWORDS["alice"]


@pytest.fixture(scope="module")
def broker():
    with SecureBroker(tls=server_context(), sasl=True) as made:
        made.handlers[DescribeLogDirsRequest] = lambda version, request: DescribeLogDirsResponse()
        made.handlers[DescribeClusterRequest] = lambda version, request: DescribeClusterResponse(
            cluster_id="fake",
            controller_id=1,
            brokers=[DescribeClusterBroker(broker_id=1, host=made.host, port=made.port)],
        )
        yield made


@pytest.fixture
def properties(tmp_path):
    (tmp_path / "ca.pem").write_bytes(authority().certificate)
    path = tmp_path / "client.properties"
    path.write_text(
        "security.protocol=SASL_SSL\n"
        f"ssl.truststore.location={tmp_path / 'ca.pem'}\nssl.truststore.type=PEM\n"
        "sasl.mechanism=SCRAM-SHA-512\nclient.id=tools\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        f'  username="alice" password="{SECRET}";\n'
    )
    return path


def test_a_file_as_kafkas_tools_have_it(broker, properties, capsys):
    assert run(["topics", "list", "-b", broker.bootstrap, "--command-config", str(properties)]) == 0
    assert "no effect on commands: client.id" in capsys.readouterr().err


def test_the_environment(broker, properties, monkeypatch, capsys):
    monkeypatch.setenv("BOWSTRING_SECURITY_PROTOCOL", "SASL_SSL")
    monkeypatch.setenv("BOWSTRING_SSL_CA_LOCATION", str(properties.parent / "ca.pem"))
    monkeypatch.setenv("BOWSTRING_SASL_MECHANISM", "PLAIN")
    monkeypatch.setenv("BOWSTRING_SASL_USERNAME", "alice")
    monkeypatch.setenv("BOWSTRING_SASL_PASSWORD", SECRET)
    assert run(["topics", "list", "-b", broker.bootstrap]) == 0
    monkeypatch.setenv("BOWSTRING_SASL_PASSWORD", "wrong-9913")
    assert run(["topics", "list", "-b", broker.bootstrap]) == 1
    told = capsys.readouterr().err
    assert "refuses the login with PLAIN" in told and "wrong-9913" not in told


def test_a_file_does_not_stay_for_the_next_command(broker, properties):
    assert run(["topics", "list", "-b", broker.bootstrap, "--command-config", str(properties)]) == 0
    run(["topics", "list", "-b", "127.0.0.1:1", "--timeout", "0.1"])
    assert security() is None


def test_a_file_that_cannot_be_read(tmp_path, capsys):
    assert run(["topics", "list", "--command-config", str(tmp_path / "none")]) == 2
    assert "--command-config: cannot read" in capsys.readouterr().err


def test_settings_without_effect(tmp_path, capsys):
    path = tmp_path / "client.properties"
    path.write_text(f"sasl.username=alice\nsasl.password={SECRET}\n")
    assert run(["topics", "list", "--command-config", str(path)]) == 2
    told = capsys.readouterr().err
    assert "security.protocol=SASL_SSL" in told and SECRET not in told


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("security.protocl", "security.protocol"),
        ("ssl.trustore.location", "ssl.truststore.location"),
        ("sasl.jass.config", "sasl.jaas.config"),
    ],
)
def test_a_misspelt_setting_that_protects_is_refused(broker, properties, capsys, wrong, meant):
    properties.write_text(properties.read_text().replace(meant, wrong))
    assert run(["topics", "list", "-b", broker.bootstrap, "--command-config", str(properties)]) == 2
    told = capsys.readouterr().err
    line = properties.read_text()[: properties.read_text().index(wrong)].count("\n") + 1
    assert f"{properties}:{line}: {wrong} is unknown; did you mean {meant}?" in told.replace("\n", " ")
    assert SECRET not in told


def test_settings_of_java_that_mean_nothing_here_are_only_told(broker, properties, capsys):
    tuning = "sasl.login.refresh.window.factor=0.8\nssl.secure.random.implementation=x\n"
    properties.write_text(properties.read_text() + tuning)
    assert run(["topics", "list", "-b", broker.bootstrap, "--command-config", str(properties)]) == 0
    assert "no effect on commands" in capsys.readouterr().err
