"""Lists every error of Kafka 4.4's protocol; one row adds one."""

from __future__ import annotations

from typing import ClassVar


class Error:
    """One error: its `code` on the wire, Kafka's `name`, whether the same request may succeed if sent again
    (`retriable`), and its meaning (`message`).
    """

    __slots__ = ("code", "message", "name", "retriable")

    def __init__(self, code: int, message: str, *, retriable: bool = False) -> None:
        self.code = code
        self.name = ""
        self.message = message
        self.retriable = retriable

    def __set_name__(self, owner: type, name: str) -> None:
        if self.name:
            return  # a field's default in another class: Python 3.13 calls this for NamedTuples, too
        self.name = name
        table: dict[int, Error] = vars(owner)["BY_CODE"]
        table[self.code] = self

    def __repr__(self) -> str:
        return f"Errors.{self.name}"

    def __bool__(self) -> bool:
        """Whether this is an error: false for NONE."""
        return self.code != 0

    def __reduce__(self) -> str:
        return f"Errors.{self.name}"


class KafkaError(Exception):
    """A protocol error as an exception: `error` is its row, `detail` describes this case."""

    def __init__(self, error: Error, detail: str | None = None) -> None:
        super().__init__(error, detail)
        self.error = error
        self.detail = detail

    @property
    def code(self) -> int:
        """The error's code on the wire."""
        return self.error.code

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed if sent again."""
        return self.error.retriable

    def __str__(self) -> str:
        return f"{self.error.name} ({self.error.code}): {self.detail or self.error.message}"


class Errors:
    """The table of errors. ``Errors.NONE`` is a row, ``Errors.of(3)`` the row with code 3."""

    BY_CODE: ClassVar[dict[int, Error]] = {}

    UNKNOWN_SERVER_ERROR = Error(-1, "The broker hit an unexpected error; see its log for the cause.")
    NONE = Error(0, "No error.")
    OFFSET_OUT_OF_RANGE = Error(1, "The offset is below the log start offset or beyond the end of the log.")
    CORRUPT_MESSAGE = Error(
        2,
        "A batch is corrupt: wrong CRC or size, or a record without a key on a compacted topic.",
        retriable=True,
    )
    UNKNOWN_TOPIC_OR_PARTITION = Error(3, "This broker has no such topic or partition.", retriable=True)
    INVALID_FETCH_SIZE = Error(4, "The fetch size is not valid.")
    LEADER_NOT_AVAILABLE = Error(5, "The partition has no leader at the moment.", retriable=True)
    NOT_LEADER_OR_FOLLOWER = Error(
        6, "This broker is not the leader, or holds no replica, of the partition.", retriable=True
    )
    REQUEST_TIMED_OUT = Error(7, "The request was not completed in the time it allows.", retriable=True)
    BROKER_NOT_AVAILABLE = Error(8, "The broker is not available.")
    REPLICA_NOT_AVAILABLE = Error(9, "The replica is not available.", retriable=True)
    MESSAGE_TOO_LARGE = Error(10, "A record batch is larger than max.message.bytes allows.")
    STALE_CONTROLLER_EPOCH = Error(11, "Another controller is now active.")
    OFFSET_METADATA_TOO_LARGE = Error(
        12, "The metadata string of a committed offset is longer than offset.metadata.max.bytes."
    )
    NETWORK_EXCEPTION = Error(13, "The connection was lost before the response came.", retriable=True)
    COORDINATOR_LOAD_IN_PROGRESS = Error(14, "The coordinator is still loading its state.", retriable=True)
    COORDINATOR_NOT_AVAILABLE = Error(15, "The coordinator is not available.", retriable=True)
    NOT_COORDINATOR = Error(16, "This broker does not coordinate that group or transaction.", retriable=True)
    INVALID_TOPIC_EXCEPTION = Error(17, "The topic name is not valid, or the topic may not be used this way.")
    RECORD_LIST_TOO_LARGE = Error(18, "The batch is larger than a log segment may be.")
    NOT_ENOUGH_REPLICAS = Error(
        19,
        "Fewer replicas are in sync than min.insync.replicas asks for; nothing was written.",
        retriable=True,
    )
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = Error(
        20, "The records were written, but to fewer in-sync replicas than asked for.", retriable=True
    )
    INVALID_REQUIRED_ACKS = Error(21, "acks must be -1, 0 or 1.")
    ILLEGAL_GENERATION = Error(22, "The group has moved on to another generation.")
    INCONSISTENT_GROUP_PROTOCOL = Error(23, "The member shares no protocol with the group, or named none.")
    INVALID_GROUP_ID = Error(24, "The group id is not valid.")
    UNKNOWN_MEMBER_ID = Error(25, "The group has no such member.")
    INVALID_SESSION_TIMEOUT = Error(
        26, "The session timeout is outside group.min.session.timeout.ms to group.max.session.timeout.ms."
    )
    REBALANCE_IN_PROGRESS = Error(27, "The group is rebalancing; join again.")
    INVALID_COMMIT_OFFSET_SIZE = Error(28, "The commit is larger than the offsets topic can store.")
    TOPIC_AUTHORIZATION_FAILED = Error(29, "The principal may not do this to the topic.")
    GROUP_AUTHORIZATION_FAILED = Error(30, "The principal may not do this to the group.")
    CLUSTER_AUTHORIZATION_FAILED = Error(31, "The principal may not do this to the cluster.")
    INVALID_TIMESTAMP = Error(32, "A record's timestamp is outside the range the topic accepts.")
    UNSUPPORTED_SASL_MECHANISM = Error(33, "The broker does not offer this SASL mechanism.")
    ILLEGAL_SASL_STATE = Error(34, "The request does not fit the current state of SASL authentication.")
    UNSUPPORTED_VERSION = Error(35, "The broker does not support this version of the API.")
    TOPIC_ALREADY_EXISTS = Error(36, "A topic of this name exists.")
    INVALID_PARTITIONS = Error(37, "The number of partitions is not valid.")
    INVALID_REPLICATION_FACTOR = Error(
        38, "The replication factor is below 1 or above the number of brokers."
    )
    INVALID_REPLICA_ASSIGNMENT = Error(39, "The replica assignment is not valid.")
    INVALID_CONFIG = Error(40, "A config is not valid.")
    NOT_CONTROLLER = Error(41, "This node is not the active controller.", retriable=True)
    INVALID_REQUEST = Error(42, "The request is malformed or contradicts itself.")
    UNSUPPORTED_FOR_MESSAGE_FORMAT = Error(43, "The message format of the log does not support the request.")
    POLICY_VIOLATION = Error(44, "A policy of the cluster forbids the request.")
    OUT_OF_ORDER_SEQUENCE_NUMBER = Error(45, "The producer's sequence number leaves a gap.")
    DUPLICATE_SEQUENCE_NUMBER = Error(
        46, "The producer's sequence number was seen before, and its offset is no longer known."
    )
    INVALID_PRODUCER_EPOCH = Error(47, "The producer's epoch is older than one seen before.")
    INVALID_TXN_STATE = Error(48, "The transaction's state does not allow the operation.")
    INVALID_PRODUCER_ID_MAPPING = Error(49, "The transactional id belongs to another producer id.")
    INVALID_TRANSACTION_TIMEOUT = Error(50, "The transaction timeout is above transaction.max.timeout.ms.")
    CONCURRENT_TRANSACTIONS = Error(
        51, "Another operation on the same transaction is in progress.", retriable=True
    )
    TRANSACTION_COORDINATOR_FENCED = Error(
        52, "The sender of the markers no longer coordinates the transaction."
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = Error(53, "The principal may not use the transactional id.")
    SECURITY_DISABLED = Error(54, "Security is switched off on this cluster.")
    OPERATION_NOT_ATTEMPTED = Error(
        55, "Not attempted, because another operation of the same request failed."
    )
    KAFKA_STORAGE_ERROR = Error(56, "A disk error occurred on the broker; see its log.", retriable=True)
    LOG_DIR_NOT_FOUND = Error(57, "The broker has no such log directory.")
    SASL_AUTHENTICATION_FAILED = Error(58, "SASL authentication failed.")
    UNKNOWN_PRODUCER_ID = Error(59, "The partition has no state for this producer id.")
    REASSIGNMENT_IN_PROGRESS = Error(60, "The partition is being reassigned.")
    DELEGATION_TOKEN_AUTH_DISABLED = Error(61, "Delegation tokens are switched off.")
    DELEGATION_TOKEN_NOT_FOUND = Error(62, "No such delegation token.")
    DELEGATION_TOKEN_OWNER_MISMATCH = Error(63, "The principal neither owns nor may renew the token.")
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = Error(
        64, "Delegation tokens cannot be requested over this kind of connection."
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = Error(
        65, "The principal may not do this to the delegation token."
    )
    DELEGATION_TOKEN_EXPIRED = Error(66, "The delegation token has expired.")
    INVALID_PRINCIPAL_TYPE = Error(67, "The type of the principal is not supported.")
    NON_EMPTY_GROUP = Error(68, "The group still has members.")
    GROUP_ID_NOT_FOUND = Error(69, "No such group.")
    FETCH_SESSION_ID_NOT_FOUND = Error(70, "No such fetch session; it may have been evicted.", retriable=True)
    INVALID_FETCH_SESSION_EPOCH = Error(
        71, "The epoch of the fetch session is not the next one.", retriable=True
    )
    LISTENER_NOT_FOUND = Error(
        72, "The leader has no listener like the one the request came through.", retriable=True
    )
    TOPIC_DELETION_DISABLED = Error(73, "delete.topic.enable is false.")
    FENCED_LEADER_EPOCH = Error(74, "The request's leader epoch is older than the broker's.", retriable=True)
    UNKNOWN_LEADER_EPOCH = Error(75, "The request's leader epoch is newer than the broker's.", retriable=True)
    UNSUPPORTED_COMPRESSION_TYPE = Error(
        76, "The client's version cannot read the compression of the partition."
    )
    STALE_BROKER_EPOCH = Error(77, "The broker epoch has changed.")
    OFFSET_NOT_AVAILABLE = Error(78, "A new leader's high watermark has not caught up yet.", retriable=True)
    MEMBER_ID_REQUIRED = Error(79, "Join again with the member id given in this response.")
    PREFERRED_LEADER_NOT_AVAILABLE = Error(80, "The preferred leader is not available.", retriable=True)
    GROUP_MAX_SIZE_REACHED = Error(81, "The group has group.max.size members.")
    FENCED_INSTANCE_ID = Error(82, "Another member has registered with the same group.instance.id.")
    ELIGIBLE_LEADERS_NOT_AVAILABLE = Error(83, "No replica is eligible to lead.", retriable=True)
    ELECTION_NOT_NEEDED = Error(84, "The leader is already the one an election would choose.", retriable=True)
    NO_REASSIGNMENT_IN_PROGRESS = Error(85, "The partition is not being reassigned.")
    GROUP_SUBSCRIBED_TO_TOPIC = Error(86, "The group is subscribed to the topic.")
    INVALID_RECORD = Error(87, "A record failed the broker's validation; the batch was rejected.")
    UNSTABLE_OFFSET_COMMIT = Error(
        88, "An open transaction holds offsets of the partition; retry later.", retriable=True
    )
    THROTTLING_QUOTA_EXCEEDED = Error(89, "A quota is exceeded.", retriable=True)
    PRODUCER_FENCED = Error(90, "A newer producer uses the same transactional id.")
    RESOURCE_NOT_FOUND = Error(91, "The request names a resource that does not exist.")
    DUPLICATE_RESOURCE = Error(92, "The request names a resource twice.")
    UNACCEPTABLE_CREDENTIAL = Error(93, "The credential does not meet the requirements.")
    INCONSISTENT_VOTER_SET = Error(94, "Sender or receiver is not among the expected voters.")
    INVALID_UPDATE_VERSION = Error(95, "The update's version is not valid.")
    FEATURE_UPDATE_FAILED = Error(96, "The features could not be updated.")
    PRINCIPAL_DESERIALIZATION_FAILURE = Error(97, "A forwarded principal could not be read.")
    SNAPSHOT_NOT_FOUND = Error(98, "No such snapshot.")
    POSITION_OUT_OF_RANGE = Error(99, "The position is outside the snapshot.")
    UNKNOWN_TOPIC_ID = Error(100, "This broker has no topic of this id.", retriable=True)
    DUPLICATE_BROKER_REGISTRATION = Error(101, "The broker id is in use.")
    BROKER_ID_NOT_REGISTERED = Error(102, "The broker id is not registered.")
    INCONSISTENT_TOPIC_ID = Error(103, "The topic id does not match the topic id of the log.", retriable=True)
    INCONSISTENT_CLUSTER_ID = Error(104, "The cluster id is not this cluster's.")
    TRANSACTIONAL_ID_NOT_FOUND = Error(105, "No such transactional id.")
    FETCH_SESSION_TOPIC_ID_ERROR = Error(
        106, "The fetch session mixes topics with and without ids.", retriable=True
    )
    INELIGIBLE_REPLICA = Error(107, "A replica of the new in-sync set is not eligible for it.")
    NEW_LEADER_ELECTED = Error(108, "The partition was updated, and has a new leader.")
    OFFSET_MOVED_TO_TIERED_STORAGE = Error(109, "The offset is available in tiered storage only.")
    FENCED_MEMBER_EPOCH = Error(110, "The member's epoch is fenced; give up all partitions and join again.")
    UNRELEASED_INSTANCE_ID = Error(111, "Another member still uses the instance id.")
    UNSUPPORTED_ASSIGNOR = Error(112, "The group does not support the assignor or its version.")
    STALE_MEMBER_EPOCH = Error(113, "The member's epoch is behind; repeat after the next heartbeat.")
    MISMATCHED_ENDPOINT_TYPE = Error(114, "This endpoint is of another type than the request is for.")
    UNSUPPORTED_ENDPOINT_TYPE = Error(115, "This type of endpoint is not supported.")
    UNKNOWN_CONTROLLER_ID = Error(116, "No such controller id.")
    UNKNOWN_SUBSCRIPTION_ID = Error(117, "The telemetry subscription is no longer valid.")
    TELEMETRY_TOO_LARGE = Error(118, "The telemetry is larger than telemetry.max.bytes.")
    INVALID_REGISTRATION = Error(119, "The controller does not accept the registration.")
    TRANSACTION_ABORTABLE = Error(120, "The transaction failed; abort it to go on.")
    INVALID_RECORD_STATE = Error(121, "The record's state does not allow this acknowledgement.")
    SHARE_SESSION_NOT_FOUND = Error(122, "No such share session.", retriable=True)
    INVALID_SHARE_SESSION_EPOCH = Error(
        123, "The epoch of the share session is not the next one.", retriable=True
    )
    FENCED_STATE_EPOCH = Error(124, "The state epoch of the share partition is newer.")
    INVALID_VOTER_KEY = Error(125, "The voter key does not match the receiver's.")
    DUPLICATE_VOTER = Error(126, "The voter is already in the set.")
    VOTER_NOT_FOUND = Error(127, "The voter is not in the set.")
    INVALID_REGULAR_EXPRESSION = Error(128, "The regular expression is not valid.")
    REBOOTSTRAP_REQUIRED = Error(
        129, "The client's metadata is stale; start again from the bootstrap servers."
    )
    STREAMS_INVALID_TOPOLOGY = Error(130, "The topology is not valid.")
    STREAMS_INVALID_TOPOLOGY_EPOCH = Error(131, "The epoch of the topology is not valid.")
    STREAMS_TOPOLOGY_FENCED = Error(132, "The epoch of the topology is outdated.")
    SHARE_SESSION_LIMIT_REACHED = Error(
        133, "The broker has as many share sessions as it allows.", retriable=True
    )
    GROUP_DELETION_FAILED = Error(134, "The group could not be deleted; its error message says why.")
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = Error(
        135, "The broker could not process the description of the topology; the error message says why."
    )
    CONTROLLER_ID_NOT_REGISTERED = Error(136, "The controller id is not registered.")

    @classmethod
    def of(cls, code: int) -> Error:
        """Returns the row of `code`; like Kafka's clients, UNKNOWN_SERVER_ERROR for an unknown code."""
        return cls.BY_CODE.get(code, cls.UNKNOWN_SERVER_ERROR)
