"""What is wrong with the settings of TLS and SASL is said at the start: what, where in the file, and the cure."""

import socket

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    load_pem_private_key,
    pkcs12,
)

from bowstring.engine.event_log import LOGGER
from bowstring.serve import main
from tests.support.addresses import own_address
from tests.support.certificates import DAY, authority, client_identity, server_identity

OWN = server_identity()
SETTINGS = {
    "listeners": "OUTER://127.0.0.1:0",
    "listener.security.protocol.map": "OUTER:SSL",
    "inter.broker.listener.name": "OUTER",
    "ssl.keystore.type": "PEM",
}
SASL = {"listener.security.protocol.map": "OUTER:SASL_SSL", "ssl.keystore.location": "FOLDER/right"}
PLAIN = SASL | {"sasl.enabled.mechanisms": "PLAIN"}
JAAS = "listener.name.outer.plain.sasl.jaas.config"


def store():
    key, certificate = load_pem_private_key(OWN.key, None), x509.load_pem_x509_certificate(OWN.certificate)
    return pkcs12.serialize_key_and_certificates(
        b"a", key, certificate, None, BestAvailableEncryption(b"right-8841")
    )


def expired(**moments):
    identity = authority().identity(**moments)
    return identity.key + identity.certificate


FILES = {
    "right": OWN.key + OWN.certificate,
    "mismatched": OWN.key + client_identity().certificate,
    "keyless": OWN.certificate,
    "garbage": b"garbage",
    "encrypted": OWN.encrypted_key("right-8841") + OWN.certificate,
    "store": store(),
    "old": expired(valid_from=-9 * DAY, valid_for=DAY),
    "early": expired(valid_from=DAY),
}


@pytest.fixture
def start(tmp_path, capsys):
    """Returns what a start says, and the lines of the file that it names."""

    def start(settings):
        for name, data in FILES.items():
            (tmp_path / name).write_bytes(data)
        path = tmp_path / "server.properties"
        wanted = {**SETTINGS, **settings, "log.dirs": str(tmp_path / "data")}
        path.write_text("".join(f"{a}={b}\n" for a, b in wanted.items()).replace("FOLDER", str(tmp_path)))
        assert main(["--config", str(path)]) == 1
        told = capsys.readouterr().err
        assert told.startswith("bowstring: ") and "Traceback" not in told
        lines = {name for number, name in enumerate(wanted, 1) if f"{path}:{number}" in told}
        return told, lines

    handlers, level, propagates = LOGGER.handlers[:], LOGGER.level, LOGGER.propagate
    yield start
    LOGGER.handlers[:], LOGGER.propagate = handlers, propagates
    LOGGER.setLevel(level)


LOCATION = "ssl.keystore.location"


@pytest.mark.parametrize(
    ("settings", "named", "words"),
    [
        ({LOCATION: "FOLDER/none"}, LOCATION, "cannot be read: No such file"),
        ({LOCATION: "FOLDER/garbage"}, LOCATION, "garbage: there is no private key"),
        ({LOCATION: "FOLDER/keyless"}, LOCATION, "keyless: there is no private key"),
        ({LOCATION: "FOLDER/mismatched"}, LOCATION, "the private key does not belong to the certificate"),
        ({LOCATION: "FOLDER/encrypted"}, "ssl.key.password", "the private key is encrypted"),
        (
            {LOCATION: "FOLDER/encrypted", "ssl.key.password": "wrong-8841"},
            "ssl.key.password",
            "check its password (ssl.key.password)",
        ),
        (
            {LOCATION: "FOLDER/store", "ssl.keystore.type": "PKCS12", "ssl.keystore.password": "wrong-8841"},
            "ssl.keystore.password",
            "its password is wrong",
        ),
        ({LOCATION: "FOLDER/store"}, "ssl.keystore.type", "set ssl.keystore.type=PKCS12"),
        ({LOCATION: "FOLDER/old"}, LOCATION, "renew it"),
        ({LOCATION: "FOLDER/early"}, LOCATION, "correct this machine's clock"),
        (
            {LOCATION: "FOLDER/right", "ssl.principal.mapping.rules": "RULE:^CN=(/$1/"},
            "ssl.principal.mapping.rules",
            "is malformed",
        ),
        (SASL | {"sasl.enabled.mechanisms": "SCRAM-SHA-1"}, "sasl.enabled.mechanisms", "is not a mechanism"),
        (PLAIN | {JAAS: "nonsense"}, JAAS, "write nonsense required"),
        (
            PLAIN | {JAAS: "a.PlainLoginModule required user_a=wrong-8841"},
            JAAS,
            "do not end with a semicolon",
        ),
        (
            SASL | {"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.expected.issuer": "i"},
            None,
            "set sasl.oauthbearer.expected.audience",
        ),
        ({"super.users": "alice"}, "super.users", ""),
    ],
)
def test_what_is_wrong(start, settings, named, words):
    told, lines = start(settings)
    assert words in told
    assert "8841" not in told
    # Where the setting is missing, the file may be all that can be named.
    assert named is None or named in lines or (named not in settings and LOCATION in lines)


def test_a_port_that_is_taken(start):
    host = own_address()
    with socket.create_server((host, 0)) as taken:
        port = taken.getsockname()[1]
        told, lines = start({LOCATION: "FOLDER/right", "listeners": f"OUTER://{host}:{port}"})
    assert f"cannot listen on {host}:{port}" in told and lines == {"listeners"}
