"""Tokens of an identity provider: what is valid, and what is refused."""

import base64
import json
import time

import pytest

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.security.jwt_validator import JwtValidator
from bowstring.engine.security.sasl_oauthbearer import Bearer, OAuthBearerServer, TokenRefusedError
from bowstring.engine.security.sasl_server import AuthenticationFailedError
from bowstring.engine.security.signing_keys import SigningKeys
from tests.support.waiting import pause, wait_until

jwt = pytest.importorskip("jwt")
rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")

ISSUER, AUDIENCE = "https://issuer.example", "kafka"
KEYS = {name: rsa.generate_private_key(65537, 2048) for name in ("first", "second")}


def jwk(name, **more):
    public = jwt.algorithms.RSAAlgorithm.to_jwk(KEYS[name].public_key(), as_dict=True)
    return public | {"kid": name, "use": "sig", "alg": "RS256"} | more


def document(*names):
    return json.dumps(
        {"keys": [*(jwk(name) for name in names), {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}]}
    )


@pytest.fixture
def validator(tmp_path):
    found = []

    def make(**settings):
        path = tmp_path / "keys.json"
        path.write_text(document("first"))
        defaults = {
            "jwks.endpoint.url": path.as_uri(),
            "expected.issuer": ISSUER,
            "expected.audience": AUDIENCE,
            "jwks.endpoint.retry.backoff.ms": "1",
        }
        named = {name.replace("__", "."): text for name, text in settings.items()}
        configs = {f"sasl.oauthbearer.{name}": text for name, text in (defaults | named).items() if text}
        found.append(JwtValidator(BrokerConfigs(configs), "OUTER"))
        return found[-1]

    yield make
    for each in found:
        each.close()


def token(key="first", algorithm="RS256", kid=None, signed_with=None, **claims):
    now = int(time.time())
    every = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 600} | claims
    kept = {name: value for name, value in every.items() if value is not None}
    signer = signed_with if signed_with is not None else KEYS.get(key)
    return jwt.encode(kept, signer, algorithm=algorithm, headers={"kid": kid or key})


def test_a_valid_token(validator):
    found = validator().validated(token(exp=2_000_000_000))
    assert found == Bearer("alice", 2_000_000_000_000)


def test_another_subject_and_a_list_of_audiences(validator):
    found = validator(sub__claim__name="client_id").validated(
        token(sub=None, client_id="app", aud=["x", AUDIENCE], scope=["a", "b"])
    )
    assert found.name == "app"


@pytest.mark.parametrize(
    "bad",
    [
        {"exp": 1},
        {"exp": None},
        {"iat": None},
        {"iat": 4_000_000_000},
        {"nbf": 4_000_000_000},
        {"iss": "https://other.example"},
        {"iss": None},
        {"aud": "other"},
        {"aud": None},
        {"sub": None},
        {"sub": ""},
        {"sub": 5},
        {"scope": 5},
        {"key": "second"},
        {"key": "second", "kid": "first"},
        {"algorithm": "HS256", "signed_with": "s" * 40},
        {"algorithm": "HS256", "signed_with": "s" * 40, "kid": "shared"},
        {"algorithm": "none", "signed_with": ""},
        {"algorithm": "PS256"},
    ],
    ids=str,
)
def test_tokens_that_are_refused(validator, bad):
    with pytest.raises(TokenRefusedError):
        validator().validated(token(**bad))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"exp": 1}, "it has expired, or the clocks differ by more than sasl.oauthbearer.clock.skew"),
        ({"nbf": 4_000_000_000}, "it is not valid yet, or the clocks differ"),
        ({"iss": "https://other.example"}, "its issuer is not sasl.oauthbearer.expected.issuer"),
        ({"aud": "other"}, "its audience is not in sasl.oauthbearer.expected.audience"),
        ({"key": "second", "kid": "first"}, "its signature is wrong"),
        ({"sub": None}, "a claim that is needed is missing"),
    ],
    ids=str,
)
def test_the_log_says_why_and_the_client_does_not_learn_it(validator, bad, reason):
    server = OAuthBearerServer(validator().validated)
    answer = server.step(f"n,,\x01auth=Bearer {token(**bad)}\x01\x01".encode())
    assert answer == b'{"status":"invalid_token"}'
    with pytest.raises(AuthenticationFailedError, match=f"the token is refused: {reason}") as failed:
        server.step(b"\x01")
    assert failed.value.answer == answer.decode()


