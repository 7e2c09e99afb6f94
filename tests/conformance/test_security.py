"""Every client, over TLS and each SASL mechanism: right and wrong passwords, trusted and foreign certificates."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from bowstring import Admin, Broker
from bowstring.clients.admin.scram_users import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.conformance.drivers import CLIENTS, HANG_MS, Driver, DriverError, Json, Session
from tests.support.certificates import DAY, CertificateAuthority, Identity
from tests.support.embedded import engine_of
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S, wait_until

PASSWORD = 'a secret with "quotes" and spaces'
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
# Brokers take no second log-in within a second of the first, and franz-go comes a second before the end.
SESSION_MS = 2400
BEARERS_OF_DELEGATION_TOKENS = ("java", "franz-go")
ISSUER, AUDIENCE = "https://issuer.test", "bowstring-test"


@dataclass(frozen=True)
class Secured:
    """A broker with a listener for each way in.

    Attributes:
        ports: By listener: TLS, MUTUAL, SASL, BOTH; MISNAMED with the certificate of another host;
            SHORT with short sessions.
        folder: Has the files of clients: ca.pem, foreign.pem, client.crt, client.key, client.pem; the same of
            stranger, expired and future.
        token: Returns a signed token that ends in so many seconds, with claims and the number of a key.
        failures: Returns how often a client has failed to authenticate so far.
    """

    ports: dict[str, int]
    folder: Path
    token: Callable[..., str]
    failures: Callable[[], int]

    def login(self, mechanism: str, password: str = PASSWORD) -> Json:
        """Returns the part of a client's security that logs it in."""
        if mechanism == "OAUTHBEARER":
            return {"mechanism": mechanism, "token": self.token(3600)}
        return {"mechanism": mechanism, "username": "alice", "password": password}

    @property
    def trusted(self) -> Json:
        """The part that trusts the broker."""
        return {"ca": str(self.folder / "ca.pem")}

    def identity(self, name: str) -> Json:
        """The part with a certificate of the client."""
        at = self.folder / name
        return {"certificate": f"{at}.crt", "key": f"{at}.key", "keystore": f"{at}.pem"}


def _keys(folder: Path) -> Callable[..., str]:
    """Writes the JWKS of an issuer, one for each use, and returns what makes its tokens."""
    keys = {number: ec.generate_private_key(ec.SECP256R1()) for number in ("1", "2", "3")}
    rows = {
        number: json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
        | {"kid": number, "use": "sig", "alg": "ES256"}
        for number, key in keys.items()
    }
    for name, numbers in (("jwks", "12"), ("fewer", "1")):
        (folder / f"{name}.json").write_text(json.dumps({"keys": [rows[number] for number in numbers]}))

    def token(seconds: float, number: str = "1", **changes: Any) -> str:
        now = int(time.time())
        claims = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + int(seconds)}
        claims = {name: value for name, value in (claims | changes).items() if value is not None}
        return jwt.encode(claims, keys[number], "ES256", {"kid": number})

    return token


def _store(folder: Path, name: str, identity: Identity) -> None:
    (folder / f"{name}.crt").write_bytes(identity.certificate)
    for ending, content in (("key", identity.key), ("pem", identity.key + identity.certificate)):
        path = folder / f"{name}.{ending}"
        path.touch(mode=0o600)
        path.write_bytes(content)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority, foreign = CertificateAuthority(), CertificateAuthority("Another authority")
    (folder / "ca.pem").write_bytes(authority.certificate)
    (folder / "foreign.pem").write_bytes(foreign.certificate)
    _store(folder, "broker", authority.identity())
    _store(folder, "client", authority.identity("alice"))
    _store(folder, "stranger", foreign.identity("alice"))
    times = {"expired": (-2 * DAY, DAY), "future": (DAY, DAY)}
    for name, (begins, lasts) in times.items():
        _store(folder, name, authority.identity("alice", valid_from=begins, valid_for=lasts))
    _store(folder, "misnamed", authority.identity(names=("other.test", "127.0.0.2")))
    token = _keys(folder)
    protocols = {
        "TLS": "SSL",
        "MUTUAL": "SSL",
        "SASL": "SASL_PLAINTEXT",
        "BOTH": "SASL_SSL",
        "SHORT": "SASL_PLAINTEXT",
        "INNER": "PLAINTEXT",
        "MISNAMED": "SSL",
    }
    ports = {name: steady_port() for name in protocols}
    quoted = PASSWORD.replace('"', '\\"')
    plain = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{quoted}";'
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    bearer = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    logins = {"plain": plain, "scram-sha-256": scram, "scram-sha-512": scram, "oauthbearer": bearer}
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in protocols.items()
        ),
        "inter.broker.listener.name": "INNER",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.misnamed.ssl.keystore.location": str(folder / "misnamed.pem"),
        "delegation.token.secret.key": "a secret",
        "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
        "sasl.oauthbearer.jwks.endpoint.refresh.ms": "100",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "jwks.json").as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        **{
            f"listener.name.{listener}.{mechanism}.sasl.jaas.config": login
            for listener in ("sasl", "both", "short")
            for mechanism, login in logins.items()
        },
    }
    with Broker(data_dir=folder / "data", config=settings) as broker:
        with Admin(bootstrap_servers=f"127.0.0.1:{ports['INNER']}") as admin:
            for mechanism in ScramMechanism:
                _add_user(admin, mechanism)
        yield Secured(ports, folder, token, lambda: _failures(broker))


