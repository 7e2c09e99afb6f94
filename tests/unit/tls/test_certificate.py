"""What a certificate says."""

import datetime
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bowstring._native.tls.certificate import Certificate
from bowstring._native.tls.library import TlsError
from tests.support.certificates import server_identity

EPOCH = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


def der_of(rdns):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.RelativeDistinguishedName(rdn) for rdn in rdns])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(EPOCH)
        .not_valid_after(EPOCH + datetime.timedelta(days=1))
    )
    return built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def attribute(oid, value):
    return x509.NameAttribute(oid, value)


@pytest.mark.parametrize(
    ("rdns", "subject"),
    [
        (
            [[(NameOID.COUNTRY_NAME, "DE")], [(NameOID.ORGANIZATION_NAME, "Ä & Co")], [(NameOID.COMMON_NAME, "a")]],
            "CN=a,O=Ä & Co,C=DE",
        ),
        ([[(NameOID.COMMON_NAME, 'a,b+c"d\\e<f>g;h')]], 'CN=a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h'),
        ([[(NameOID.COMMON_NAME, "#a ")]], "CN=\\#a\\ "),
        ([[(NameOID.COMMON_NAME, " a b")]], "CN=\\ a b"),
        ([[(NameOID.COMMON_NAME, "a"), (NameOID.USER_ID, "u")]], None),
        ([[(NameOID.EMAIL_ADDRESS, "a@b.c")]], "1.2.840.113549.1.9.1=#16056140622e63"),
        ([[(NameOID.DOMAIN_COMPONENT, "org")], [(NameOID.DOMAIN_COMPONENT, "x")]], "DC=x,DC=org"),
    ],
)  # fmt: skip
def test_the_subject(rdns, subject):
    found = Certificate(der_of([[attribute(*each) for each in rdn] for rdn in rdns])).subject
    if subject is None:
        assert sorted(found.split("+")) == ["CN=a", "UID=u"]
    else:
        assert found == subject


def test_names_and_dates():
    found = Certificate(ssl.PEM_cert_to_DER_cert(server_identity().certificate.decode()))
    assert found.subject == "CN=localhost,O=Bowstring"
    assert found.names == {"localhost", "address:7f000001"}
    dated = Certificate(der_of([[attribute(NameOID.COMMON_NAME, "a")]]))
    assert dated.valid_from_ms == int(EPOCH.timestamp() * 1000)
    assert dated.valid_until_ms - dated.valid_from_ms == 86_400_000
    assert dated.names == frozenset()


def test_what_is_no_certificate():
    with pytest.raises(TlsError):
        Certificate(b"garbage")
