"""Defines the JSON Schemas of bodies, as a table: members of each, by name and type."""

from __future__ import annotations

from typing import Any

from bowstring.web.openapi import object_schema, reference, type_schema

_CLUSTER = {"cluster_id": "string"}
_TOPIC = {**_CLUSTER, "topic_name": "string"}
_PARTITION = {**_TOPIC, "partition_id": "integer"}
_GROUP = {**_CLUSTER, "consumer_group_id": "string"}
_CONFIG = {
    **_CLUSTER,
    "name": "string",
    "value": "?string",
    "is_default": "boolean",
    "is_read_only": "boolean",
    "is_sensitive": "boolean",
    "source": "string",
    "synonyms": "ConfigSynonymData[]",
}
_ACL = {
    "resource_type": "string",
    "resource_name": "string",
    "pattern_type": "string",
    "principal": "string",
    "host": "string",
    "operation": "string",
    "permission": "string",
}
_LINK = "Relationship"

# What `kind`, `metadata` and these members make.
RESOURCES: dict[str, dict[str, str]] = {
    "ClusterData": {
        **_CLUSTER,
        "controller": f"~{_LINK}",
        **dict.fromkeys(
            ("acls", "brokers", "broker_configs", "consumer_groups", "topics", "partition_reassignments"),
            _LINK,
        ),
    },
    "BrokerData": {
        **_CLUSTER,
        "broker_id": "integer",
        "host": "?string",
        "port": "?integer",
        "rack": "?string",
        "configs": _LINK,
        "partition_replicas": _LINK,
    },
    "TopicData": {
        **_TOPIC,
        "is_internal": "boolean",
        "replication_factor": "integer",
        "partitions_count": "integer",
        "partitions": _LINK,
        "configs": _LINK,
        "partition_reassignments": _LINK,
        "authorized_operations": "~string[]",
    },
    "TopicConfigData": {**_CONFIG, "topic_name": "string"},
    "BrokerConfigData": {**_CONFIG, "broker_id": "integer"},
    "ClusterConfigData": {**_CONFIG, "config_type": "string"},
    "PartitionData": {**_PARTITION, "leader": f"~{_LINK}", "replicas": _LINK, "reassignment": _LINK},
    "PartitionWithOffsetsData": {**_PARTITION, "earliest_offset": "integer", "latest_offset": "integer"},
    "ReplicaData": {
        **_PARTITION,
        "broker_id": "integer",
        "is_leader": "boolean",
        "is_in_sync": "boolean",
        "broker": _LINK,
    },
    "ReassignmentData": {
        **_PARTITION,
        "adding_replicas": "integer[]",
        "removing_replicas": "integer[]",
        "replicas": _LINK,
    },
    "AclData": {**_CLUSTER, **_ACL},
    "ConsumerGroupData": {
        **_GROUP,
        "is_simple": "boolean",
        "partition_assignor": "string",
        "state": "string",
        "type": "string",
        "is_mixed_consumer_group": "boolean",
        "coordinator": _LINK,
        "consumers": _LINK,
        "lag_summary": _LINK,
    },
    "ConsumerData": {
        **_GROUP,
        "consumer_id": "string",
        "instance_id": "?string",
        "client_id": "string",
        "assignments": _LINK,
    },
    "ConsumerAssignmentData": {
        **_GROUP,
        "consumer_id": "string",
        "topic_name": "string",
        "partition_id": "integer",
        "partition": _LINK,
        "lag": _LINK,
    },
    "ConsumerLagData": {
        **_GROUP,
        "topic_name": "string",
        "partition_id": "integer",
        "consumer_id": "string",
        "instance_id": "?string",
        "client_id": "string",
        "current_offset": "integer",
        "log_end_offset": "integer",
        "lag": "integer",
    },
    "ConsumerGroupLagSummaryData": {
        **_GROUP,
        "max_lag_consumer_id": "string",
        "max_lag_instance_id": "?string",
        "max_lag_client_id": "string",
        "max_lag_topic_name": "string",
        "max_lag_partition_id": "integer",
        "max_lag": "integer",
        "total_lag": "integer",
        "max_lag_consumer": _LINK,
        "max_lag_partition": _LINK,
    },
}
# Of these there is one at a time.
_SINGLE = ("PartitionWithOffsetsData", "ConsumerGroupLagSummaryData")

