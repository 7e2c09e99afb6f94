"""Local reads of a broker with access control: by whom, and until when."""

import os
import socket
import struct
import threading

import pytest

import bowstring
from bowstring.clients.admin.acls import AclBinding, AclBindingFilter
from bowstring.clients.consumer.local_reader import LocalReader
from bowstring.clients.errors import BrokerError, LocalReadsUnavailableError
from bowstring.clients.local.local_connection import LocalConnection
from bowstring.engine.local.requests import LOGIN_S
from bowstring.engine.local.tokens import VALID_S
from bowstring.protocol.errors import Errors
from bowstring.protocol.local_read_configs import INSTANCE_CONFIG, SOCKET_CONFIG, TOKEN_CONFIG
from bowstring.protocol.local_reads import SegmentsRequest
from tests.support.access import STANDARD
from tests.support.embedded import engine_of
from tests.support.waiting import HANG_S, wait_until

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USERS = {"admin": "a-secret", "alice": "b-secret", "bob": "c-secret"}
DENIED = Errors.TOPIC_AUTHORIZATION_FAILED.code


def security(user):
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": USERS[user],
    }


class Secured:
    """A broker with a topic `t`, which alice may read."""

    def __init__(self, directory):
        users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
        self.broker = bowstring.Broker(
            data_dir=directory,
            config={
                "listeners": "OUTER://127.0.0.1:0",
                "listener.security.protocol.map": "OUTER:SASL_PLAINTEXT",
                "inter.broker.listener.name": "OUTER",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.outer.plain.sasl.jaas.config": (
                    f'{LOGIN} username="admin" password="{USERS["admin"]}" {users};'
                ),
                "authorizer.class.name": STANDARD,
                "super.users": "User:admin",
            },
        ).start()
        self.servers = f"127.0.0.1:{self.broker.port}"
        with self.admin("admin") as admin:
            admin.create_topic("t", 1)
        with bowstring.Producer(self.servers, **security("admin")) as producer:
            producer.send("t", b"x" * 1000).result(HANG_S)

    def admin(self, user):
        return bowstring.Admin(self.servers, **security(user))

    def told(self, user, names=(SOCKET_CONFIG, INSTANCE_CONFIG, TOKEN_CONFIG)):
        with self.admin(user) as admin:
            return {
                name: each.value for name, each in admin.describe_configs("broker", "1", names=names).items()
            }

    def allow(self, user):
        with self.admin("admin") as admin:
            admin.create_acls([AclBinding("topic", "t", "literal", f"User:{user}", "*", "read", "allow")])

    def forget(self):
        with self.admin("admin") as admin:
            admin.delete_acls([AclBindingFilter()])


@pytest.fixture(scope="module")
def module_secured(tmp_path_factory):
    made = Secured(tmp_path_factory.mktemp("secured") / "data")
    yield made
    made.broker.stop()


@pytest.fixture
def secured(module_secured):
    module_secured.allow("alice")
    yield module_secured
    module_secured.forget()


@pytest.fixture
def connect(secured, request):
    def make(token):
        connection = LocalConnection(secured.told("admin")[SOCKET_CONFIG], token=token)
        request.addfinalizer(connection.close)
        return connection

    return make


def code_at(connection, request):
    try:
        connection.segments(request)
    except BrokerError as error:
        return error.code
    return 0


def code_of(connection, topic="t"):
    return code_at(connection, SegmentsRequest(topic, 0, 0))


def files_of(connection):
    answer = connection.segments(SegmentsRequest("t", 0, 0))
    for each in answer.segments:
        os.close(each.fd)
    return len(answer.segments)


def read(secured, user):
    with LocalReader(
        secured.servers, topic="t", partition=0, start=0, end=1, security=security(user)
    ) as reader:
        return [batch.num_rows for batch in reader]


def test_who_may_read_a_topic_gets_its_files(secured):
    assert read(secured, "alice") == [1]
    with bowstring.Consumer(secured.servers, local=True, **security("alice")) as consumer:
        consumer.assign([("t", 0)])
        consumer.seek_to_beginning()
        assert [record.value for record in consumer.poll(HANG_S)] == [b"x" * 1000]