def _failures(broker: Broker) -> int:
    authentication = engine_of(broker).authentication
    assert authentication is not None
    return authentication.failures


def _add_user(admin: Admin, mechanism: ScramMechanism) -> None:
    info = ScramCredentialInfo(mechanism)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion("alice", info, PASSWORD)])


def of(drivers: Callable[[str], Driver], name: str, port: int, security: Json) -> Session:
    """Returns a client that connects like this from now on."""
    session = Session(drivers(name), f"127.0.0.1:{port}")
    session.call("secure", security=security)
    return session


@pytest.fixture(autouse=True)
def in_the_clear_again(drivers: Callable[[str], Driver], request: pytest.FixtureRequest) -> Iterator[None]:
    """Other modules have the same drivers."""
    yield
    spec = getattr(request.node, "callspec", None)
    for name in CLIENTS if spec is None else [spec.params["name"]]:
        drivers(name).call("secure", security={})


def works(session: Session, topic: str) -> None:
    """Creates a topic, writes, reads."""
    session.call("create_topic", topic=topic, partitions=1)
    session.produce(topic, [{"value": b"secured", "key": b"k", "partition": 0}])
    (record,) = session.consume(topic, 1)
    assert record["value"] == b"secured"


@pytest.mark.parametrize("name", list(CLIENTS))
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_logs_in_over_tls(
    secured: Secured, drivers: Callable[[str], Driver], name: str, mechanism: str, topic_name: str
) -> None:
    works(of(drivers, name, secured.ports["BOTH"], secured.trusted | secured.login(mechanism)), topic_name)


@pytest.mark.parametrize("name", list(CLIENTS))
@pytest.mark.parametrize("mechanism", MECHANISMS[:2])
def test_logs_in(
    secured: Secured, drivers: Callable[[str], Driver], name: str, mechanism: str, topic_name: str
) -> None:
    works(of(drivers, name, secured.ports["SASL"], secured.login(mechanism)), topic_name)


@pytest.mark.parametrize("name", list(CLIENTS))
def test_tls(secured: Secured, drivers: Callable[[str], Driver], name: str, topic_name: str) -> None:
    works(of(drivers, name, secured.ports["TLS"], secured.trusted), topic_name)


@pytest.mark.parametrize("name", list(CLIENTS))
def test_certificates_of_clients(
    secured: Secured, drivers: Callable[[str], Driver], name: str, topic_name: str
) -> None:
    works(
        of(drivers, name, secured.ports["MUTUAL"], secured.trusted | secured.identity("client")), topic_name
    )


@pytest.mark.parametrize("name", list(CLIENTS))
@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_wrong_password(
    secured: Secured, drivers: Callable[[str], Driver], name: str, mechanism: str
) -> None:
    session = of(drivers, name, secured.ports["SASL"], secured.login(mechanism, "wrong"))
    with pytest.raises(DriverError):
        session.call("greet")


def refused(session: Session) -> str:
    """Fails unless the client cannot connect; returns what it says."""
    with pytest.raises(DriverError) as raised:
        session.call("greet")
    return str(raised.value)


