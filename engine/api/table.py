"""Lists the APIs that brokers and controllers serve: one row has all facts about an API.

Dispatch, ApiVersions, forwarding, refusals and the reference page follow from the rows. To add an API,
declare its messages (`python/bowstring/protocol/messages`), write its module in this package, add its row. A
module has ``async def handle(request, *, ...)``, which returns the response's body. Its keyword-only
parameters state the parts of the node that it uses, by the names and types that `engine.broker` has for them.
It is imported, and gets its parts, on the first request.
Permissions are those that Kafka 4.4 checks (its KafkaApis and ControllerApis). What a request needs as a
whole is checked before its handler (request_permissions.py); handlers check the rest.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from bowstring.engine.api.permissions import (
    ANY_NAME,
    Requirement,
    When,
    for_each,
    for_request,
    on_cluster,
    on_delegation_tokens,
    on_groups,
    on_topics,
    on_transactional_ids,
    on_users,
    to_see,
)
from bowstring.protocol.acls import AclOperation
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import ApiKeys

NATIVE: Final = "native"
"""In place of a module: the reactors answer."""

FORWARDED: Final = "forwarded"
"""The module that sends a request on to the active controller."""


class Part(NamedTuple):
    """Elements of a request that get an error each when the whole request is refused.

    Attributes:
        elements: The field of the request that lists them, or a path to it.
        results: The field of the answer with a result for each.
        names: The fields that a result has in common with its element; one, if the element is a plain value.
            A pair where the names differ: the element's, the result's.
        inner: Parts of an element that get the error in its place.
        error: The field of a result with the error's code.
    """

    elements: str
    results: str
    names: tuple[str | tuple[str, str], ...]
    inner: "Part | None" = None
    error: str = "error_code"


class ServedApi(NamedTuple):
    """One row.

    Attributes:
        key: One of ApiKeys, which also names the module of the messages.
        needs: The client's required permissions, each where it applies. Empty: open to everyone.
        broker: The module that answers on listeners of a broker; None if brokers do not serve it. `FORWARDED`
            sends it on to the active controller, inside Envelope (KIP-590).
        controller: The module that answers on the listeners of a controller.
        controller_needs: `needs` there, where they differ.
        is_accepted_in_envelope: Controllers accept it inside Envelope although these brokers answer it:
            Kafka's brokers send it on.
        at_once: The module's `at_once` answers what waits for nothing, without a task of its own.
        encodes: The module's `encoded` answers what waits for nothing without an object for each of its
            fields. What its whole request needs is its own to check.
        begins: The module's `begin` takes a small request without a task of its own; False: it did not.
        gathers: The module's `gather` takes small requests of one pass of the control loop, without tasks;
            its `write` writes and answers them together at the end.
        keeps: Its handler may set `Request.keeps`: a broker then answers equal requests alike for a while.
        never_guessed: After a bug the connection is closed: an error that is made up would mislead clients.
        refused: Where the answer has the error when the whole request is refused; empty: in its error code.
        refused_with: Fields of that answer with a value other than their default.
        is_refused_silently: The answer of a version without an error code is then empty, as in Kafka.
    """

    key: int
    needs: tuple[Requirement, ...] = ()
    broker: str | None = None
    controller: str | None = None
    controller_needs: tuple[Requirement, ...] | None = None
    is_accepted_in_envelope: bool = False
    at_once: bool = False
    encodes: bool = False
    begins: bool = False
    gathers: bool = False
    keeps: bool = False
    never_guessed: bool = False
    refused: tuple[Part, ...] = ()
    refused_with: tuple[tuple[str, object], ...] = ()
    is_refused_silently: bool = False

    @property
    def forwarded(self) -> bool:
        """Whether brokers send it on to the active controller."""
        return self.broker == FORWARDED

    @property
    def is_between_nodes(self) -> bool:
        """Whether only brokers and controllers send it, for themselves."""
        return self.needs == _BETWEEN_NODES


_READ, _WRITE, _CREATE, _DELETE = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
)
_ALTER, _DESCRIBE, _CLUSTER_ACTION = AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.CLUSTER_ACTION
_DESCRIBE_CONFIGS, _ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS

_BETWEEN_NODES: Final = (for_request(on_cluster(_CLUSTER_ACTION)),)
_ALTER_CLUSTER: Final = (for_request(on_cluster(_ALTER)),)
_DESCRIBE_CLUSTER: Final = (for_request(on_cluster(_DESCRIBE)),)
_JOIN_GROUP: Final = (for_request(on_groups(_READ, "group_id")),)
_SUBSCRIBED: Final = on_topics(_DESCRIBE, "subscribed_topic_names")
_ALTER_TOPIC_CONFIGS: Final = for_each(
    on_topics(_ALTER_CONFIGS, "resources.resource_name"), when=When.TOPIC_CONFIGS
)
_ALTER_GROUP_CONFIGS: Final = for_each(
    on_groups(_ALTER_CONFIGS, "resources.resource_name"), when=When.GROUP_CONFIGS
)
_ALTER_ANY_CONFIGS: Final = (
    _ALTER_TOPIC_CONFIGS,
    _ALTER_GROUP_CONFIGS,
    for_each(on_cluster(_ALTER_CONFIGS), when=When.CLUSTER_CONFIGS),
)
_MEMBERS_TOPICS: Final = (
    "groups.members.assignment.topic_partitions.topic_name",
    "groups.members.target_assignment.topic_partitions.topic_name",
)
_CONFIG_PARTS: Final = (Part("resources", "responses", ("resource_type", "resource_name")),)
_COMMITTED_PARTS: Final = (
    Part("topics", "topics", ("name", "topic_id"), Part("partitions", "partitions", ("partition_index",))),
)
_SHARE_STATE_PARTS: Final = (
    Part("topics", "results", ("topic_id",), Part("partitions", "partitions", ("partition",))),
)

_ROWS: Final = (
    ServedApi(
        ApiKeys.PRODUCE,
        needs=(
            for_request(on_transactional_ids(_WRITE, "transactional_id"), when=When.TRANSACTIONAL_BATCHES),
            for_each(on_topics(_WRITE, "topic_data.name", "topic_data.topic_id")),
        ),
        broker=NATIVE,
        never_guessed=True,
    ),
    ServedApi(
        ApiKeys.FETCH,
        needs=(
            for_each(
                on_cluster(_CLUSTER_ACTION), when=When.BY_FOLLOWER, error=Errors.TOPIC_AUTHORIZATION_FAILED
            ),
            for_each(on_topics(_READ, "topics.topic", "topics.topic_id"), when=When.BY_CONSUMER),
        ),
        broker=NATIVE,
        controller="quorum_messages",
        controller_needs=_BETWEEN_NODES,
        refused=(
            Part(
                "topics",
                "responses",
                ("topic", "topic_id"),
                Part("partitions", "partitions", (("partition", "partition_index"),)),
            ),
        ),
    ),
    ServedApi(
        ApiKeys.LIST_OFFSETS,
        needs=(for_each(on_topics(_DESCRIBE, "topics.name")),),
        broker="list_offsets",
        at_once=True,
    ),
    ServedApi(
        ApiKeys.METADATA,
        needs=(
            for_each(on_topics(_DESCRIBE, "topics.name", "topics.topic_id")),
            to_see(on_topics(_DESCRIBE, answer=("topics.name",)), when=When.ASKS_FOR_ALL),
            for_each(on_cluster(_CREATE), on_topics(_CREATE, "topics.name"), when=When.MISSING_TOPICS),
            to_see(on_cluster(_DESCRIBE), when=When.ASKS_OPERATIONS),
        ),
        broker="metadata",
        keeps=True,
    ),
    ServedApi(
        ApiKeys.OFFSET_COMMIT,
        needs=(*_JOIN_GROUP, for_each(on_topics(_READ, "topics.name", "topics.topic_id"))),
        broker="offset_commit",
        gathers=True,
        refused=_COMMITTED_PARTS,
    ),
    ServedApi(
        ApiKeys.OFFSET_FETCH,
        needs=(
            for_each(on_groups(_DESCRIBE, "group_id", "groups.group_id")),
            for_each(
                on_topics(_DESCRIBE, "topics.name", "groups.topics.name", "groups.topics.topic_id"),
            ),
            to_see(
                on_topics(_DESCRIBE, answer=("topics.name", "groups.topics.name")), when=When.ASKS_FOR_ALL
            ),
        ),
        broker="offset_fetch",
        encodes=True,
    ),
    ServedApi(
        ApiKeys.FIND_COORDINATOR,
        needs=(
            for_each(on_groups(_DESCRIBE, "key", "coordinator_keys"), when=When.GROUP_KEYS),
            for_each(on_transactional_ids(_DESCRIBE, "key", "coordinator_keys"), when=When.TRANSACTION_KEYS),
            for_request(on_cluster(_CLUSTER_ACTION), when=When.SHARE_KEYS, by_handler=True),
        ),
        broker="find_coordinator",
        keeps=True,
    ),
    ServedApi(ApiKeys.JOIN_GROUP, needs=_JOIN_GROUP, broker="join_group", begins=True),
    ServedApi(ApiKeys.HEARTBEAT, needs=_JOIN_GROUP, broker="heartbeat", at_once=True),
    ServedApi(ApiKeys.LEAVE_GROUP, needs=_JOIN_GROUP, broker="leave_group"),
    ServedApi(ApiKeys.SYNC_GROUP, needs=_JOIN_GROUP, broker="sync_group", begins=True),
    ServedApi(
        ApiKeys.DESCRIBE_GROUPS, needs=(for_each(on_groups(_DESCRIBE, "groups")),), broker="describe_groups"
    ),
    ServedApi(
        ApiKeys.LIST_GROUPS,
        needs=(to_see(on_cluster(_DESCRIBE), on_groups(_DESCRIBE, answer=("groups.group_id",))),),
        broker="list_groups",
    ),
    ServedApi(ApiKeys.SASL_HANDSHAKE, broker="sasl_handshake", controller="sasl_handshake"),
    ServedApi(ApiKeys.API_VERSIONS, broker="api_versions", controller="api_versions"),
    ServedApi(
        ApiKeys.CREATE_TOPICS,
        needs=(
            for_each(on_cluster(_CREATE), on_topics(_CREATE, "topics.name")),
            to_see(on_topics(_DESCRIBE_CONFIGS, "topics.name")),
        ),
        broker=FORWARDED,
        controller="create_topics",
        refused=(Part("topics", "topics", ("name",)),),
    ),
    ServedApi(
        ApiKeys.DELETE_TOPICS,
        needs=(
            for_each(
                on_cluster(_DELETE), on_topics(_DELETE, "topic_names", "topics.name", "topics.topic_id")
            ),
            to_see(on_cluster(_DELETE), on_topics(_DESCRIBE, answer=("responses.name",))),
        ),
        broker=FORWARDED,
        controller="delete_topics",
        refused=(
            Part("topic_names", "responses", ("name",)),
            Part("topics", "responses", ("name", "topic_id")),
        ),
    ),
    ServedApi(
        ApiKeys.DELETE_RECORDS, needs=(for_each(on_topics(_DELETE, "topics.name")),), broker="delete_records"
    ),
    ServedApi(
        ApiKeys.INIT_PRODUCER_ID,
        needs=(
            for_request(on_transactional_ids(_WRITE, "transactional_id"), when=When.WITH_TRANSACTIONAL_ID),
            for_request(
                on_transactional_ids(AclOperation.TWO_PHASE_COMMIT, "transactional_id"),
                when=When.TWO_PHASE_COMMIT,
            ),
            for_request(
                on_cluster(AclOperation.IDEMPOTENT_WRITE),
                on_topics(_WRITE, ANY_NAME),
                when=When.WITHOUT_TRANSACTIONAL_ID,
                error=Errors.CLUSTER_AUTHORIZATION_FAILED,
            ),
        ),
        broker="init_producer_id",
        begins=True,
        refused_with=(("producer_epoch", -1),),
        never_guessed=True,
    ),
    ServedApi(
        ApiKeys.OFFSET_FOR_LEADER_EPOCH,
        needs=(for_each(on_cluster(_CLUSTER_ACTION), on_topics(_DESCRIBE, "topics.topic")),),
        broker="offset_for_leader_epoch",
    ),
    ServedApi(
        ApiKeys.ADD_PARTITIONS_TO_TXN,
        needs=(
            for_request(on_transactional_ids(_WRITE, "v3_and_below_transactional_id"), when=When.BY_CLIENT),
            for_each(on_topics(_WRITE, "v3_and_below_topics.name"), when=When.BY_CLIENT),
            for_request(on_cluster(_CLUSTER_ACTION), when=When.BY_BROKER),
        ),
        broker="add_partitions_to_txn",
        refused=(
            Part(
                "v3_and_below_topics",
                "results_by_topic_v3_and_below",
                ("name",),
                Part(
                    "partitions",
                    "results_by_partition",
                    ("partition_index",),
                    error="partition_error_code",
                ),
            ),
        ),
    ),
    ServedApi(
        ApiKeys.ADD_OFFSETS_TO_TXN,
        needs=(for_request(on_transactional_ids(_WRITE, "transactional_id")), *_JOIN_GROUP),
        broker="add_offsets_to_txn",
    ),
    ServedApi(
        ApiKeys.END_TXN,
        needs=(for_request(on_transactional_ids(_WRITE, "transactional_id")),),
        broker="end_txn",
    ),
    ServedApi(
        ApiKeys.WRITE_TXN_MARKERS,
        needs=(for_request(on_cluster(_ALTER), on_cluster(_CLUSTER_ACTION)),),
        broker="write_txn_markers",
        refused=(
            Part(
                "markers",
                "markers",
                ("producer_id",),
                Part(
                    "topics",
                    "topics",
                    ("name",),
                    Part("partition_indexes", "partitions", ("partition_index",)),
                ),
            ),
        ),
    ),
    ServedApi(
        ApiKeys.TXN_OFFSET_COMMIT,
        needs=(
            for_request(on_transactional_ids(_WRITE, "transactional_id")),
            *_JOIN_GROUP,
            for_each(on_topics(_READ, "topics.name", "topics.topic_id")),
        ),
        broker="txn_offset_commit",
        refused=_COMMITTED_PARTS,
    ),
    ServedApi(
        ApiKeys.DESCRIBE_CONFIGS,
        needs=(
            for_each(on_topics(_DESCRIBE_CONFIGS, "resources.resource_name"), when=When.TOPIC_CONFIGS),
            for_each(on_groups(_DESCRIBE_CONFIGS, "resources.resource_name"), when=When.GROUP_CONFIGS),
            for_each(on_cluster(_DESCRIBE_CONFIGS), when=When.CLUSTER_CONFIGS),
        ),
        broker="describe_configs",
    ),
    ServedApi(
        ApiKeys.ALTER_CONFIGS,
        needs=_ALTER_ANY_CONFIGS,
        broker=FORWARDED,
        controller="alter_configs",
        refused=_CONFIG_PARTS,
    ),
    ServedApi(
        ApiKeys.ALTER_REPLICA_LOG_DIRS,
        needs=_ALTER_CLUSTER,
        broker="alter_replica_log_dirs",
        refused=(
            Part(
                "dirs.topics",
                "results",
                (("name", "topic_name"),),
                Part("partitions", "partitions", ("partition_index",)),
            ),
        ),
    ),
    ServedApi(
        ApiKeys.DESCRIBE_LOG_DIRS,
        needs=_DESCRIBE_CLUSTER,
        broker="describe_log_dirs",
        is_refused_silently=True,
    ),
    ServedApi(ApiKeys.SASL_AUTHENTICATE, broker="sasl_handshake", controller="sasl_handshake"),
    ServedApi(
        ApiKeys.CREATE_PARTITIONS,
        needs=(for_each(on_topics(_ALTER, "topics.name")),),
        broker=FORWARDED,
        controller="create_partitions",
        refused=(Part("topics", "results", ("name",)),),
    ),
    ServedApi(
        ApiKeys.CREATE_DELEGATION_TOKEN,
        needs=(for_request(on_users(AclOperation.CREATE_TOKENS, "owner_principal_name"), by_handler=True),),
        broker="token_requests",
        controller="delegation_tokens",
        is_accepted_in_envelope=True,
    ),
    ServedApi(
        ApiKeys.RENEW_DELEGATION_TOKEN,
        broker="token_requests",
        controller="delegation_tokens",
        is_accepted_in_envelope=True,
    ),
    ServedApi(
        ApiKeys.EXPIRE_DELEGATION_TOKEN,
        broker="token_requests",
        controller="delegation_tokens",
        is_accepted_in_envelope=True,
    ),
    ServedApi(
        ApiKeys.DESCRIBE_DELEGATION_TOKEN,
        needs=(
            to_see(
                on_delegation_tokens(_DESCRIBE, "tokens.token_id"),
                on_users(AclOperation.DESCRIBE_TOKENS, answer=("tokens.principal_name",)),
            ),
        ),
        broker="describe_delegation_token",
    ),
    ServedApi(
        ApiKeys.DELETE_GROUPS, needs=(for_each(on_groups(_DELETE, "groups_names")),), broker="delete_groups"
    ),
    ServedApi(
        ApiKeys.ELECT_LEADERS,
        needs=_ALTER_CLUSTER,
        broker=FORWARDED,
        controller="controller_requests",
        refused=(
            Part(
                "topic_partitions",
                "replica_election_results",
                ("topic",),
                Part("partitions", "partition_result", ("partition_id",)),
            ),
        ),
    ),
    ServedApi(
        ApiKeys.INCREMENTAL_ALTER_CONFIGS,
        needs=_ALTER_ANY_CONFIGS,
        broker=FORWARDED,
        controller="incremental_alter_configs",
        controller_needs=(
            _ALTER_TOPIC_CONFIGS,
            _ALTER_GROUP_CONFIGS,
            for_each(on_cluster(_ALTER_CONFIGS), when=When.NODE_CONFIGS),
            for_each(on_cluster(_CLUSTER_ACTION), when=When.LOGGERS),
        ),
        refused=_CONFIG_PARTS,
    ),
    ServedApi(
        ApiKeys.ALTER_PARTITION_REASSIGNMENTS,
        needs=_ALTER_CLUSTER,
        broker=FORWARDED,
        controller="controller_requests",
        refused=(
            Part("topics", "responses", ("name",), Part("partitions", "partitions", ("partition_index",))),
        ),
    ),
    ServedApi(
        ApiKeys.LIST_PARTITION_REASSIGNMENTS,
        needs=_DESCRIBE_CLUSTER,
        broker=FORWARDED,
        controller="controller_requests",
    ),
    ServedApi(
        ApiKeys.OFFSET_DELETE,
        needs=(for_request(on_groups(_DELETE, "group_id")), for_each(on_topics(_READ, "topics.name"))),
        broker="offset_delete",
    ),
    ServedApi(
        ApiKeys.DESCRIBE_ACLS,
        needs=_DESCRIBE_CLUSTER,
        broker="describe_acls",
        controller="describe_acls",
    ),
    ServedApi(
        ApiKeys.CREATE_ACLS,
        needs=_ALTER_CLUSTER,
        broker=FORWARDED,
        controller="create_acls",
        refused=(Part("creations", "results", ()),),
    ),
    ServedApi(
        ApiKeys.DELETE_ACLS,
        needs=_ALTER_CLUSTER,
        broker=FORWARDED,
        controller="delete_acls",
        refused=(Part("filters", "filter_results", ()),),
    ),
    ServedApi(
        ApiKeys.DESCRIBE_CLIENT_QUOTAS,
        needs=(for_request(on_cluster(_DESCRIBE_CONFIGS)),),
        broker="describe_client_quotas",
        refused_with=(("entries", None),),
    ),
    ServedApi(
        ApiKeys.ALTER_CLIENT_QUOTAS,
        needs=(for_request(on_cluster(_ALTER_CONFIGS)),),
        broker=FORWARDED,
        controller="alter_client_quotas",
        refused=(Part("entries", "entries", ("entity",)),),
    ),
    ServedApi(
        ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS,
        needs=_DESCRIBE_CLUSTER,
        broker="describe_user_scram_credentials",
    ),
    ServedApi(
        ApiKeys.ALTER_USER_SCRAM_CREDENTIALS,
        needs=_ALTER_CLUSTER,
        broker=FORWARDED,
        controller="alter_user_scram_credentials",
        refused=(
            Part("deletions", "results", (("name", "user"),)),
            Part("upsertions", "results", (("name", "user"),)),
        ),
    ),
    ServedApi(ApiKeys.VOTE, needs=_BETWEEN_NODES, controller="quorum_messages"),
    ServedApi(ApiKeys.BEGIN_QUORUM_EPOCH, needs=_BETWEEN_NODES, controller="quorum_messages"),
    ServedApi(ApiKeys.END_QUORUM_EPOCH, needs=_BETWEEN_NODES, controller="quorum_messages"),
    ServedApi(
        ApiKeys.DESCRIBE_QUORUM,
        needs=_DESCRIBE_CLUSTER,
        broker="describe_quorum",
        controller="describe_quorum",
        is_accepted_in_envelope=True,
    ),
    ServedApi(ApiKeys.ALTER_PARTITION, needs=_BETWEEN_NODES, controller="controller_requests"),
    ServedApi(
        ApiKeys.UPDATE_FEATURES,
        needs=_ALTER_CLUSTER,
        broker=FORWARDED,
        controller="controller_requests",
    ),
    ServedApi(ApiKeys.ENVELOPE, needs=_BETWEEN_NODES, controller="envelope"),
    ServedApi(ApiKeys.FETCH_SNAPSHOT, needs=_BETWEEN_NODES, controller="quorum_messages"),
    ServedApi(
        ApiKeys.DESCRIBE_CLUSTER,
        needs=(to_see(on_cluster(_DESCRIBE), when=When.ASKS_OPERATIONS),),
        broker="describe_cluster",
        controller="describe_cluster",
        controller_needs=(*_ALTER_CLUSTER, to_see(on_cluster(_DESCRIBE), when=When.ASKS_OPERATIONS)),
    ),
    ServedApi(
        ApiKeys.DESCRIBE_PRODUCERS,
        needs=(for_each(on_topics(_READ, "topics.name")),),
        broker="describe_producers",
    ),
    ServedApi(ApiKeys.BROKER_REGISTRATION, needs=_BETWEEN_NODES, controller="controller_requests"),
    ServedApi(ApiKeys.BROKER_HEARTBEAT, needs=_BETWEEN_NODES, controller="controller_requests"),
    ServedApi(
        ApiKeys.UNREGISTER_BROKER, needs=_ALTER_CLUSTER, broker=FORWARDED, controller="controller_requests"
    ),
    ServedApi(
        ApiKeys.DESCRIBE_TRANSACTIONS,
        needs=(
            for_each(on_transactional_ids(_DESCRIBE, "transactional_ids")),
            to_see(on_topics(_DESCRIBE, answer=("transaction_states.topics.topic",))),
        ),
        broker="describe_transactions",
    ),
    ServedApi(
        ApiKeys.LIST_TRANSACTIONS,
        needs=(to_see(on_transactional_ids(_DESCRIBE, answer=("transaction_states.transactional_id",))),),
        broker="list_transactions",
    ),
    ServedApi(ApiKeys.ALLOCATE_PRODUCER_IDS, needs=_BETWEEN_NODES, controller="controller_requests"),
    ServedApi(
        ApiKeys.CONSUMER_GROUP_HEARTBEAT,
        needs=(
            *_JOIN_GROUP,
            for_request(_SUBSCRIBED),
            to_see(on_topics(_DESCRIBE, "subscribed_topic_regex")),
        ),
        broker="consumer_group_heartbeat",
        at_once=True,
    ),
    ServedApi(
        ApiKeys.CONSUMER_GROUP_DESCRIBE,
        needs=(
            for_each(on_groups(_DESCRIBE, "group_ids")),
            for_each(on_topics(_DESCRIBE, answer=_MEMBERS_TOPICS)),
        ),
        broker="consumer_group_describe",
    ),
    ServedApi(ApiKeys.CONTROLLER_REGISTRATION, needs=_BETWEEN_NODES, controller="controller_requests"),
    ServedApi(ApiKeys.ASSIGN_REPLICAS_TO_DIRS, needs=_BETWEEN_NODES, controller="controller_requests"),
    ServedApi(
        ApiKeys.LIST_CONFIG_RESOURCES,
        needs=(for_request(on_cluster(_DESCRIBE_CONFIGS)),),
        broker="list_config_resources",
    ),
    ServedApi(
        ApiKeys.DESCRIBE_TOPIC_PARTITIONS,
        needs=(
            for_each(on_topics(_DESCRIBE, "topics.name")),
            to_see(on_topics(_DESCRIBE, answer=("topics.name",)), when=When.ASKS_FOR_ALL),
        ),
        broker="describe_topic_partitions",
    ),
    ServedApi(
        ApiKeys.SHARE_GROUP_HEARTBEAT,
        needs=(*_JOIN_GROUP, for_request(_SUBSCRIBED, by_handler=True)),
        broker="share_group_heartbeat",
    ),
    ServedApi(
        ApiKeys.SHARE_GROUP_DESCRIBE,
        needs=(
            for_each(on_groups(_DESCRIBE, "group_ids")),
            for_each(on_topics(_DESCRIBE, answer=_MEMBERS_TOPICS[:1])),
        ),
        broker="share_group_describe",
    ),
    ServedApi(
        ApiKeys.SHARE_FETCH,
        needs=(*_JOIN_GROUP, for_each(on_topics(_READ, "topics.topic_id"))),
        broker="share_fetch",
    ),
    ServedApi(
        ApiKeys.SHARE_ACKNOWLEDGE,
        needs=(*_JOIN_GROUP, for_each(on_topics(_READ, "topics.topic_id"))),
        broker="share_acknowledge",
    ),
    ServedApi(
        ApiKeys.ADD_RAFT_VOTER,
        needs=_ALTER_CLUSTER,
        broker=FORWARDED,
        controller="quorum_messages",
    ),
    ServedApi(
        ApiKeys.REMOVE_RAFT_VOTER,
        needs=_ALTER_CLUSTER,
        broker=FORWARDED,
        controller="quorum_messages",
    ),
    ServedApi(ApiKeys.UPDATE_RAFT_VOTER, needs=_BETWEEN_NODES, controller="quorum_messages"),
    ServedApi(
        ApiKeys.INITIALIZE_SHARE_GROUP_STATE,
        needs=_BETWEEN_NODES,
        broker="share_group_state",
        refused=_SHARE_STATE_PARTS,
    ),
    ServedApi(
        ApiKeys.READ_SHARE_GROUP_STATE,
        needs=_BETWEEN_NODES,
        broker="share_group_state",
        refused=_SHARE_STATE_PARTS,
    ),
    ServedApi(
        ApiKeys.WRITE_SHARE_GROUP_STATE,
        needs=_BETWEEN_NODES,
        broker="share_group_state",
        refused=_SHARE_STATE_PARTS,
    ),
    ServedApi(
        ApiKeys.DELETE_SHARE_GROUP_STATE,
        needs=_BETWEEN_NODES,
        broker="share_group_state",
        refused=_SHARE_STATE_PARTS,
    ),
    ServedApi(
        ApiKeys.READ_SHARE_GROUP_STATE_SUMMARY,
        needs=_BETWEEN_NODES,
        broker="share_group_state",
        refused=_SHARE_STATE_PARTS,
    ),
    ServedApi(
        ApiKeys.STREAMS_GROUP_HEARTBEAT,
        needs=(
            *_JOIN_GROUP,
            for_request(
                on_topics(
                    _DESCRIBE,
                    "topology.subtopologies.source_topics",
                    "topology.subtopologies.repartition_sink_topics",
                    "topology.subtopologies.repartition_source_topics.name",
                    "topology.subtopologies.state_changelog_topics.name",
                ),
                by_handler=True,
            ),
            to_see(
                on_cluster(_CREATE),
                on_topics(
                    _CREATE,
                    "topology.subtopologies.repartition_source_topics.name",
                    "topology.subtopologies.state_changelog_topics.name",
                ),
                when=When.MISSING_TOPICS,
            ),
        ),
        broker="streams_group_heartbeat",
    ),
    ServedApi(
        ApiKeys.STREAMS_GROUP_DESCRIBE,
        needs=(
            for_each(on_groups(_DESCRIBE, "group_ids")),
            for_each(
                on_topics(
                    _DESCRIBE,
                    answer=(
                        "groups.topology.subtopologies.source_topics",
                        "groups.topology.subtopologies.repartition_sink_topics",
                        "groups.topology.subtopologies.repartition_source_topics.name",
                        "groups.topology.subtopologies.state_changelog_topics.name",
                    ),
                )
            ),
        ),
        broker="streams_group_describe",
    ),
    ServedApi(
        ApiKeys.DESCRIBE_SHARE_GROUP_OFFSETS,
        needs=(
            for_each(on_groups(_DESCRIBE, "groups.group_id")),
            for_each(on_topics(_DESCRIBE, "groups.topics.topic_name")),
            to_see(on_topics(_DESCRIBE, answer=("groups.topics.topic_name",)), when=When.ASKS_FOR_ALL),
        ),
        broker="describe_share_group_offsets",
    ),
    ServedApi(
        ApiKeys.ALTER_SHARE_GROUP_OFFSETS,
        needs=(*_JOIN_GROUP, for_each(on_topics(_READ, "topics.topic_name"))),
        broker="alter_share_group_offsets",
    ),
    ServedApi(
        ApiKeys.DELETE_SHARE_GROUP_OFFSETS,
        needs=(for_request(on_groups(_DELETE, "group_id")), for_each(on_topics(_READ, "topics.topic_name"))),
        broker="delete_share_group_offsets",
    ),
    ServedApi(
        ApiKeys.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
        needs=_JOIN_GROUP,
        broker="streams_group_topology_description_update",
    ),
    ServedApi(
        ApiKeys.UNREGISTER_CONTROLLER,
        needs=_ALTER_CLUSTER,
        controller="controller_requests",
        broker=FORWARDED,
    ),
)

TABLE: Final = MappingProxyType({row.key: row for row in _ROWS})
"""Each row by API key."""


class Served(NamedTuple):
    """What the listeners of one kind serve.

    Attributes:
        handlers: The module that answers, by API key; without those that the reactors answer.
        offered: The keys of all APIs.
        needs: What is needed here of the sender of a request, by API key: nothing where it is forwarded, as
            the active controller checks that.
    """

    handlers: Mapping[int, str]
    offered: tuple[int, ...]
    needs: Mapping[int, tuple[Requirement, ...]]


def _served(
    module_of: Callable[[ServedApi], str | None], needs_of: Callable[[ServedApi], tuple[Requirement, ...]]
) -> Served:
    modules = {row.key: module for row in _ROWS if (module := module_of(row)) is not None}
    handlers = {key: module for key, module in modules.items() if module != NATIVE}
    needs = {key: needs_of(TABLE[key]) if handlers[key] != FORWARDED else () for key in handlers}
    return Served(MappingProxyType(handlers), tuple(sorted(modules)), MappingProxyType(needs))


BY_BROKER: Final = _served(lambda row: row.broker, lambda row: row.needs)
"""On a broker: the active controller answers what is forwarded to it."""

BY_CONTROLLER: Final = _served(
    lambda row: row.controller,
    lambda row: row.needs if row.controller_needs is None else row.controller_needs,
)
"""On the listeners of controllers, where Fetch is that of the metadata log."""
