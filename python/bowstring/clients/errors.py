"""Defines the errors of the clients; each message says what to do.

Every exception is a `ClientError`. One that a broker answered is a `BrokerError`: `error` is its row of
Kafka's error table, and common ones have their own classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bowstring.distribution import install_command
from bowstring.protocol.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bowstring.clients.records import Node, TopicPartition


class ClientError(Exception):
    """Base of all errors raised by the clients.

    Attributes:
        retriable: the same request may succeed when sent again.
    """

    retriable = False


class BrokerUnreachableError(ClientError):
    """A connection could not be opened.

    Args:
        node: the broker's address.
        reason: what the system said.
    """

    retriable = True

    def __init__(self, node: Node, reason: str):
        super().__init__(
            f"cannot reach a broker at {node.host}:{node.port}: {reason}. Check that it is running, that "
            "host and port are right, and that no firewall blocks the connection"
        )
        self.node = node
        self.reason = reason


class UnresolvedNameError(BrokerUnreachableError):
    """The name of a broker's host does not resolve."""


class AuthenticationError(ClientError):
    """A broker refused the login, or did not prove who it is. Clients do not repeat it: another attempt needs
    other settings, or a change at the broker.

    Args:
        node: the broker's address.
        reason: why, and what to do. It never has a secret.
        code: Kafka's error code, if the broker answered with one.

    Attributes:
        code: Kafka's error code; else librdkafka's, as in confluent-kafka: -169.
    """

    OTHERWISE = -169

    def __init__(self, node: Node, reason: str, code: int = 0):
        super().__init__(reason)
        self.node = node
        self.reason = reason
        self.code = code or self.OTHERWISE


class TlsError(AuthenticationError):
    """TLS could not be set up: a certificate is not trusted, has expired or is of another host, or the
    sides have no version or cipher in common.

    Attributes:
        code: librdkafka's, as in confluent-kafka: -181.
    """

    OTHERWISE = -181


class BootstrapResolutionError(ClientError):
    """No name of the bootstrap servers resolved in time (KIP-909). The client is unusable from then on.

    Args:
        hosts: the names.
        waited_s: seconds since the first look-up.
    """

    def __init__(self, hosts: Iterable[str], waited_s: float):
        super().__init__(
            f"none of the bootstrap servers' names ({', '.join(hosts)}) resolved within {waited_s:g} s "
            "(bootstrap_resolve_timeout_ms). Check the names and DNS, close this client and make another"
        )


class MisroutedError(ClientError):
    """A connection reached another broker, or a broker of another cluster, than the one that was meant."""

    retriable = True

    def __init__(self) -> None:
        super().__init__(
            "the address of a broker leads to another one now: the client asks the bootstrap servers again. "
            "Check that they, DNS and proxies lead to one cluster"
        )


class NoBrokerError(ClientError):
    """None of the known brokers answered in time.

    Args:
        failures: brokers, and why each could not be reached.
        waited_s: seconds since the first attempt.
    """

    retriable = True

    def __init__(self, failures: Iterable[tuple[Node, str]], waited_s: float):
        tried = "; ".join(f"{node.host}:{node.port}: {reason}" for node, reason in failures) or "none known"
        super().__init__(
            f"no broker could be reached within {waited_s:g} s ({tried}). "
            "Check that one is running (`bowstring serve`) and that the bootstrap servers are right"
        )


class ConnectionLostError(ClientError):
    """An open connection broke with requests in flight.

    Args:
        node: the broker's address.
        reason: how it broke.
    """

    retriable = True

    def __init__(self, node: Node, reason: str):
        super().__init__(f"lost the connection to {node}: {reason}")
        self.node = node


class RequestTimedOutError(ClientError):
    """A broker did not answer a request in time.

    Args:
        api: name of the request.
        node: the broker's address.
        timeout_s: seconds that it had.
    """

    retriable = True

    def __init__(self, api: str, node: Node, timeout_s: float):
        super().__init__(
            f"{node} did not answer {api} within {timeout_s:g} s: it may be overloaded or unreachable; "
            "raise request_timeout_ms to wait longer"
        )