def test_others_get_none_and_a_missing_topic_looks_the_same(secured, connect):
    connection = connect(secured.told("bob")[TOKEN_CONFIG])
    assert code_of(connection) == DENIED
    assert code_of(connection, "missing") == DENIED
    assert files_of(connect(secured.told("alice")[TOKEN_CONFIG])) == 1


def test_a_withdrawn_right_ends_hand_outs_on_an_open_connection(secured, connect):
    connection = connect(secured.told("alice")[TOKEN_CONFIG])
    assert files_of(connection) == 1
    secured.forget()
    assert code_of(connection) == DENIED


def test_a_right_that_is_withdrawn_during_a_wait_hands_out_nothing(secured, connect):
    connection = connect(secured.told("alice")[TOKEN_CONFIG])
    codes = []
    end = engine_of(secured.broker).logs.get("t", 0).high_watermark
    request = SegmentsRequest("t", 0, end, max_wait_ms=int(HANG_S * 1000))
    waiting = threading.Thread(target=lambda: codes.append(code_at(connection, request)), daemon=True)
    waiting.start()
    wait_until(lambda: engine_of(secured.broker).local.waiting == 1)
    secured.forget()
    with bowstring.Producer(secured.servers, **security("admin")) as producer:
        producer.send("t", b"secret").result(HANG_S)
    waiting.join(HANG_S)
    assert codes == [DENIED]


def test_a_token_opens_one_connection(secured, connect):
    token = secured.told("alice")[TOKEN_CONFIG]
    connect(token)
    for wrong in (token, "guessed", token[:-1]):
        with pytest.raises(LocalReadsUnavailableError, match="token is unknown, used or too old"):
            connect(wrong)


def test_without_a_token_there_are_no_files(secured, connect):
    with pytest.raises(LocalReadsUnavailableError, match="token is unknown"):
        connect("")
    assert secured.told("admin", [SOCKET_CONFIG, INSTANCE_CONFIG]).keys() == {SOCKET_CONFIG}


def test_requests_without_a_login_hold_no_connection(secured):
    """Also those of a version that the broker does not have, whose refusal ends no connection."""
    local = engine_of(secured.broker).local
    before = local.tokens.clock
    unknown = struct.pack(">ihhi", 8, 99, 99, 1)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.settimeout(HANG_S)
        stranger.connect(secured.told("admin")[SOCKET_CONFIG])
        stranger.sendall(unknown)
        assert len(stranger.recv(1000)) > 4
        local.tokens.clock = lambda: before() + LOGIN_S
        answers = 0
        try:
            while answers < 20 and stranger.send(unknown) and stranger.recv(1000):
                answers += 1
        except (BrokenPipeError, ConnectionResetError):
            pass  # it ended before the request was read
        finally:
            local.tokens.clock = before
        assert answers <= 1


def test_a_login_ends(secured, connect):
    connection = connect(secured.told("alice")[TOKEN_CONFIG])
    tokens = engine_of(secured.broker).local.tokens
    assert files_of(connection) == 1
    before = tokens.clock
    tokens.clock = lambda: before() + 3600
    try:
        with pytest.raises((BrokerError, LocalReadsUnavailableError)):
            files_of(connection)
        with pytest.raises(LocalReadsUnavailableError):
            files_of(connection)
    finally:
        tokens.clock = before


def test_a_token_needs_no_permission_but_other_configs_do(secured):
    assert set(secured.told("bob")) == {SOCKET_CONFIG, INSTANCE_CONFIG, TOKEN_CONFIG}
    for names in ([SOCKET_CONFIG], [TOKEN_CONFIG, "log.dirs"]):
        with pytest.raises(BrokerError):
            secured.told("bob", names)
    with secured.admin("admin") as admin:
        assert TOKEN_CONFIG not in admin.describe_configs("broker", "1")


def test_tokens_that_nobody_presents_are_forgotten(secured):
    tokens = engine_of(secured.broker).local.tokens
    secured.told("alice")
    assert len(tokens)
    before = tokens.clock
    tokens.clock = lambda: before() + VALID_S
    secured.told("bob")
    assert len(tokens) == 1
    tokens.clock = before
