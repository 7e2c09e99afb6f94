"""A broker with TLS listeners, and other people's clients."""

import re
import socket
import ssl
import subprocess
import warnings

import pytest
from confluent_kafka import Consumer, Producer
from cryptography.hazmat.primitives.asymmetric import rsa

import bowstring
from bowstring import Broker
from bowstring.clients.errors import BrokerError
from bowstring.protocol.errors import Errors
from tests.support.certificates import authority, client_identity, foreign_authority, server_identity
from tests.support.embedded import engine_of
from tests.support.waiting import HANG_S, wait_until

LISTENERS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,RSA://127.0.0.1:0,MUTUAL://127.0.0.1:0",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,RSA:SSL,MUTUAL:SSL",
    "listener.name.mutual.ssl.client.auth": "required",
    "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    rsa_identity = authority().identity(key=rsa.generate_private_key(65537, 2048))
    for name, content in {
        "ca.pem": authority().certificate,
        "foreign.pem": foreign_authority().certificate,
        "server.pem": server_identity().certificate + server_identity().key,
        "rsa.pem": rsa_identity.certificate + rsa_identity.key,
        "client.pem": client_identity().certificate,
        "client.key": client_identity().key,
    }.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def broker(files, tmp_path_factory):
    config = LISTENERS | {
        "ssl.keystore.location": str(files / "server.pem"),
        "listener.name.rsa.ssl.keystore.location": str(files / "rsa.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.location": str(files / "ca.pem"),
        "ssl.truststore.type": "PEM",
    }
    broker = Broker(data_dir=tmp_path_factory.mktemp("data"), config=config).start()
    yield broker
    broker.stop()


def port_of(broker, name):
    return next(each.port for each in engine_of(broker).listeners if each.name == name)


def settings(broker, files, name, **more):
    return {
        "bootstrap.servers": f"localhost:{port_of(broker, name)}",
        "security.protocol": "ssl",
        "ssl.ca.location": str(files / "ca.pem"),
        "log_level": 0,
        **more,
    }


def with_certificate(files):
    return {
        "ssl.certificate.location": str(files / "client.pem"),
        "ssl.key.location": str(files / "client.key"),
    }


@pytest.mark.parametrize("listener", ["SSL", "MUTUAL"])
def test_confluent_kafka(broker, files, listener):
    own = settings(broker, files, listener, **with_certificate(files))
    topic = f"flights-{listener.lower()}"
    producer = Producer(own)
    values = [bytes([n % 256]) * 3000 for n in range(500)]
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(HANG_S) == 0
    consumer = Consumer(own | {"group.id": listener, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = []
    while len(found) < len(values):
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    assert sorted(found) == sorted(values)


def errors_of(own):
    """What a client reports that cannot connect."""
    found = []
    producer = Producer(own | {"error_cb": lambda error: found.append(error.str())})
    wait_until(lambda: producer.poll(0.1) or found)
    return " ".join(found)


@pytest.mark.parametrize(
    ("listener", "change", "why"),
    [
        ("SSL", {"ssl.ca.location": "foreign.pem"}, "certificate verify failed"),
        ("MUTUAL", {}, "certificate required|alert|[Dd]isconnected|down"),
        ("SSL", {"security.protocol": "plaintext"}, "[Dd]isconnected|down"),
    ],
)
def test_clients_that_do_not_fit(broker, files, listener, change, why):
    change = {name: str(files / value) if value.endswith(".pem") else value for name, value in change.items()}
    assert re.search(why, errors_of(settings(broker, files, listener, **change)))


@pytest.mark.parametrize(
    ("options", "accepted"),
    [
        (["-tls1_3"], True),
        (["-tls1_2"], True),
        (["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], False),
        (["-tls1", "-cipher", "ALL:@SECLEVEL=0"], False),
        (["-tls1_2", "-cipher", "AES128-SHA256:AES256-SHA:@SECLEVEL=0"], False),
        (["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA256"], False),
        (["-tls1_2", "-cipher", "aNULL:eNULL:@SECLEVEL=0"], False),
        (["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"], True),
        (["-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"], True),
    ],
)
def test_what_is_offered(broker, files, options, accepted):
    """By openssl s_client: only TLS 1.2 and 1.3, only ciphers with forward secrecy and AEAD."""
    ran = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{port_of(broker, 'SSL')}", "-CAfile",
         str(files / "ca.pem"), "-verify_return_error", "-servername", "localhost", *options],
        input=b"", capture_output=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert (b"Verify return code: 0 (ok)" in ran.stdout and b"Cipher is (NONE)" not in ran.stdout) is accepted


def takes(port, version, cipher=None):
    """Whether the listener agrees to a version of TLS, and before 1.3 to one cipher."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the old versions
        context.set_ciphers(f"{cipher or 'ALL:COMPLEMENTOFALL'}:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = version
    with socket.create_connection(("127.0.0.1", port), timeout=HANG_S) as plain:
        try:
            with context.wrap_socket(plain) as secured:
                return secured.cipher()[0] if cipher is None else True
        except (ssl.SSLError, ConnectionError):
            return None


def every_cipher():
    """The names of all ciphers before TLS 1.3 that OpenSSL here can offer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    return sorted(each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3")


@pytest.mark.parametrize(
    ("listener", "offered"),
    [
        (
            "SSL",
            {
                "ECDHE-ECDSA-AES128-GCM-SHA256",
                "ECDHE-ECDSA-AES256-GCM-SHA384",
                "ECDHE-ECDSA-CHACHA20-POLY1305",
            },
        ),
        (
            "RSA",
            {
                "ECDHE-RSA-AES128-GCM-SHA256",
                "ECDHE-RSA-AES256-GCM-SHA384",
                "ECDHE-RSA-CHACHA20-POLY1305",
            },
        ),
    ],
)
def test_the_whole_list_of_ciphers(broker, listener, offered):
    """Asks for each cipher by itself: ephemeral keys and AEAD only, whatever the certificate's key is."""
    port, names = port_of(broker, listener), every_cipher()
    assert len(names) > 40 and offered <= set(names)
    assert {name for name in names if takes(port, ssl.TLSVersion.TLSv1_2, name)} == offered


@pytest.mark.parametrize("listener", ["SSL", "RSA"])
def test_the_whole_list_of_versions(broker, listener):
    versions = [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
    found = [each.name for each in versions if takes(port_of(broker, listener), each)]
    assert found == ["TLSv1_2", "TLSv1_3"]


@pytest.mark.parametrize("version", [b"\3\0", b"\3\1", b"\3\2", b"\2\0", b"\0\2"])
def test_a_greeting_of_an_old_version(broker, version):
    """SSL 2 and 3, which OpenSSL here cannot speak, and the oldest of TLS: an alert or the end, and no server's hello."""
    body = version + bytes(32) + b"\0" + b"\0\4\0\x2f\0\x35" + b"\1\0"
    hello = b"\1" + len(body).to_bytes(3, "big") + body
    with socket.create_connection(("127.0.0.1", port_of(broker, "SSL")), timeout=HANG_S) as plain:
        plain.sendall(b"\x16" + version + len(hello).to_bytes(2, "big") + hello)
        plain.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := plain.recv(4096):
            answer += piece
    assert answer[:1] in (b"", b"\x15")


def test_renegotiation_is_refused(broker, files):
    ran = subprocess.run(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{port_of(broker, 'SSL')}", "-tls1_2", "-CAfile",
         str(files / "ca.pem")],
        input=b"R\n", capture_output=True, timeout=HANG_S, check=False,
    )  # fmt: skip
    assert b"no renegotiation" in ran.stderr or ran.returncode != 0
    assert b"Compression: NONE" in ran.stdout


def test_new_keys_without_a_restart(broker, files):
    port = port_of(broker, "SSL")
    new = authority().identity()
    (files / "server.pem").write_bytes(new.certificate + new.key)

    def served():
        context = ssl.create_default_context(cafile=str(files / "ca.pem"))
        with (
            socket.create_connection(("127.0.0.1", port), timeout=HANG_S) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            return secured.getpeercert(binary_form=True)

    expected = ssl.PEM_cert_to_DER_cert(new.certificate.decode())
    wait_until(lambda: served() == expected, "the broker presents its new certificate")


def test_keys_that_cannot_be_used_are_refused_in_the_answer(broker, files):
    setting = "listener.name.ssl.ssl.keystore.location"
    (files / "broken.pem").write_bytes(server_identity().certificate)
    (files / "good.pem").write_bytes(server_identity().certificate + server_identity().key)
    with bowstring.Admin(f"127.0.0.1:{port_of(broker, 'PLAINTEXT')}") as admin:
        for wrong, why in (("broken.pem", "private key"), ("missing.pem", "cannot be read")):
            with pytest.raises(BrokerError, match=why) as caught:
                admin.alter_configs("broker", "1", set={setting: str(files / wrong)})
            assert caught.value.code == Errors.INVALID_REQUEST.code
        assert setting not in engine_of(broker).configs.dynamic_broker
        admin.alter_configs("broker", "1", set={setting: str(files / "good.pem")})
        assert engine_of(broker).configs.dynamic_broker[setting] == str(files / "good.pem")
        admin.alter_configs("broker", "1", delete=[setting])
