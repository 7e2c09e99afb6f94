"""Converts answers to plain values, and replaces values that always differ between two brokers by names."""

import re
import struct
from typing import Any

from bowstring.protocol.ids import ZERO_UUID, format_uuid
from bowstring.protocol.schema import ARRAY, RECORDS, STRUCT, Field, Struct, fields_of

_UUID_TAIL = re.compile(r"^(.*)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$")
# Member ids that brokers choose in consumer groups.
_UUID = re.compile(r"^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=.*[A-Z0-9_])[0-9A-Za-z_-]{22})$")
_BATCH = struct.Struct(">qiibIhiqqqhii")
_LOG_APPEND_TIME = 0x08

# Values that depend on the machine, the time or chance; only their presence is compared.
_NAMED = {
    "cluster_id": "<cluster>",
    "port": "<port>",
    "log_append_time_ms": "<now>",
    "last_timestamp": "<now>",
    "session_id": "<session>",
    "log_dir": "<directory>",
    "total_bytes": "<size>",
    "usable_bytes": "<size>",
    "finalized_features_epoch": "<offset>",
    "error_message": "<words>",
    "acknowledge_error_message": "<words>",
    "batch_index_error_message": "<words>",
    "broker_epoch": "<epoch>",
    "token_id": "<token>",
    **{f"{which}_timestamp{unit}": "<time>" for which in ("issue", "expiry", "max") for unit in ("", "_ms")},
}
# Lists without a meaningful order (hash tables, sets): compared by key.
_KEYED = {
    ("CreateTopicsResponse", "topics"): "name",
    ("ApiVersionsResponse", "api_keys"): "api_key",
    ("ApiVersionsResponse", "supported_features"): "name",
    ("ApiVersionsResponse", "finalized_features"): "name",
    ("ListOffsetsTopicResponse", "partitions"): "partition_index",
    ("DeleteRecordsTopicResult", "partitions"): "partition_index",
    ("DescribeConfigsResult", "configs"): "name",
    ("CreatableTopicResult", "configs"): "name",
    ("TopicProduceResponse", "partition_responses"): "index",
    ("ShareFetchableTopicResponse", "partitions"): "partition_index",
    ("ShareAcknowledgeTopicResponse", "partitions"): "partition_index",
    ("OffsetFetchResponseTopic", "partitions"): "partition_index",
    ("OffsetFetchResponseTopics", "partitions"): "partition_index",
    ("OffsetDeleteResponseTopic", "partitions"): "partition_index",
    ("DeleteGroupsResponse", "results"): "group_id",
    ("ListGroupsResponse", "groups"): "group_id",
    ("ConsumerGroupDescribeResponse", "groups"): "group_id",
    ("AddPartitionsToTxnTopicResult", "results_by_partition"): "partition_index",
}
# Lists without an order whose elements have no common key, but a field that sorts alike with both brokers.
_SORTED = {
    ("JoinGroupResponse", "members"): "member_id",
    ("DescribedGroup", "members"): "member_id",
}
_PRODUCER_IDS = {"producer_id", "ongoing_txn_producer_id"}
_MEMBER_IDS = {"member_id", "leader"}


class Aliases:
    """Names for values that brokers choose at random, in order of appearance."""

    def __init__(self) -> None:
        self.topics: dict[bytes, str] = {}
        self._members: dict[str, str] = {}
        self._producers: dict[int, str] = {}

    def snapshot(self) -> tuple[dict[str, str], dict[int, str]]:
        """Returns the numbers assigned so far, for `restore`."""
        return dict(self._members), dict(self._producers)

    def restore(self, known: tuple[dict[str, str], dict[int, str]]) -> None:
        """Removes the numbers assigned since."""
        self._members, self._producers = known

    def topic(self, topic_id: bytes) -> str:
        """Returns the name of the topic with this id; unknown ids are unchanged."""
        if topic_id == ZERO_UUID:
            return "<no id>"
        return f"<id of {self.topics[topic_id]}>" if topic_id in self.topics else format_uuid(topic_id)

    def member(self, member_id: str) -> str:
        """Replaces the random part of a member id by a number."""
        match = _UUID_TAIL.match(member_id)
        if match is None:
            if _UUID.match(member_id) is None:
                return member_id
            return self._members.setdefault(member_id, f"<{len(self._members) + 1}>")
        number = self._members.setdefault(match[2], f"<{len(self._members) + 1}>")
        return f"{match[1]}-{number}"

    def producer(self, producer_id: int) -> int | str:
        """Replaces a producer id by a number; -1 stays."""
        if producer_id < 0:
            return producer_id
        return self._producers.setdefault(producer_id, f"<producer {len(self._producers) + 1}>")


