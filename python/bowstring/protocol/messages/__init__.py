"""Declares the messages, one module per API.

To add an API, write its module and add one row here. Modules are imported on first use.
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