@pytest.mark.parametrize("name", list(CLIENTS))
@pytest.mark.parametrize("fault", ["expired", "audience", "unknown key", "revoked"])
def test_tokens_that_are_refused(
    secured: Secured, revoked: str, drivers: Callable[[str], Driver], name: str, fault: str
) -> None:
    token = {
        "expired": lambda: secured.token(-3600),
        "audience": lambda: secured.token(3600, aud="others"),
        "unknown key": lambda: secured.token(3600, "3"),
        "revoked": lambda: revoked,
    }[fault]()
    refused(of(drivers, name, secured.ports["SASL"], {"mechanism": "OAUTHBEARER", "token": token}))


@pytest.fixture(scope="module")
def revoked(secured: Secured, drivers: Callable[[str], Driver]) -> str:
    """A token that was good, and whose key the issuer has taken back."""
    token = secured.token(3600, "2")
    session = of(drivers, "franz-go", secured.ports["SASL"], {"mechanism": "OAUTHBEARER", "token": token})
    session.call("greet")
    (secured.folder / "fewer.json").rename(secured.folder / "jwks.json")

    def is_revoked() -> bool:
        try:
            session.call("greet")
        except DriverError:
            return True
        return False

    wait_until(is_revoked, "the token is good without its key")
    return token


@pytest.mark.parametrize("name", list(CLIENTS))
def test_a_broker_with_the_certificate_of_another_host(
    secured: Secured, drivers: Callable[[str], Driver], name: str
) -> None:
    refused(of(drivers, name, secured.ports["MISNAMED"], secured.trusted))


@pytest.mark.parametrize("name", list(CLIENTS))
@pytest.mark.parametrize("identity", ["", "stranger", "expired", "future"])
def test_unfit_certificates_of_clients(
    secured: Secured, drivers: Callable[[str], Driver], name: str, identity: str
) -> None:
    own = secured.identity(identity) if identity else {}
    refused(of(drivers, name, secured.ports["MUTUAL"], secured.trusted | own))


def test_tokens_that_nobody_has_signed(secured: Secured, drivers: Callable[[str], Driver]) -> None:
    refused(of(drivers, "java", secured.ports["SASL"], {"mechanism": "OAUTHBEARER"}))


def test_sessions_end_in_the_middle_of_transactions(
    secured: Secured, drivers: Callable[[str], Driver], topic_name: str
) -> None:
    """Clients authenticate again, or connect again. All at once, since they wait."""
    security, port = secured.login("SCRAM-SHA-256"), secured.ports["SHORT"]
    sessions = {name: of(drivers, name, port, security) for name in CLIENTS}
    for name, session in sessions.items():
        session.call("create_topic", topic=f"{topic_name}-{name}", partitions=1)
    failed = secured.failures()
    running = {
        name: drivers(name).submit(
            "transact",
            bootstrap=session.bootstrap,
            topic=f"{topic_name}-{name}",
            id=f"{topic_name}-{name}",
            timeout_ms=HANG_MS,
            for_ms=SESSION_MS,
        )
        for name, session in sessions.items()
    }
    for future in running.values():
        future.result(HANG_S)
    for name, session in sessions.items():
        assert len(session.consume(f"{topic_name}-{name}", 2)) == 2, name
    assert secured.failures() == failed


@pytest.mark.parametrize("name", BEARERS_OF_DELEGATION_TOKENS)
def test_delegation_tokens(secured: Secured, drivers: Callable[[str], Driver], name: str) -> None:
    own = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}
    own |= {"sasl.username": "alice", "sasl.password": PASSWORD}
    with Admin(f"127.0.0.1:{secured.ports['SASL']}", security=own) as admin:
        token = admin.create_delegation_token()
        hmac = base64.b64encode(token.hmac).decode()
        login = {"username": token.token_id, "password": hmac, "is_token": True}
        session = of(
            drivers, name, secured.ports["BOTH"], secured.trusted | {"mechanism": "SCRAM-SHA-256", **login}
        )
        assert session.call("greet")["brokers"] == 1
        admin.expire_delegation_token(token.hmac)
        refused(session)


@pytest.mark.parametrize("name", list(CLIENTS))
def test_foreign_certificate_of_the_broker(
    secured: Secured, drivers: Callable[[str], Driver], name: str
) -> None:
    foreign = {"ca": str(secured.folder / "foreign.pem")}
    with pytest.raises(DriverError):
        of(drivers, name, secured.ports["TLS"], foreign).call("greet")