class ClientTimeoutError(ClientError):
    """An awaited event did not happen in time. The message says which, and names the setting for the
    timeout.
    """


class ProtocolError(ClientError):
    """The other side does not speak Kafka's protocol, or violated it."""


class GarbledAnswerError(ProtocolError):
    """A broker's answer cannot be decoded. Its connection is closed, and the request is sent again on a new
    one.

    Args:
        reason: what is wrong with it.
    """

    retriable = True

    def __init__(self, reason: str):
        super().__init__(
            f"{reason}. The client reconnects; if this repeats, look for a proxy that changes bytes, or a "
            "server that is not a Kafka broker"
        )


class UnsupportedApiError(ClientError):
    """The broker does not offer an API in any version that this client supports."""


class ConfigError(ClientError):
    """An argument of a client is invalid; the message names it."""


class MissingPackageError(ClientError, ImportError):
    """A feature needs a package that is not installed.

    Args:
        package: what is missing.
        extra: of Bowstring, which installs it.
    """

    def __init__(self, package: str, extra: str):
        super().__init__(f"this needs {package}: {install_command(extra)}")
        self.package = package
        self.extra = extra


class ClosedError(ClientError):
    """The client was used after close()."""


class ForkedError(ClosedError):
    """A client was created before a fork and used in the child: its connections and thread belong to the
    parent. Create another one in the child.
    """


class BufferFullError(ClientError):
    """The producer's memory stayed full for max_block_ms: brokers accept records more slowly than they are
    sent.
    """

    retriable = True


class NoOffsetError(ClientError):
    """A partition has no committed offset and auto_offset_reset is `none`.

    Args:
        partition: the partition.
    """

    def __init__(self, partition: TopicPartition):
        super().__init__(
            f"no offset is known for {partition}: commit one, call seek(), or set auto_offset_reset"
        )
        self.partition = partition


class LocalReadsUnavailableError(ClientError):
    """The broker's files cannot be read from here: it is on another machine, or denies access to this
    user.

    Args:
        reason: which of them.
    """

    def __init__(self, reason: str):
        super().__init__(
            f"local reads are unavailable: {reason}. Without local=True the client reads over TCP"
        )


class CorruptBatchError(ClientError):
    """Fetched bytes are not valid record batches."""


class UndecodableRecordError(ClientError, ValueError):
    """A record's key or value does not decode with the consumer's format. Records before it came first, and
    the position is at the record: `seek()` behind it to go on. A ShareConsumer releases the record.

    Attributes:
        record: the Record or ShareRecord; key and value are bytes.
        field: "key" or "value".
        reason: why it does not decode, with the byte.

    Args:
        advice: what to do, at the end of the message; by default, which offset to seek to.
    """

    def __init__(self, record: Any, field: str, reason: str, advice: str = ""):
        where = f"{record.topic}-{record.partition}, offset {record.offset}"
        advice = advice or f"seek() to {record.offset + 1} to continue behind it"
        super().__init__(f"{where}: the {field} does not decode: {reason}; {advice}")
        self.record = record
        self.field = field
        self.reason = reason


class BrokerError(ClientError):
    """A broker answered with an error of Kafka's table.

    Args:
        code: Kafka's error code.
        context: what was requested, such as "topic 'clicks'".
        detail: the broker's message, or another explanation.

    Attributes:
        code: Kafka's error code.
        name: its name, e.g. TOPIC_ALREADY_EXISTS.
    """

    def __init__(self, code: int, context: str = "", detail: str | None = None):
        row = Errors.of(code)
        self.code = code
        self.name: str = row.name
        self.retriable: bool = row.retriable
        text = detail or row.message
        advice = ADVICE.get(self.name)
        message = f"{context}: {text}" if context else text
        if self.name not in message:
            message = f"{message.rstrip('.')} [{self.name}]"
        super().__init__(f"{message}. {advice}" if advice else message)


class UnknownTopicError(BrokerError):
    """The topic or partition does not exist."""


