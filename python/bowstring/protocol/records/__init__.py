"""Maps the keys and frames of records in internal topics to their declarations.

Modules are imported on first use. To add a record, write its class and add one row here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

from bowstring.protocol.schema import CoordinatorKey, CoordinatorValue, MetadataRecord

Row = tuple[str, str]


def _declared(module: str, name: str) -> object:
    return getattr(import_module(f"bowstring.protocol.records.{module}"), name)


class CoordinatorRecords:
    """The record types of one coordinator's topic: classes of key and value by record type."""

    def __init__(self, topic: str, rows: Mapping[int, Row]) -> None:
        self.topic = topic
        self._rows = rows
        self._loaded: dict[int, tuple[type[CoordinatorKey], type[CoordinatorValue]]] = {}

    def __contains__(self, record_type: int) -> bool:
        return record_type in self._rows

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __getitem__(self, record_type: int) -> tuple[type[CoordinatorKey], type[CoordinatorValue]]:
        pair = self._loaded.get(record_type)
        if pair is None:
            module, name = self._rows[record_type]
            key, value = _declared(module, f"{name}Key"), _declared(module, f"{name}Value")
            assert isinstance(key, type) and issubclass(key, CoordinatorKey), name
            assert isinstance(value, type) and issubclass(value, CoordinatorValue), name
            pair = self._loaded[record_type] = key, value
        return pair


CONSUMER_OFFSETS = CoordinatorRecords(
    "__consumer_offsets",
    {
        0: ("offsets", "LegacyOffsetCommit"),
        1: ("offsets", "OffsetCommit"),
        2: ("classic_group", "GroupMetadata"),
        3: ("consumer_group", "ConsumerGroupMetadata"),
        4: ("consumer_group", "ConsumerGroupPartitionMetadata"),
        5: ("consumer_group", "ConsumerGroupMemberMetadata"),
        6: ("consumer_group", "ConsumerGroupTargetAssignmentMetadata"),
        7: ("consumer_group", "ConsumerGroupTargetAssignmentMember"),
        8: ("consumer_group", "ConsumerGroupCurrentMemberAssignment"),
        10: ("share_group", "ShareGroupMemberMetadata"),
        11: ("share_group", "ShareGroupMetadata"),
        12: ("share_group", "ShareGroupTargetAssignmentMetadata"),
        13: ("share_group", "ShareGroupTargetAssignmentMember"),
        14: ("share_group", "ShareGroupCurrentMemberAssignment"),
        15: ("share_group", "ShareGroupStatePartitionMetadata"),
        16: ("consumer_group", "ConsumerGroupRegularExpression"),
        17: ("streams_group", "StreamsGroupMetadata"),
        19: ("streams_group", "StreamsGroupMemberMetadata"),
        20: ("streams_group", "StreamsGroupTargetAssignmentMetadata"),
        21: ("streams_group", "StreamsGroupTargetAssignmentMember"),
        22: ("streams_group", "StreamsGroupCurrentMemberAssignment"),
        23: ("streams_group", "StreamsGroupTopology"),
    },
)
TRANSACTION_STATE = CoordinatorRecords("__transaction_state", {0: ("transaction_log", "TransactionLog")})
SHARE_GROUP_STATE = CoordinatorRecords(
    "__share_group_state", {0: ("share_state", "ShareSnapshot"), 1: ("share_state", "ShareUpdate")}
)

_CLUSTER_METADATA: dict[int, Row] = {
    0: ("nodes", "RegisterBrokerRecord"),
    1: ("nodes", "UnregisterBrokerRecord"),
    2: ("topics", "TopicRecord"),
    3: ("topics", "PartitionRecord"),
    4: ("settings", "ConfigRecord"),
    5: ("topics", "PartitionChangeRecord"),
    7: ("nodes", "FenceBrokerRecord"),
    8: ("nodes", "UnfenceBrokerRecord"),
    9: ("topics", "RemoveTopicRecord"),
    10: ("security", "DelegationTokenRecord"),
    11: ("security", "UserScramCredentialRecord"),
    12: ("settings", "FeatureLevelRecord"),
    14: ("settings", "ClientQuotaRecord"),
    15: ("settings", "ProducerIdsRecord"),
    17: ("nodes", "BrokerRegistrationChangeRecord"),
    18: ("security", "AccessControlEntryRecord"),
    19: ("security", "RemoveAccessControlEntryRecord"),
    20: ("markers", "NoOpRecord"),
    21: ("markers", "ZkMigrationStateRecord"),
    22: ("security", "RemoveUserScramCredentialRecord"),
    23: ("markers", "BeginTransactionRecord"),
    24: ("markers", "EndTransactionRecord"),
    25: ("markers", "AbortTransactionRecord"),
    26: ("security", "RemoveDelegationTokenRecord"),
    27: ("nodes", "RegisterControllerRecord"),
    28: ("topics", "ClearElrRecord"),
    29: ("nodes", "UnregisterControllerRecord"),
}


METADATA_TOPIC: Final = "__cluster_metadata"


class MetadataRecords(Mapping[int, type[MetadataRecord]]):
    """Maps record keys of __cluster_metadata to record classes."""

    def __init__(self, rows: Mapping[int, Row]) -> None:
        self._rows = rows
        self._loaded: dict[int, type[MetadataRecord]] = {}

    def __getitem__(self, key: int) -> type[MetadataRecord]:
        found = self._loaded.get(key)
        if found is None:
            module, name = self._rows[key]
            record = _declared(f"cluster_metadata.{module}", name)
            assert isinstance(record, type) and issubclass(record, MetadataRecord), name
            found = self._loaded[key] = record
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


CLUSTER_METADATA = MetadataRecords(_CLUSTER_METADATA)