def plain(value: Struct, version: int, aliases: Aliases) -> dict[str, Any]:
    """Returns the fields that `version` has, as dicts, lists and numbers."""
    found = {
        field.name: _field(field, _in_order(value, field.name), version, aliases)
        for field in fields_of(type(value))
        if field.versions[0] <= version <= field.versions[1]
    }
    for (struct_name, name), key in _KEYED.items():
        if struct_name == type(value).__name__ and name in found:
            found[name] = keyed(found[name], key)
    return found


def _in_order(value: Struct, name: str) -> Any:
    found = getattr(value, name)
    key = _SORTED.get((type(value).__name__, name))
    return found if key is None or found is None else sorted(found, key=lambda each: str(getattr(each, key)))


def keyed(items: list[dict[str, Any]] | None, *keys: str) -> dict[str, dict[str, Any]] | None:
    """Converts a list of structs without an order to a dict, keyed by some of their fields."""
    if items is None:
        return None
    return {"-".join(str(item[key]) for key in keys): item for item in items}


def _field(field: Field, value: Any, version: int, aliases: Aliases) -> Any:
    if value is None:
        return None
    if field.kind == STRUCT:
        return plain(value, version, aliases)
    if field.kind == ARRAY:
        if field.element == STRUCT:
            return [plain(each, version, aliases) for each in value]
        return [_scalar(field, each, aliases) for each in value]
    return _scalar(field, value, aliases)


def _scalar(field: Field, value: Any, aliases: Aliases) -> Any:
    if field.kind == RECORDS:
        return batches(bytes(value), aliases)
    if field.name == "status_detail":
        return sorted(re.split(r"[ ,]+", value))  # names in the order of a hash table
    if field.name in _PRODUCER_IDS:
        return aliases.producer(value)
    if field.name in _MEMBER_IDS:
        return aliases.member(value)
    if field.name == "hmac":
        return f"<{len(value)} bytes>"
    if isinstance(value, bytes | memoryview):
        raw = bytes(value)
        return aliases.topic(raw) if len(raw) == 16 and field.name.endswith("id") else raw.hex()
    if field.name in _NAMED and value not in (-1, 0, ""):
        return _NAMED[field.name]
    return value


def batches(data: bytes, aliases: Aliases) -> list[Any]:
    """Converts record batches: header fields by name, records byte for byte; of a truncated last batch the remaining bytes."""
    found: list[Any] = []
    at = 0
    while len(data) - at >= _BATCH.size:
        fields = _BATCH.unpack_from(data, at)
        base, length, epoch, magic, _crc, attributes, last, first_stamp, max_stamp, producer, *rest = fields
        if len(data) - at < 12 + length:
            break
        stamped_here = bool(attributes & _LOG_APPEND_TIME)
        found.append(
            {
                "base_offset": base,
                "length": length,
                "leader_epoch": epoch,
                "magic": magic,
                "attributes": attributes,
                "last_offset_delta": last,
                "base_timestamp": first_stamp,
                "max_timestamp": "<now>" if stamped_here else max_stamp,
                "producer_id": aliases.producer(producer),
                "producer_epoch": rest[0],
                "base_sequence": rest[1],
                "count": rest[2],
                "records": data[at + _BATCH.size : at + 12 + length].hex(),
            }
        )
        at += 12 + length
    if at < len(data):
        found.append(f"<{len(data) - at} bytes of a cut batch>")
    return found
