"""Names of principals from certificates, with examples of Kafka's SslPrincipalMapperTest."""

import pytest

from bowstring.engine.configs import ConfigError
from bowstring.engine.security.distinguished_names import CertificateError, subject_of
from bowstring.engine.security.principal_rules import PrincipalRules

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,"
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_matches_counts(name, expected):
    assert PrincipalRules(RULES).name_of(name) == expected


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        ("RULE:^CN=(.*?),.*$/$1@$4/", "CN=a,O=b", "a@$4"),
        ("RULE:^CN=(.*?),.*$/$12/", "CN=a,O=b", "a2"),
        (r"RULE:^CN=(.*?),.*$/\$1\/x/", "CN=a,O=b", "$1/x"),
        ("RULE:^CN=(?<who>.*?),.*$/${who}/", "CN=a,O=b", "a"),
        ("RULE:^CN=x$/x/", "CN=a", None),
        ("", "CN=a", None),
        (" DEFAULT ", "CN=a", "CN=a"),
    ],
)
def test_replacements(rules, name, expected):
    assert PrincipalRules(rules).name_of(name) == expected


@pytest.mark.parametrize(
    "rules",
    ["default", "DEFAUL", "DEFAULT/L", "RULE:CN=(.*?)", "RULE:/a/b/c", "RULE:(/x/", "RULE:^CN=a/x/LU"],
)
def test_malformed_rules(rules):
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(rules)


def certificate(*names) -> bytes:
    x509 = pytest.importorskip("cryptography.x509")
    import datetime

    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(names)
    now = datetime.datetime(2030, 1, 1)
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issuer")]))
        .public_key(key.public_key())
        .serial_number(5)
        .not_valid_before(now)
        .not_valid_after(now)
        .sign(key, hashes.SHA256())
    )
    return built.public_bytes(serialization.Encoding.DER)


def test_subjects():
    x509 = pytest.importorskip("cryptography.x509")
    oid = x509.NameOID
    attributes = [
        (oid.COUNTRY_NAME, "DE"),
        (oid.ORGANIZATION_NAME, "Bow, String + Sons"),
        (oid.USER_ID, "u1"),
        (oid.EMAIL_ADDRESS, "a@b"),
        (oid.COMMON_NAME, " zoë=1 "),
    ]
    der = certificate(*(x509.NameAttribute(*each) for each in attributes))
    assert subject_of(der) == (
        "CN=\\ zoë\\=1\\ ,1.2.840.113549.1.9.1=#1603614062,UID=u1,O=Bow\\, String \\+ Sons,C=DE"
    )


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x03abc", b"x" * 50])
def test_what_is_no_certificate(data):
    with pytest.raises(CertificateError):
        subject_of(data)
