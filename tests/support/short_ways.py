"""A broker with access control, on which a test sends the same request the short ways and the long way."""

import socket
from contextlib import contextmanager

from bowstring.protocol.messages import join_group as jg
from bowstring.protocol.messages import sync_group as sg
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest
from bowstring.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from bowstring.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.access import STANDARD
from tests.support.served_broker import Served
from tests.support.waiting import HANG_S
from tests.support.wire_client import WireClient

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
CONFIG = {
    "listeners": "INNER://127.0.0.1:0,OUTER://127.0.0.1:0",
    "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "INNER",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.outer.plain.sasl.jaas.config": f'{LOGIN} user_alice="secret" user_bob="secret";',
    "authorizer.class.name": STANDARD,
    "super.users": "User:ANONYMOUS",
    "auto.create.topics.enable": "false",
    "quota.window.num": "2",
}
WAYS = ("_answer_kept", "_gather", "_answer_encoded", "_answer_at_once")
SESSION_MS = 300_000


class SecuredServed(Served):
    """Clients of `connect` may do everything; those of `log_in` what the rules say."""

    def log_in(self, user, host="127.0.0.1"):
        """Returns a client with the name of a user, from an address of this machine."""
        (port,) = [each.port for each in self.engine.listeners if each.name == "OUTER"]
        client = LoggedIn(port, host)
        client.log_in(user)
        self._clients.append(client)
        return client

    @contextmanager
    def long_way(self):
        """Has the dispatcher answer as it does what the short ways do not take."""
        dispatcher = self.engine.dispatcher
        for name in WAYS:
            setattr(dispatcher, name, lambda message: False)
        try:
            yield
        finally:
            for name in WAYS:
                delattr(dispatcher, name)

    def leased(self):
        """How many heartbeats reactors have answered."""
        counters = self.engine.plane.counters()
        return counters["heartbeat"]["requests"] + counters["consumer_group_heartbeat"]["requests"]

    def find_coordinators(self, *groups):
        answer = self.ask(FindCoordinatorRequest(coordinator_keys=list(groups)), 6)
        assert {each.error_code for each in answer.coordinators} == {0}

    def join(self, group):
        """Returns id and generation of a member that is alone in its classic group."""
        request = jg.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            protocol_type="consumer",
            protocols=[jg.JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        request.member_id = self.ask(request, 5).member_id
        joined = self.ask(request, 5)
        assert joined.error_code == 0
        assigned = sg.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")
        ending = sg.SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=[assigned],
        )
        assert self.ask(ending, 3).error_code == 0
        return joined.member_id, joined.generation_id


class LoggedIn(WireClient):
    """A connection from an address, with the name of a user after `log_in`."""

    def __init__(self, port, host):
        super().__init__(port)
        self._socket.close()
        self._socket = socket.create_connection(("127.0.0.1", port), HANG_S, source_address=(host, 0))

    def log_in(self, user):
        assert self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        answer = self.ask(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0secret".encode()), 2)
        assert answer.error_code == 0

    def exchange(self, frame):
        """Sends an encoded request; returns the bytes of its answer."""
        self.send(frame)
        return self.receive()