class TopicExistsError(BrokerError):
    """The topic to create already exists."""


class RecordTooLargeError(BrokerError):
    """A record or batch is larger than the topic's max.message.bytes."""


class OffsetOutOfRangeError(BrokerError):
    """The requested offset is not in the log, and auto_offset_reset is `none`."""


class GroupError(BrokerError):
    """The group coordinator refused: the member is fenced or unknown, or the group is rebalancing."""


class CommitFailedError(GroupError):
    """Offsets were not committed, because the group has reassigned the partitions meanwhile."""


class FencedError(BrokerError):
    """Another producer or member with the same identity took over."""


class ProducerFencedError(FencedError):
    """Another producer with the same transactional_id began later. This one can do nothing more: close it."""


class TransactionFailedError(ClientError):
    """The transaction cannot be committed, because a record or a request of it failed: `__cause__` says why.
    Abort it and repeat it.
    """


class TransactionAbortedError(ClientError):
    """The record was not sent, because its transaction was aborted."""


class AuthorizationError(BrokerError):
    """The principal is not allowed to do this."""


ADVICE: dict[str, str] = {
    "UNKNOWN_TOPIC_OR_PARTITION": "Check the name, or create it with `bowstring topics create`",
    "MESSAGE_TOO_LARGE": "Raise max.message.bytes on the topic, or send smaller batches",
    "RECORD_LIST_TOO_LARGE": "Raise segment.bytes on the topic, or send smaller batches",
    "NOT_ENOUGH_REPLICAS": "Wait for replicas to come back, or lower min.insync.replicas",
    "NON_EMPTY_GROUP": "Stop the group's consumers first",
    "INCONSISTENT_GROUP_PROTOCOL": "The group may be of another type; see `bowstring groups describe`",
    "INVALID_REPLICATION_FACTOR": "Request at most as many replicas as there are brokers",
    "INVALID_TXN_STATE": "The transaction has ended already, for example by transaction_timeout_ms",
    "PRODUCER_FENCED": "Close this producer; the other one goes on",
    "UNSUPPORTED_COMPRESSION_TYPE": "Use a codec that this broker supports",
}

_CLASSES: dict[str, type[BrokerError]] = {
    "UNKNOWN_TOPIC_OR_PARTITION": UnknownTopicError,
    "UNKNOWN_TOPIC_ID": UnknownTopicError,
    "INVALID_TOPIC_EXCEPTION": UnknownTopicError,
    "TOPIC_ALREADY_EXISTS": TopicExistsError,
    "MESSAGE_TOO_LARGE": RecordTooLargeError,
    "RECORD_LIST_TOO_LARGE": RecordTooLargeError,
    "OFFSET_OUT_OF_RANGE": OffsetOutOfRangeError,
    "UNKNOWN_MEMBER_ID": GroupError,
    "ILLEGAL_GENERATION": GroupError,
    "REBALANCE_IN_PROGRESS": GroupError,
    "INCONSISTENT_GROUP_PROTOCOL": GroupError,
    "INVALID_GROUP_ID": GroupError,
    "GROUP_ID_NOT_FOUND": GroupError,
    "NON_EMPTY_GROUP": GroupError,
    "INVALID_SESSION_TIMEOUT": GroupError,
    "GROUP_MAX_SIZE_REACHED": GroupError,
    "FENCED_INSTANCE_ID": FencedError,
    "PRODUCER_FENCED": ProducerFencedError,
    "INVALID_PRODUCER_EPOCH": ProducerFencedError,
    "TOPIC_AUTHORIZATION_FAILED": AuthorizationError,
    "GROUP_AUTHORIZATION_FAILED": AuthorizationError,
    "CLUSTER_AUTHORIZATION_FAILED": AuthorizationError,
}


def broker_error(code: int, context: str = "", detail: str | None = None) -> BrokerError:
    """Returns the exception for Kafka's error `code`. `context`: the operation; `detail`: the broker's
    text.
    """
    name: str = Errors.of(code).name
    return _CLASSES.get(name, BrokerError)(code, context, detail)