OBJECTS: dict[str, dict[str, str]] = {
    "Health": {"status": "string"},
    "Error": {"error_code": "integer", "message": "string"},
    "Relationship": {"related": "string"},
    "ResourceMetadata": {"self": "string", "resource_name": "~?string"},
    "ResourceCollectionMetadata": {"self": "string", "next": "?string"},
    "ConfigSynonymData": {"name": "string", "value": "?string", "source": "string"},
    "CreateTopicRequestData": {
        "topic_name": "string",
        "partitions_count": "~?integer",
        "replication_factor": "~?integer",
        "replicas_assignments": "~object",
        "configs": "~ConfigValueData[]",
        "validate_only": "~?boolean",
    },
    "ConfigValueData": {"name": "string", "value": "~?string"},
    "UpdateConfigRequestData": {"value": "string"},
    "UpdatePartitionCountRequestData": {"partitions_count": "integer"},
    "AlterConfigBatchRequestData": {"data": "AlterConfigData[]", "validate_only": "~?boolean"},
    "AlterTopicsConfigBatchRequestData": {"data": "AlterTopicConfigsData[]", "validate_only": "~?boolean"},
    "AlterTopicConfigsData": {"topic_name": "string", "configs": "AlterConfigData[]"},
    "AlterConfigData": {"name": "string", "value": "~?string", "operation": "~?string"},
    "CreateAclRequestData": _ACL,
    "CreateAclRequestDataList": {"data": "CreateAclRequestData[]"},
    "DeletedAcls": {"data": "AclData[]"},
    "ProduceRequest": {
        "partition_id": "~?integer",
        "headers": "~ProduceRequestHeader[]",
        "key": "~ProduceRequestData",
        "value": "~ProduceRequestData",
        "timestamp": "~?string",
    },
    "ProduceRequestHeader": {"name": "string", "value": "~?string"},
    "ProduceRequestData": {
        "type": "~?string",
        "subject": "~?string",
        "subject_name_strategy": "~?string",
        "schema_id": "~?integer",
        "schema_version": "~?integer",
        "schema": "~?string",
        "data": "~any",
    },
    "ProduceBatchRequest": {"entries": "ProduceBatchRequestEntry[]"},
    "ProduceBatchRequestEntry": {
        "id": "string",
        "partition_id": "~?integer",
        "headers": "~ProduceRequestHeader[]",
        "key": "~ProduceRequestData",
        "value": "~ProduceRequestData",
        "timestamp": "~?string",
    },
    "ProduceResponse": {
        "error_code": "integer",
        "message": "~string",
        "cluster_id": "~string",
        "topic_name": "~string",
        "partition_id": "~integer",
        "offset": "~integer",
        "timestamp": "~string",
        "key": "~ProduceResponseData",
        "value": "~ProduceResponseData",
    },
    "ProduceResponseData": {
        "type": "string",
        "subject": "~string",
        "schema_id": "~integer",
        "schema_version": "~integer",
        "size": "integer",
    },
    "ProduceBatchResponse": {
        "successes": "ProduceBatchResponseSuccessEntry[]",
        "failures": "ProduceBatchResponseFailureEntry[]",
    },
    "ProduceBatchResponseSuccessEntry": {
        "id": "string",
        **_PARTITION,
        "offset": "integer",
        "timestamp": "~string",
        "key": "~ProduceResponseData",
        "value": "~ProduceResponseData",
    },
    "AlterTopicsFailures": {"failures": "AlterTopicFailure[]"},
    "AlterTopicFailure": {"topic_name": "string", "error_code": "integer", "message": "string"},
    "ProduceBatchResponseFailureEntry": {"id": "string", "error_code": "integer", "message": "~string"},
}
# Of v2.
V2_OBJECTS: dict[str, dict[str, str]] = {
    "V2Empty": {},
    "V2Brokers": {"brokers": "integer[]"},
    "V2Topic": {"name": "string", "configs": "object", "partitions": "V2Partition[]"},
    "V2Partition": {"partition": "integer", "leader": "integer", "replicas": "V2Replica[]"},
    "V2Replica": {"broker": "integer", "leader": "boolean", "in_sync": "boolean"},
    "V2PartitionOffsets": {"beginning_offset": "integer", "end_offset": "integer"},
    "V2ProduceRequest": {
        "records": "V2ProduceRecord[]",
        "key_schema": "~?string",
        "key_schema_id": "~?integer",
        "value_schema": "~?string",
        "value_schema_id": "~?integer",
    },
    "V2ProduceRecord": {"key": "~any", "value": "~any", "partition": "~?integer"},
    "V2ProduceResponse": {
        "offsets": "V2ProduceOffset[]",
        "key_schema_id": "?integer",
        "value_schema_id": "?integer",
    },
    "V2ProduceOffset": {
        "partition": "?integer",
        "offset": "?integer",
        "error_code": "?integer",
        "error": "?string",
    },
    "V2CreateConsumerRequest": {
        "name": "~?string",
        "format": "~?string",
        "auto.offset.reset": "~?string",
        "auto.commit.enable": "~any",
        "fetch.min.bytes": "~any",
        "consumer.request.timeout.ms": "~any",
    },
    "V2CreateConsumerResponse": {"instance_id": "string", "base_uri": "string"},
    "V2Subscription": {"topics": "~?string[]", "topic_pattern": "~?string"},
    "V2Topics": {"topics": "string[]"},
    "V2TopicPartitions": {"partitions": "V2TopicPartition[]"},
    "V2TopicPartition": {"topic": "string", "partition": "integer"},
    "V2Record": {
        "topic": "string",
        "key": "any",
        "value": "any",
        "partition": "integer",
        "offset": "integer",
    },
    "V2CommittedOffsets": {"offsets": "V2Offset[]"},
    "V2CommitRequest": {"offsets": "~V2Offset[]"},
    "V2Offset": {"topic": "string", "partition": "integer", "offset": "integer", "metadata": "~?string"},
    "V2SeekRequest": {"offsets": "~V2Offset[]", "timestamps": "~V2Timestamp[]"},
    "V2Timestamp": {"topic": "string", "partition": "integer", "timestamp": "any"},
}
LISTS = {
    "V2Names": "string[]",
    "V2Nothing": "any[]",
    "V2Texts": "string{}",
    "V2Partitions": "V2Partition[]",
    "V2Records": "V2Record[]",
}


def _all() -> dict[str, Any]:
    found = {name: object_schema(members) for name, members in (OBJECTS | V2_OBJECTS).items()}
    found |= {name: type_schema(text) for name, text in LISTS.items()}
    for name, members in RESOURCES.items():
        found[name] = object_schema({"kind": "string", "metadata": "ResourceMetadata", **members})
        if name not in _SINGLE:
            of_list = {"kind": "string", "metadata": "ResourceCollectionMetadata", "data": f"{name}[]"}
            found[f"{name}List"] = object_schema(of_list)
    of_records = {"anyOf": [reference("Error"), reference("V2ProduceResponse")]}
    return found | {"V2ProduceRefusal": of_records}


SCHEMAS = _all()
