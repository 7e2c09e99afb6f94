"""What administrators have set is what brokers answer after the trouble: SCRAM credentials and client quotas."""

from types import SimpleNamespace

from bowstring.engine.api import describe_client_quotas, describe_user_scram_credentials
from bowstring.engine.broker.quota_publisher import _rules
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from bowstring.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from tests.simulation.nodes.invariants import Rule
from tests.simulation.nodes.settings import USERS

REFUSED = {
    each.code
    for each in (
        Errors.DUPLICATE_RESOURCE,
        Errors.INVALID_REQUEST,
        Errors.UNACCEPTABLE_CREDENTIAL,
    )
}
"""What is answered with these has changed nothing; with any other error it may have."""


class AcknowledgedChanges(Rule):
    """A rule about values by key; each change has a value of its own, and None removes."""

    def __init__(self, world):
        super().__init__(world)
        # By key: value, when the change began, and when it was acknowledged. None: it may happen at any time.
        self.changes: dict[object, list[tuple[object, int, int | None]]] = {}

    def changed(self, key, value, began, code):
        """A client has the answer to a change, or none (None)."""
        if code not in REFUSED:
            # A removal that finds nothing to remove may be the same one, repeated by a broker that forwards it.
            is_done = code in (Errors.NONE.code, Errors.RESOURCE_NOT_FOUND.code)
            at = self.world.kernel.now if is_done else None
            self.changes.setdefault(key, []).append((value, began, at))

    def possible(self, key):
        """Yields the values that the key may have now: no acknowledged change came after theirs."""
        changes = self.changes.get(key, ())
        last = max((began for _, began, at in changes if at is not None), default=None)
        if last is None:
            yield None
        for value, _, at in changes:
            if at is None or at >= last:
                yield value

    def check(self, node, answered):
        """Compares what a node answers, values by key."""
        for key in self.changes.keys() | answered.keys():
            possible = list(self.possible(key))
            if answered.get(key) not in possible:
                self.fail(f"{node.name} answers {answered.get(key)} for {key}; it is one of {possible}")


class CredentialsAreKept(AcknowledgedChanges):
    """After the trouble, each broker describes the SCRAM credentials that were acknowledged last."""

    def credential_changed(self, key, value, began, code):
        self.changed(key, value, began, code)

    def at_end(self):
        for node, broker in self.brokers():
            answer = answered(
                describe_user_scram_credentials.handle(
                    asking(DescribeUserScramCredentialsRequest(users=None)),
                    metadata=broker.quorum,
                    time_slices=None,
                )
            )
            self.check(
                node,
                {
                    (result.user, each.mechanism): each.iterations
                    for result in answer.results
                    for each in result.credential_infos
                    if result.user in USERS
                },
            )


class QuotasAreKept(AcknowledgedChanges):
    """After the trouble, each broker describes the client quotas that were acknowledged last, and follows them."""

    def quota_changed(self, key, value, began, code):
        self.changed(key, value, began, code)

    def at_end(self):
        for node, broker in self.brokers():
            answer = answered(
                describe_client_quotas.handle(
                    asking(DescribeClientQuotasRequest(components=[])), metadata=broker.quorum
                )
            )
            self.check(
                node,
                {
                    (
                        tuple((each.entity_type, each.entity_name) for each in entry.entity),
                        each.key,
                    ): each.value
                    for entry in answer.entries
                    for each in entry.values
                },
            )
            due = sorted(_rules(broker.quorum.image.client_quotas), key=repr)
            if (followed := broker.plane.quotas.rules if broker.plane.quotas else []) != due:
                self.fail(f"{node.name} follows {followed}, and knows {due}")


def asking(body):
    """A request of an administrator."""
    return SimpleNamespace(body=body)


def answered(handler):
    """The answer of a handler that waits for nothing."""
    try:
        handler.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the handler waits")