@pytest.mark.parametrize("text", ["", "a", "a.b.c", "x" * 100_000])
def test_what_is_no_token(validator, text):
    with pytest.raises(TokenRefusedError):
        validator().validated(text)


def test_a_clock_that_is_slow_is_tolerated(validator):
    now = int(time.time())
    validator(clock__skew__seconds="60").validated(token(exp=now - 30))
    with pytest.raises(TokenRefusedError):
        validator(clock__skew__seconds="1").validated(token(exp=now - 30))


def test_a_new_key_is_read_when_a_token_names_it(validator, tmp_path):
    found = validator()
    (tmp_path / "keys.json").write_text(document("first", "second"))
    with pytest.raises(TokenRefusedError):
        found.validated(token("second"))
    wait_until(lambda: "second" in found.keys.keys, "the new key")
    assert found.validated(token("second")).name == "alice"


def test_unknown_keys_do_not_make_requests_as_fast_as_clients_connect(tmp_path):
    path = tmp_path / "keys.json"
    path.write_text("{}")
    reads = []
    keys = SigningKeys(
        path.as_uri(),
        lambda document: reads.append(document) or {"a": 1},
        refresh_s=60,
        retry_s=0.001,
        retry_max_s=60,
    )
    keys.read()
    keys.start()
    try:
        keys.refresh_soon()
        wait_until(lambda: len(reads) == 2)
        for _ in range(5):
            keys.refresh_soon()
            pause(0.02, "a read would be over")
        assert len(reads) == 2
    finally:
        keys.close()


def test_keys_in_the_clear_are_warned_of(validator, caplog):
    validator(jwks__endpoint__url="http://127.0.0.1:1/keys")
    (line,) = [each for each in caplog.records if "not encrypted" in each.getMessage()]
    assert line.facts["url"] == "http://127.0.0.1:1/keys"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"jwks__endpoint__url": "file:///nowhere/keys.json"}, "jwks.endpoint.url"),
        ({"jwks__endpoint__url": "ftp://x/keys"}, "none of file://, http://, https://"),
        ({"jwks__endpoint__url": None}, "set sasl.oauthbearer.jwks.endpoint.url"),
        ({"expected__issuer": None}, "set sasl.oauthbearer.expected.issuer"),
        ({"expected__audience": None}, "set sasl.oauthbearer.expected.audience"),
    ],
)
def test_settings_that_cannot_work(validator, settings, message):
    with pytest.raises(ConfigError, match=message):
        validator(**settings)


def test_tokens_for_others_must_be_allowed(validator):
    found = validator(expected__audience=None, allow__unverified__audience="true")
    assert found.validated(token(aud="other")).name == "alice"


def exchange(validator, text, authorization=""):
    server = OAuthBearerServer(validator.validated)
    return server, server.step(f"n,{authorization},\x01auth=Bearer {text}\x01\x01".encode())


def test_an_exchange(validator):
    server, answer = exchange(validator(), token(exp=2_000_000_000), "a=alice")
    assert (answer, server.is_complete, server.name, server.expires_ms) == (
        b"",
        True,
        "alice",
        2_000_000_000_000,
    )


def test_a_refused_token_gets_a_challenge_and_then_the_error(validator):
    server, answer = exchange(validator(), token(exp=1))
    assert answer == b'{"status":"invalid_token"}' and not server.is_complete
    with pytest.raises(AuthenticationFailedError) as caught:
        server.step(b"\x01")
    assert caught.value.answer == '{"status":"invalid_token"}'


@pytest.mark.parametrize("message", [b"", b"n,,", b"n,,\x01auth=Basic x\x01\x01", b"n,,\x01host=x\x01\x01"])
def test_malformed_messages(validator, message):
    with pytest.raises(AuthenticationFailedError):
        OAuthBearerServer(validator().validated).step(message)


def test_another_name_than_the_tokens(validator):
    with pytest.raises(AuthenticationFailedError):
        exchange(validator(), token(), "a=bob")


def test_a_header_of_any_depth_is_refused(validator):
    deep = b'{"alg":' + b"[" * 30_000
    with pytest.raises(TokenRefusedError):
        validator().validated(base64.urlsafe_b64encode(deep).decode().rstrip("=") + ".e30.e30")


def test_a_time_of_expiry_that_no_number_has(validator):
    assert validator().validated(token(exp=10**30)).expires_ms == (1 << 63) - 1
