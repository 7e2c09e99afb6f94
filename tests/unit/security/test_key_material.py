"""Key stores and trust stores, as Kafka and librdkafka name them."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from bowstring._native.tls.library import TlsError
from bowstring._native.tls.session import TlsSession
from bowstring.security.key_material import KeyMaterial
from tests.support.certificates import authority, client_identity, server_identity


def key_store(identity=None, password=b"secret"):
    """A PKCS12 store with a key and its chain."""
    identity = identity or server_identity()
    return pkcs12.serialize_key_and_certificates(
        b"broker",
        serialization.load_pem_private_key(identity.key, None),
        x509.load_pem_x509_certificate(identity.certificate),
        [x509.load_pem_x509_certificate(authority().certificate)],
        serialization.BestAvailableEncryption(password),
    )


def trust_store(password=b"secret"):
    """A PKCS12 store as keytool writes a trust store."""
    certificate = pkcs12.PKCS12Certificate(x509.load_pem_x509_certificate(authority().certificate), b"ca")
    return pkcs12.serialize_java_truststore([certificate], serialization.BestAvailableEncryption(password))


@pytest.fixture
def write(tmp_path):
    def write(name, data):
        path = tmp_path / name
        path.write_bytes(data)
        return str(path)

    return write


def check(server: KeyMaterial, client: KeyMaterial):
    ours = TlsSession(server.context(server=True))
    theirs = TlsSession(client.context(server=False), "localhost")
    for _ in range(3):
        ours.receive(theirs.outgoing())
        theirs.receive(ours.outgoing())
    assert theirs.established


TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority().certificate.decode()}


@pytest.mark.parametrize("kind", ["PKCS12", "JKS", "pkcs12", None])
def test_pkcs12(write, kind):
    server = {
        "ssl.keystore.location": write("server.p12", key_store()),
        "ssl.keystore.password": "secret",
        "ssl.keystore.type": kind,
    }
    client = {
        "ssl.truststore.location": write("trust.p12", trust_store()),
        "ssl.truststore.password": "secret",
        "ssl.truststore.type": kind,
    }
    material = KeyMaterial.of(server)
    assert material.files == (server["ssl.keystore.location"],)
    check(material, KeyMaterial.of(client))


@pytest.mark.parametrize("kind", ["PEM", "pem", None])
def test_pem_files(write, kind):
    identity = server_identity()
    server = {
        "ssl.keystore.location": write("server.pem", identity.encrypted_key("secret") + identity.certificate),
        "ssl.key.password": "secret",
        "ssl.keystore.type": kind,
    }
    client = {
        "ssl.truststore.location": write("ca.pem", authority().certificate),
        "ssl.truststore.type": kind,
    }
    check(KeyMaterial.of(server), KeyMaterial.of(client))


def test_inline_pem():
    identity = server_identity()
    server = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": identity.key.decode().replace("\n", "\\n"),
        "ssl.keystore.certificate.chain": identity.certificate.decode(),
    }
    check(KeyMaterial.of(server), KeyMaterial.of(TRUST))


def test_librdkafkas_names(write, tmp_path):
    identity = client_identity()
    directory = tmp_path / "authorities"
    directory.mkdir()
    (directory / "ca.pem").write_bytes(authority().certificate)
    (directory / "notes.txt").write_text("nothing")
    by_files = {
        "ssl.certificate.location": write("client.pem", identity.certificate),
        "ssl.key.location": write("client.key", identity.key),
        "ssl.ca.location": write("ca.pem", authority().certificate),
    }
    by_text = {
        "ssl.certificate.pem": identity.certificate.decode(),
        "ssl.key.pem": identity.key.decode(),
        "ssl.ca.pem": authority().certificate.decode(),
    }
    found = KeyMaterial.of(by_files)
    assert found.trusted == KeyMaterial.of(by_text).trusted
    assert found.private_key == KeyMaterial.of(by_text).private_key
    assert KeyMaterial.of({"ssl.ca.location": str(directory)}).trusted == authority().certificate
    found.context(server=False)


def test_nothing_is_set():
    material = KeyMaterial.of({"ssl.protocol": "TLS"})
    assert material.certificate_chain is material.private_key is material.trusted is None
    material.context(server=False)


@pytest.mark.parametrize(
    ("settings", "content", "why"),
    [
        ({}, b"\xfe\xed\xfe\xed\0\0\0\2", r"keytool -importkeystore .* -deststoretype PKCS12"),
        ({}, b"garbage", "no PKCS12 key store"),
        ({"ssl.keystore.password": "guess"}, key_store(), "password is wrong"),
        ({}, key_store(), "needs a password"),
        ({"ssl.keystore.type": "JKS"}, server_identity().certificate, r"set ssl\.keystore\.type=PEM"),
        ({"ssl.keystore.type": "BCFKS"}, b"", "use PEM or PKCS12"),
        ({"ssl.keystore.password": "secret"}, trust_store(), "no private key"),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.password": "x"},
            server_identity().key,
            r"ssl\.key\.password",
        ),
        ({"ssl.keystore.key": "x"}, b"", "exclude each other"),
        ({"ssl.keystore.type": "PEM"}, key_store(), r"no PEM file; .* set ssl\.keystore\.type=PKCS12"),
        ({"ssl.keystore.type": "PEM"}, b"\xfe\xed\xfe\xed\0\0\0\2", "is a JKS store, .* keytool"),
    ],
)
def test_bad_stores(write, settings, content, why):
    location = write("store", content)
    with pytest.raises(TlsError, match=why) as caught:
        KeyMaterial.of({"ssl.keystore.location": location, **settings})
    assert "guess" not in str(caught.value)


def test_a_missing_file():
    with pytest.raises(TlsError, match=r"ssl\.truststore\.location=/nowhere cannot be read: No such file"):
        KeyMaterial.of({"ssl.truststore.location": "/nowhere"})


def test_errors_of_the_content_name_the_file(write):
    location = write("server.pem", server_identity().key)
    material = KeyMaterial.of({"ssl.keystore.location": location})
    with pytest.raises(TlsError, match=r"server\.pem: the certificate chain has no certificate"):
        material.context(server=True)


@pytest.mark.parametrize(
    ("server", "settings", "named", "why"),
    [
        (server_identity().key + client_identity().certificate, {}, ["server.pem"], "does not belong"),
        (None, {"ciphers": ["NONSENSE"]}, [], "NONSENSE is unknown"),
        (None, {"protocols": ["TLSv1.1"]}, [], "'TLSv1.1' is not offered"),
    ],
)
def test_errors_name_only_the_file_that_they_are_about(write, server, settings, named, why):
    own = write("server.pem", server or server_identity().key + server_identity().certificate)
    trusted = write("ca.pem", authority().certificate)
    material = KeyMaterial.of({"ssl.keystore.location": own, "ssl.truststore.location": trusted})
    with pytest.raises(TlsError, match=why) as caught:
        material.context(server=True, **settings)
    assert [name for name in ("server.pem", "ca.pem") if name in str(caught.value)] == named


def test_errors_of_trust_name_the_trust_store(write):
    own = write("server.pem", server_identity().key + server_identity().certificate)
    trusted = write("ca.pem", b"nonsense")
    material = KeyMaterial.of(
        {"ssl.keystore.location": own, "ssl.truststore.type": "PEM", "ssl.truststore.location": trusted}
    )
    with pytest.raises(TlsError, match=r"^\S*ca.pem: the trust store has no certificate"):
        material.context(server=True)


def test_secrets_are_not_shown():
    material = KeyMaterial(b"chain", b"key", "password", b"trusted", files=("file",))
    assert repr(material) == "KeyMaterial(files=('file',))"


def test_a_file_that_never_ends_is_refused():
    with pytest.raises(TlsError, match=r"/dev/zero has more than 16 MiB; name a key file"):
        KeyMaterial.of({"ssl.truststore.location": "/dev/zero"})
