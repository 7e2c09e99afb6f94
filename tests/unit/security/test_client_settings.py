"""Settings of TLS and SASL by the names of several clients."""

import time

import pytest

from bowstring.security import oauth_tokens
from bowstring.security.client_settings import ClientSecurity, SecuritySettingsError, canonical, check_use
from bowstring.security.oauth_tokens import Token, TokenSource, TokenUnavailableError, lifetime_of, token_of
from bowstring.security.security_names import CANONICAL, SECRETS, SECURITY_NAMES
from tests.support.certificates import authority, client_identity, foreign_authority

SECRET = "sesame-8843"
USER = {"sasl.username": "alice", "sasl.password": SECRET}


def of(**settings):
    return ClientSecurity.of({name.replace("_", "."): value for name, value in settings.items()})


def test_plain_text_is_the_default():
    security = ClientSecurity.of({})
    assert (security.protocol, security.tls, security.new_sasl("kafka")) == ("PLAINTEXT", None, None)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(
    "names",
    [
        {"sasl.mechanism": None, "sasl.username": "alice", "sasl.password": SECRET},
        {"sasl.mechanisms": None, "sasl_username": "alice", "sasl_password": SECRET},
        {"sasl_mechanism": None, "sasl_plain_username": "alice", "sasl_plain_password": SECRET},
    ],
)
def test_names_of_other_clients(names, mechanism):
    given = {name: mechanism if value is None else value for name, value in names.items()}
    security = ClientSecurity.of({"security.protocol": "sasl_plaintext", **given})
    sasl = security.new_sasl("kafka")
    assert sasl.mechanism == mechanism
    assert b"alice" in sasl.first()
    assert SECRET not in repr(security) + repr(sasl) + repr(vars(security))


def test_a_line_of_jaas():
    line = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="alice" password="{SECRET}";'
    )
    security = ClientSecurity.of({"security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": line})
    assert security.new_sasl("kafka").first() == f"\0alice\0{SECRET}".encode()
    with pytest.raises(SecuritySettingsError, match="login module of PLAIN") as raised:
        ClientSecurity.of(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.jaas.config": line,
                "sasl.mechanism": "SCRAM-SHA-256",
            }
        )
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"security.protocol": "TLS"}, "must be one of PLAINTEXT, SSL"),
        ({"security.protocol": "SASL_PLAINTEXT"}, "sasl.mechanism is missing"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "LOGIN"}, "must be one of PLAIN"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "sasl.username is missing"),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": 'a.PlainLoginModule required usrname="a" password="b";',
            },
            "sasl.username is missing, and sasl.jaas.config has no username=: PLAIN needs",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "a"},
            "sasl.password is missing",
        ),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}, "no token: give one of"),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldap"},
            "must be https or none",
        ),
        ({"security.protocol": "SSL", "ssl.ca.location": "/nowhere/ca.pem"}, "/nowhere/ca.pem"),
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "maybe"}, "true or false"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.1"),
        ({"sasl.username": "a", "sasl_plain_username": "b"}, "both set sasl.username"),
    ],
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(SecuritySettingsError, match=words):
        ClientSecurity.of(settings)


@pytest.mark.parametrize(
    ("settings", "cure"),
    [
        (USER, "security.protocol=SASL_SSL"),
        (USER | {"security.protocol": "SSL"}, "security.protocol=SASL_SSL"),
        ({"ssl.ca.location": "ca.pem"}, "security.protocol=SSL"),
    ],
)
def test_protection_that_would_have_no_effect_is_refused(settings, cure):
    with pytest.raises(SecuritySettingsError, match=cure) as raised:
        check_use(canonical(settings))
    assert SECRET not in str(raised.value)


def test_host_names_are_checked_unless_told_otherwise():
    trust = {"security.protocol": "SSL", "ssl.ca.pem": authority().certificate.decode()}
    assert ClientSecurity.of(trust).server_host("kafka") == "kafka"
    for off in (
        {"ssl.endpoint.identification.algorithm": "none"},
        {"ssl.endpoint.identification.algorithm": ""},
        {"ssl_check_hostname": False},
        {"enable.ssl.certificate.verification": "false"},
    ):
        assert ClientSecurity.of(trust | off).server_host("kafka") is None


def test_a_key_of_another_certificate_is_refused():
    pem = {
        "security.protocol": "SSL",
        "ssl.certificate.pem": client_identity().certificate.decode(),
        "ssl.key.pem": foreign_authority().identity("bob", ()).key.decode(),
    }
    with pytest.raises(SecuritySettingsError, match="does not belong to the certificate"):
        ClientSecurity.of(pem)


def test_every_secret_is_marked():
    assert {"sasl.password", "ssl.key.pem", "ssl.password", "sasl.jaas.config"} <= SECRETS
    words = ("password", "secret", "key.pem", "keystore.key", ".token", "jaas")
    assert all(
        row.secret for row in SECURITY_NAMES if row.name.endswith(words[:5]) and "token." not in row.name
    )
    assert len(CANONICAL) == sum(1 + len(row.others) for row in SECURITY_NAMES)


# ------------------------------------------------------------ tokens


def test_a_token_is_kept_until_shortly_before_its_end():
    calls = []

    def fetch():
        calls.append(1)
        return Token(f"token-{len(calls)}", time.time() + 3600)

    source = TokenSource(fetch)
    assert source.token() == source.token() == "token-1"
    assert "token" not in repr(Token("a", None)).removeprefix("Token")


def test_a_token_that_ends_soon_is_replaced():
    tokens = iter([Token("a", time.time() + 2), Token("b", time.time() + 3600)])
    source = TokenSource(lambda: next(tokens))
    assert [source.token(), source.token(), source.token()] == ["a", "b", "b"]


def test_an_expired_token_is_refused_and_a_broken_function_named():
    with pytest.raises(TokenUnavailableError, match="has expired"):
        TokenSource(lambda: Token("a", 1.0)).token()
    with pytest.raises(TokenUnavailableError, match="token function failed: ZeroDivisionError"):
        TokenSource(lambda: 1 // 0).token()


def test_functions_of_other_clients():
    class Provider:
        def token(self):
            return "of-kafka-python"

    for function, found in (
        (lambda: "ours", b"ours"),
        (lambda config: ("of-confluent", time.time() + 60), b"of-confluent"),
        (Provider(), b"of-kafka-python"),
    ):
        security = ClientSecurity.of(
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "oauth_cb": function}
        )
        assert found in security.new_sasl("kafka").first()


def test_a_token_from_a_file(tmp_path):
    path = tmp_path / "token"
    path.write_text("of.a.file\n")
    security = ClientSecurity.of(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": path.as_uri(),
        }
    )
    assert b"Bearer of.a.file\1" in security.new_sasl("kafka").first()
    path.unlink()
    with pytest.raises(TokenUnavailableError, match="cannot read the OAuth token"):
        security.new_sasl("kafka").first()


def test_the_end_of_a_json_web_token():
    assert lifetime_of("e30.eyJleHAiOiAxMjN9.x") == 123.0
    assert lifetime_of("opaque") is None and lifetime_of("a.b.c") is None
    assert token_of(("t", 5)) == Token("t", 5.0)


def test_only_https_and_files_are_endpoints():
    with pytest.raises(ValueError, match="https://"):
        oauth_tokens.ClientCredentials("ftp://x", "id", SECRET)


def test_settings_of_tls_with_a_login_in_the_clear():
    with pytest.raises(SecuritySettingsError, match=r"set security\.protocol=SASL_SSL, or remove"):
        check_use(canonical({"security.protocol": "SASL_PLAINTEXT", "ssl.ca.location": "x"}))
