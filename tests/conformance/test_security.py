"""Every client, over TLS and each SASL mechanism: right and wrong passwords, trusted and foreign certificates."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from bowstring import Admin, Broker
from bowstring.clients.admin.scram_users import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.conformance.drivers import CLIENTS, Driver, DriverError, Json, Session
from tests.support.certificates import CertificateAuthority, Identity
from tests.support.serving import steady_port

PASSWORD = 'a secret with "quotes" and spaces'
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
# Java takes tokens from a server or a file that its own tests cover; it has no setting for a token.
BEARERS = tuple(name for name in CLIENTS if name != "java")
ISSUER, AUDIENCE = "https://issuer.test", "bowstring-test"


@dataclass(frozen=True)
class Secured:
    """A broker with a listener for each way in.

    Attributes:
        ports: By listener: TLS, MUTUAL, SASL, BOTH.
        folder: Has the files of clients: ca.pem, foreign.pem, client.crt, client.key, client.pem, expired.*.
        token: Returns a signed token that ends in so many seconds.
    """

    ports: dict[str, int]
    folder: Path
    token: Callable[[float], str]

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


def _keys(folder: Path) -> Callable[[float], str]:
    """Writes the JWKS of an issuer, and returns what makes its tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    (folder / "jwks.json").write_text(
        json.dumps({"keys": [public | {"kid": "1", "use": "sig", "alg": "ES256"}]})
    )

    def token(seconds: float) -> str:
        now = int(time.time())
        claims = {"sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + int(seconds)}
        return jwt.encode(claims, key, "ES256", {"kid": "1"})

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
    token = _keys(folder)
    protocols = {
        "TLS": "SSL",
        "MUTUAL": "SSL",
        "SASL": "SASL_PLAINTEXT",
        "BOTH": "SASL_SSL",
        "INNER": "PLAINTEXT",
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
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "jwks.json").as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        **{
            f"listener.name.{listener}.{mechanism}.sasl.jaas.config": login
            for listener in ("sasl", "both")
            for mechanism, login in logins.items()
        },
    }
    with Broker(data_dir=folder / "data", config=settings):
        with Admin(bootstrap_servers=f"127.0.0.1:{ports['INNER']}") as admin:
            for mechanism in ScramMechanism:
                _add_user(admin, mechanism)
        yield Secured(ports, folder, token)


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
    drivers(request.node.callspec.params["name"]).call("secure", security={})


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
    if mechanism == "OAUTHBEARER" and name not in BEARERS:
        mechanism = "SCRAM-SHA-256"  # over TLS once more
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


@pytest.mark.parametrize("name", BEARERS)
def test_expired_token(secured: Secured, drivers: Callable[[str], Driver], name: str) -> None:
    security = {"mechanism": "OAUTHBEARER", "token": secured.token(-3600)}
    with pytest.raises(DriverError):
        of(drivers, name, secured.ports["SASL"], security).call("greet")


@pytest.mark.parametrize("name", list(CLIENTS))
def test_foreign_certificate_of_the_broker(
    secured: Secured, drivers: Callable[[str], Driver], name: str
) -> None:
    foreign = {"ca": str(secured.folder / "foreign.pem")}
    with pytest.raises(DriverError):
        of(drivers, name, secured.ports["TLS"], foreign).call("greet")
