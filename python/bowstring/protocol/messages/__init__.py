"""Declares the messages, one module per API.

To add an API, write its module, and add its key and its versions here. Modules are imported on first use.
"""

from typing import Final


class ApiKeys:
    """The key of each API declared here. A constant has the module's name in capitals; the classes have it in
    CamelCase, with ``Request`` and ``Response``.
    """

    PRODUCE: Final = 0
    FETCH: Final = 1
    LIST_OFFSETS: Final = 2
    METADATA: Final = 3
    OFFSET_COMMIT: Final = 8
    OFFSET_FETCH: Final = 9
    FIND_COORDINATOR: Final = 10
    JOIN_GROUP: Final = 11
    HEARTBEAT: Final = 12
    LEAVE_GROUP: Final = 13
    SYNC_GROUP: Final = 14
    DESCRIBE_GROUPS: Final = 15
    LIST_GROUPS: Final = 16
    SASL_HANDSHAKE: Final = 17
    API_VERSIONS: Final = 18
    CREATE_TOPICS: Final = 19
    DELETE_TOPICS: Final = 20
    DELETE_RECORDS: Final = 21
    INIT_PRODUCER_ID: Final = 22
    OFFSET_FOR_LEADER_EPOCH: Final = 23
    ADD_PARTITIONS_TO_TXN: Final = 24
    ADD_OFFSETS_TO_TXN: Final = 25
    END_TXN: Final = 26
    WRITE_TXN_MARKERS: Final = 27
    TXN_OFFSET_COMMIT: Final = 28
    DESCRIBE_ACLS: Final = 29
    CREATE_ACLS: Final = 30
    DELETE_ACLS: Final = 31
    DESCRIBE_CONFIGS: Final = 32
    ALTER_CONFIGS: Final = 33
    ALTER_REPLICA_LOG_DIRS: Final = 34
    DESCRIBE_LOG_DIRS: Final = 35
    SASL_AUTHENTICATE: Final = 36
    CREATE_PARTITIONS: Final = 37
    CREATE_DELEGATION_TOKEN: Final = 38
    RENEW_DELEGATION_TOKEN: Final = 39
    EXPIRE_DELEGATION_TOKEN: Final = 40
    DESCRIBE_DELEGATION_TOKEN: Final = 41
    DELETE_GROUPS: Final = 42
    ELECT_LEADERS: Final = 43
    INCREMENTAL_ALTER_CONFIGS: Final = 44
    ALTER_PARTITION_REASSIGNMENTS: Final = 45
    LIST_PARTITION_REASSIGNMENTS: Final = 46
    OFFSET_DELETE: Final = 47
    DESCRIBE_CLIENT_QUOTAS: Final = 48
    ALTER_CLIENT_QUOTAS: Final = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS: Final = 50
    ALTER_USER_SCRAM_CREDENTIALS: Final = 51
    VOTE: Final = 52
    BEGIN_QUORUM_EPOCH: Final = 53
    END_QUORUM_EPOCH: Final = 54
    DESCRIBE_QUORUM: Final = 55
    ALTER_PARTITION: Final = 56
    UPDATE_FEATURES: Final = 57
    ENVELOPE: Final = 58
    FETCH_SNAPSHOT: Final = 59
    DESCRIBE_CLUSTER: Final = 60
    DESCRIBE_PRODUCERS: Final = 61
    BROKER_REGISTRATION: Final = 62
    BROKER_HEARTBEAT: Final = 63
    UNREGISTER_BROKER: Final = 64
    DESCRIBE_TRANSACTIONS: Final = 65
    LIST_TRANSACTIONS: Final = 66
    ALLOCATE_PRODUCER_IDS: Final = 67
    CONSUMER_GROUP_HEARTBEAT: Final = 68
    CONSUMER_GROUP_DESCRIBE: Final = 69
    CONTROLLER_REGISTRATION: Final = 70
    GET_TELEMETRY_SUBSCRIPTIONS: Final = 71
    PUSH_TELEMETRY: Final = 72
    ASSIGN_REPLICAS_TO_DIRS: Final = 73
    LIST_CONFIG_RESOURCES: Final = 74
    DESCRIBE_TOPIC_PARTITIONS: Final = 75
    SHARE_GROUP_HEARTBEAT: Final = 76
    SHARE_GROUP_DESCRIBE: Final = 77
    SHARE_FETCH: Final = 78
    SHARE_ACKNOWLEDGE: Final = 79
    ADD_RAFT_VOTER: Final = 80
    REMOVE_RAFT_VOTER: Final = 81
    UPDATE_RAFT_VOTER: Final = 82
    INITIALIZE_SHARE_GROUP_STATE: Final = 83
    READ_SHARE_GROUP_STATE: Final = 84
    WRITE_SHARE_GROUP_STATE: Final = 85
    DELETE_SHARE_GROUP_STATE: Final = 86
    READ_SHARE_GROUP_STATE_SUMMARY: Final = 87
    STREAMS_GROUP_HEARTBEAT: Final = 88
    STREAMS_GROUP_DESCRIBE: Final = 89
    DESCRIBE_SHARE_GROUP_OFFSETS: Final = 90
    ALTER_SHARE_GROUP_OFFSETS: Final = 91
    DELETE_SHARE_GROUP_OFFSETS: Final = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: Final = 93
    UNREGISTER_CONTROLLER: Final = 94


