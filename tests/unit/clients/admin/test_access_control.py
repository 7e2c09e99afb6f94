"""Rules, SCRAM users, quotas and delegation tokens on a broker with access control, by Admin and its asyncio twin."""

import asyncio

import pytest

from bowstring import (
    AclBinding,
    AclBindingFilter,
    Admin,
    AuthenticationError,
    AuthorizationError,
    Broker,
    BrokerError,
    Producer,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
    aio,
)
from tests.support.access import STANDARD
from tests.support.waiting import HANG_S, wait_until

PASSWORD = "Pa55-of-alice"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
CONFIG = {
    "listeners": "OUTER://127.0.0.1:0",
    "listener.security.protocol.map": "OUTER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "OUTER",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.outer.plain.sasl.jaas.config": f'{PLAIN} username="admin" password="a" user_admin="a";',
    "authorizer.class.name": STANDARD,
    "super.users": "User:admin",
    "delegation.token.secret.key": "known to all brokers",
    "connection.failed.authentication.delay.ms": "1",
}
ANY_USER = {"user": None}


class Awaited:
    """aio.Admin, whose calls are waited for."""

    def __init__(self, *args, **kwargs):
        self.loop = asyncio.new_event_loop()
        self.admin = aio.Admin(*args, **kwargs)

    def __getattr__(self, name):
        method = getattr(self.admin, name)
        return lambda *args, **kwargs: self.loop.run_until_complete(method(*args, **kwargs))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.loop.run_until_complete(self.admin.close())
        self.loop.close()


@pytest.fixture(scope="module")
def broker():
    with Broker(config=CONFIG) as broker:
        yield f"127.0.0.1:{broker.port}"


@pytest.fixture(params=[Admin, Awaited])
def admin(broker, request):
    with request.param(broker, security=login("admin", "a", "PLAIN")) as admin:
        yield admin


def login(user, password, mechanism="SCRAM-SHA-512"):
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def added(admin, user="alice", mechanism="SCRAM-SHA-512"):
    info = ScramCredentialInfo(mechanism, 4096)
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, PASSWORD)])


def rule(operation="write", permission="allow", name="t", pattern="literal"):
    return AclBinding("topic", name, pattern, "User:alice", "*", operation, permission)


def topics_of(broker, **settings):
    with Admin(broker, security=settings) as user:
        return user.topics()


def test_scram_users(broker, admin):
    added(admin)
    added(admin, mechanism="SCRAM-SHA-256")
    of_alice = [ScramCredentialInfo(each) for each in ScramMechanism]
    assert admin.describe_user_scram_credentials(["alice", "nobody"]) == {"alice": of_alice}
    assert admin.describe_user_scram_credentials() == {"alice": of_alice}
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert topics_of(broker, **login("alice", PASSWORD, mechanism)) == {}
    admin.alter_user_scram_credentials([UserScramCredentialDeletion("alice", "SCRAM-SHA-256")])
    with pytest.raises(AuthenticationError):
        topics_of(broker, **login("alice", PASSWORD, "SCRAM-SHA-256"))
    admin.alter_user_scram_credentials([UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_512)])
    with pytest.raises(BrokerError, match="RESOURCE_NOT_FOUND"):
        admin.alter_user_scram_credentials([UserScramCredentialDeletion("alice", "SCRAM-SHA-512")])
    assert admin.describe_user_scram_credentials() == {}


def test_acls(broker, admin):
    added(admin)
    admin.create_topic("t")
    with Producer(broker, security=login("alice", PASSWORD)) as producer:
        with pytest.raises(AuthorizationError):
            producer.send("t", b"x").result(HANG_S)
        rules = [rule(), rule("read", name="t-", pattern="prefixed"), rule("delete", "deny", name="*")]
        admin.create_acls([*rules, rules[0]])
        assert admin.describe_acls() == sorted(rules)
        fits = AclBindingFilter("topic", "t-1", "match")
        assert admin.describe_acls(fits) == sorted(rules[1:])
        assert producer.send("t", b"x").result(HANG_S).offset == 0
    with Admin(broker, security=login("alice", PASSWORD)) as alice, pytest.raises(AuthorizationError):
        alice.create_acls([rule("all")])
    assert admin.delete_acls([AclBindingFilter(operation="read"), fits]) == sorted(rules[1:])
    assert admin.delete_acls([AclBindingFilter()]) == rules[:1]
    assert admin.describe_acls() == []
    admin.delete_topics(["t"])
    admin.alter_user_scram_credentials([UserScramCredentialDeletion("alice", "SCRAM-SHA-512")])


def test_quotas(admin):
    entities = ({"user": "alice"}, {"user": "alice", "client-id": None}, ANY_USER, {"client-id": "c"})
    for entity in entities:
        admin.alter_client_quotas(entity, {"producer_byte_rate": 1000, "request_percentage": 12.5})
    admin.alter_client_quotas({"ip": "10.0.0.1"}, {"connection_creation_rate": 7}, validate_only=True)
    admin.alter_client_quotas({"ip": None}, {"connection_creation_rate": 5})
    found = admin.describe_client_quotas()
    assert found.keys() == {frozenset(each.items()) for each in (*entities, {"ip": None})}
    assert found[frozenset({("ip", None)})] == {"connection_creation_rate": 5}
    assert len(admin.describe_client_quotas({"user": "alice"})) == 2
    of_alice = admin.describe_client_quotas({"user": "alice"}, strict=True)
    assert of_alice == {
        frozenset({("user", "alice")}): {"producer_byte_rate": 1000, "request_percentage": 12.5}
    }
    for entity in entities:
        admin.alter_client_quotas(entity, {"producer_byte_rate": None, "request_percentage": None})
    admin.alter_client_quotas({"ip": None}, {"connection_creation_rate": None})
    assert admin.describe_client_quotas() == {}


def test_delegation_tokens(broker, admin):
    token = admin.create_delegation_token(
        owner="User:alice", renewers=["User:admin"], max_lifetime_ms=600_000
    )
    assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:admin", ("User:admin",))
    assert token.max_timestamp_ms - token.issue_timestamp_ms == 600_000
    assert token.password not in repr(token)
    for each in (token.owner, *token.renewers):
        wait_until(lambda each=each: admin.describe_delegation_tokens([each]) == [token])
    assert admin.describe_delegation_tokens(["User:carol"]) == []
    assert admin.renew_delegation_token(token.hmac, renew_period_ms=60_000) < token.max_timestamp_ms
    jaas = f'{SCRAM} username="{token.token_id}" password="{token.password}" tokenauth="true";'
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": jaas,
    }
    assert topics_of(broker, **settings) == {}
    with Admin(broker, security=settings) as user, pytest.raises(BrokerError, match="REQUEST_NOT_ALLOWED"):
        user.create_delegation_token()
    admin.expire_delegation_token(token.hmac)
    wait_until(lambda: admin.describe_delegation_tokens() == [])
    with pytest.raises(AuthenticationError):
        topics_of(broker, **settings)
    with pytest.raises(BrokerError, match="DELEGATION_TOKEN_NOT_FOUND"):
        admin.renew_delegation_token(token.hmac)
