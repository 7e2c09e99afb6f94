"""Handles the APIs that the control thread answers, one file for each API or group of related APIs.

A module here has ``async def handle(broker, request)``, which returns the response's body. To add an API,
write its module and add one row below; the broker then offers the API.

Imported by: broker.
May import: _native.log, _native.protocol, _native.record, _native.share, configs, controller, coordinators,
engine, groups, metadata, protocol, quorum, requests, share, share.leader, share.persister, storage,
transactions, transactions.shell.
"""

from collections.abc import Mapping
from typing import Final

HANDLERS: Final[dict[int, str]] = {
    2: "list_offsets",
    3: "metadata",
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    15: "describe_groups",
    16: "list_groups",
    18: "api_versions",
    19: "create_topics",
    20: "delete_topics",
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    24: "add_partitions_to_txn",
    25: "add_offsets_to_txn",
    26: "end_txn",
    27: "write_txn_markers",
    28: "txn_offset_commit",
    32: "describe_configs",
    33: "alter_configs",
    34: "alter_replica_log_dirs",
    35: "describe_log_dirs",
    37: "create_partitions",
    42: "delete_groups",
    44: "incremental_alter_configs",
    47: "offset_delete",
    55: "describe_quorum",
    57: "update_features",
    60: "describe_cluster",
    61: "describe_producers",
    65: "describe_transactions",
    66: "list_transactions",
    68: "consumer_group_heartbeat",
    69: "consumer_group_describe",
    74: "list_config_resources",
    75: "describe_topic_partitions",
    76: "share_group_heartbeat",
    77: "share_group_describe",
    78: "share_fetch",
    79: "share_acknowledge",
    83: "share_group_state",
    84: "share_group_state",
    85: "share_group_state",
    86: "share_group_state",
    87: "share_group_state",
    88: "streams_group_heartbeat",
    89: "streams_group_describe",
    90: "describe_share_group_offsets",
    91: "alter_share_group_offsets",
    92: "delete_share_group_offsets",
    93: "streams_group_topology_description_update",
}
"""Module by API key; imported on the first request."""

CONTROLLER_HANDLERS: Final[dict[int, str]] = {
    1: "quorum_messages",
    18: "api_versions",
    19: "controller_changes",
    20: "controller_changes",
    33: "controller_changes",
    37: "controller_changes",
    43: "controller_requests",
    44: "controller_changes",
    45: "controller_requests",
    46: "controller_requests",
    52: "quorum_messages",
    53: "quorum_messages",
    54: "quorum_messages",
    55: "describe_quorum",
    56: "controller_requests",
    57: "controller_requests",
    58: "envelope",
    59: "quorum_messages",
    60: "describe_cluster",
    62: "controller_requests",
    63: "controller_requests",
    64: "controller_requests",
    67: "controller_requests",
    70: "controller_requests",
    73: "controller_requests",
    80: "quorum_messages",
    81: "quorum_messages",
    82: "quorum_messages",
    94: "controller_requests",
}
"""The same on the listeners of controllers, where Fetch is that of the metadata log."""

FORWARDED: Final = "forwarded"

FORWARDED_KEYS: Final = frozenset({19, 20, 33, 37, 43, 44, 45, 46, 57, 64, 80, 81, 94})
"""What brokers send on to the active controller, inside Envelope."""

CLUSTER_HANDLERS: Final = HANDLERS | dict.fromkeys(
    sorted(FORWARDED_KEYS.intersection(CONTROLLER_HANDLERS)), FORWARDED
)
"""The same on a broker of a cluster: what only the active controller can do is forwarded to it."""

_NATIVE: Final = (0, 1)

ADVERTISED: Final = tuple(sorted({*_NATIVE, *HANDLERS}))
"""Every API that this broker offers. Reactors answer Produce and Fetch."""


def offered(handlers: Mapping[int, str], *, is_controller: bool) -> tuple[int, ...]:
    """Returns the APIs that a node with these handlers offers. A broker's reactors have two more."""
    return tuple(sorted(handlers if is_controller else {*_NATIVE, *handlers}))