API_MODULES: Final[dict[int, str]] = {
    key: name.lower() for name, key in vars(ApiKeys).items() if name.isupper()
}
"""Module name by API key."""

API_RANGES: Final[dict[int, tuple[str, str]]] = {
    ApiKeys.PRODUCE: ("3-13", "9+"),
    ApiKeys.FETCH: ("4-18", "12+"),
    ApiKeys.LIST_OFFSETS: ("1-11", "6+"),
    ApiKeys.METADATA: ("0-13", "9+"),
    ApiKeys.OFFSET_COMMIT: ("2-10", "8+"),
    ApiKeys.OFFSET_FETCH: ("1-10", "6+"),
    ApiKeys.FIND_COORDINATOR: ("0-6", "3+"),
    ApiKeys.JOIN_GROUP: ("0-9", "6+"),
    ApiKeys.HEARTBEAT: ("0-4", "4+"),
    ApiKeys.LEAVE_GROUP: ("0-5", "4+"),
    ApiKeys.SYNC_GROUP: ("0-5", "4+"),
    ApiKeys.DESCRIBE_GROUPS: ("0-6", "5+"),
    ApiKeys.LIST_GROUPS: ("0-5", "3+"),
    ApiKeys.SASL_HANDSHAKE: ("0-1", "none"),
    ApiKeys.API_VERSIONS: ("0-5", "3+"),
    ApiKeys.CREATE_TOPICS: ("2-7", "5+"),
    ApiKeys.DELETE_TOPICS: ("1-6", "4+"),
    ApiKeys.DELETE_RECORDS: ("0-2", "2+"),
    ApiKeys.INIT_PRODUCER_ID: ("0-6", "2+"),
    ApiKeys.OFFSET_FOR_LEADER_EPOCH: ("2-4", "4+"),
    ApiKeys.ADD_PARTITIONS_TO_TXN: ("0-5", "3+"),
    ApiKeys.ADD_OFFSETS_TO_TXN: ("0-4", "3+"),
    ApiKeys.END_TXN: ("0-5", "3+"),
    ApiKeys.WRITE_TXN_MARKERS: ("1-2", "1+"),
    ApiKeys.TXN_OFFSET_COMMIT: ("0-6", "3+"),
    ApiKeys.DESCRIBE_ACLS: ("1-3", "2+"),
    ApiKeys.CREATE_ACLS: ("1-3", "2+"),
    ApiKeys.DELETE_ACLS: ("1-3", "2+"),
    ApiKeys.DESCRIBE_CONFIGS: ("1-4", "4+"),
    ApiKeys.ALTER_CONFIGS: ("0-2", "2+"),
    ApiKeys.ALTER_REPLICA_LOG_DIRS: ("1-2", "2+"),
    ApiKeys.DESCRIBE_LOG_DIRS: ("1-5", "2+"),
    ApiKeys.SASL_AUTHENTICATE: ("0-2", "2+"),
    ApiKeys.CREATE_PARTITIONS: ("0-3", "2+"),
    ApiKeys.CREATE_DELEGATION_TOKEN: ("1-3", "2+"),
    ApiKeys.RENEW_DELEGATION_TOKEN: ("1-2", "2+"),
    ApiKeys.EXPIRE_DELEGATION_TOKEN: ("1-2", "2+"),
    ApiKeys.DESCRIBE_DELEGATION_TOKEN: ("1-3", "2+"),
    ApiKeys.DELETE_GROUPS: ("0-3", "2+"),
    ApiKeys.ELECT_LEADERS: ("0-2", "2+"),
    ApiKeys.INCREMENTAL_ALTER_CONFIGS: ("0-1", "1+"),
    ApiKeys.ALTER_PARTITION_REASSIGNMENTS: ("0-1", "0+"),
    ApiKeys.LIST_PARTITION_REASSIGNMENTS: ("0", "0+"),
    ApiKeys.OFFSET_DELETE: ("0", "none"),
    ApiKeys.DESCRIBE_CLIENT_QUOTAS: ("0-1", "1+"),
    ApiKeys.ALTER_CLIENT_QUOTAS: ("0-1", "1+"),
    ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS: ("0", "0+"),
    ApiKeys.ALTER_USER_SCRAM_CREDENTIALS: ("0", "0+"),
    ApiKeys.VOTE: ("0-2", "0+"),
    ApiKeys.BEGIN_QUORUM_EPOCH: ("0-1", "1+"),
    ApiKeys.END_QUORUM_EPOCH: ("0-1", "1+"),
    ApiKeys.DESCRIBE_QUORUM: ("0-2", "0+"),
    ApiKeys.ALTER_PARTITION: ("2-3", "0+"),
    ApiKeys.UPDATE_FEATURES: ("0-2", "0+"),
    ApiKeys.ENVELOPE: ("0", "0+"),
    ApiKeys.FETCH_SNAPSHOT: ("0-1", "0+"),
    ApiKeys.DESCRIBE_CLUSTER: ("0-2", "0+"),
    ApiKeys.DESCRIBE_PRODUCERS: ("0", "0+"),
    ApiKeys.BROKER_REGISTRATION: ("0-4", "0+"),
    ApiKeys.BROKER_HEARTBEAT: ("0-2", "0+"),
    ApiKeys.UNREGISTER_BROKER: ("0", "0+"),
    ApiKeys.DESCRIBE_TRANSACTIONS: ("0", "0+"),
    ApiKeys.LIST_TRANSACTIONS: ("0-2", "0+"),
    ApiKeys.ALLOCATE_PRODUCER_IDS: ("0", "0+"),
    ApiKeys.CONSUMER_GROUP_HEARTBEAT: ("0-1", "0+"),
    ApiKeys.CONSUMER_GROUP_DESCRIBE: ("0-1", "0+"),
    ApiKeys.CONTROLLER_REGISTRATION: ("0", "0+"),
    ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS: ("0", "0+"),
    ApiKeys.PUSH_TELEMETRY: ("0", "0+"),
    ApiKeys.ASSIGN_REPLICAS_TO_DIRS: ("0", "0+"),
    ApiKeys.LIST_CONFIG_RESOURCES: ("0-1", "0+"),
    ApiKeys.DESCRIBE_TOPIC_PARTITIONS: ("0", "0+"),
    ApiKeys.SHARE_GROUP_HEARTBEAT: ("1", "0+"),
    ApiKeys.SHARE_GROUP_DESCRIBE: ("1", "0+"),
    ApiKeys.SHARE_FETCH: ("1-2", "0+"),
    ApiKeys.SHARE_ACKNOWLEDGE: ("1-2", "0+"),
    ApiKeys.ADD_RAFT_VOTER: ("0-1", "0+"),
    ApiKeys.REMOVE_RAFT_VOTER: ("0", "0+"),
    ApiKeys.UPDATE_RAFT_VOTER: ("0", "0+"),
    ApiKeys.INITIALIZE_SHARE_GROUP_STATE: ("0", "0+"),
    ApiKeys.READ_SHARE_GROUP_STATE: ("0", "0+"),
    ApiKeys.WRITE_SHARE_GROUP_STATE: ("0-1", "0+"),
    ApiKeys.DELETE_SHARE_GROUP_STATE: ("0", "0+"),
    ApiKeys.READ_SHARE_GROUP_STATE_SUMMARY: ("0-1", "0+"),
    ApiKeys.STREAMS_GROUP_HEARTBEAT: ("0-1", "0+"),
    ApiKeys.STREAMS_GROUP_DESCRIBE: ("0-1", "0+"),
    ApiKeys.DESCRIBE_SHARE_GROUP_OFFSETS: ("0-1", "0+"),
    ApiKeys.ALTER_SHARE_GROUP_OFFSETS: ("0", "0+"),
    ApiKeys.DELETE_SHARE_GROUP_OFFSETS: ("0", "0+"),
    ApiKeys.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: ("0", "0+"),
    ApiKeys.UNREGISTER_CONTROLLER: ("0", "0+"),
}
"""Versions, and flexible versions (KIP-482), by API key."""

UNSTABLE: Final = frozenset({ApiKeys.INIT_PRODUCER_ID})
"""Keys of the APIs whose highest version Kafka offers only if configured to."""
