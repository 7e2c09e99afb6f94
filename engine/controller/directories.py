"""Notes which log directory holds which replica (KIP-858)."""

from bowstring.engine.controller.decision import Decision
from bowstring.engine.controller.leader_updates import update_leaders
from bowstring.engine.controller.partition_change import PartitionChange, Rules
from bowstring.engine.controller.partition_index import PartitionKey
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.metadata.directory_ids import is_online
from bowstring.engine.metadata.features import DIRECTORIES_SINCE
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from bowstring.protocol.schema import MetadataRecord


def assign_replicas(
    state: ControllerState, request: AssignReplicasToDirsRequest
) -> Decision[AssignReplicasToDirsResponse]:
    """Notes the directories of a broker's replicas. A replica in a directory that is offline leaves the ISR.

    Raises:
        KafkaError: UNSUPPORTED_VERSION: metadata.version is older than directories. STALE_BROKER_EPOCH.
    """
    if state.metadata_version < DIRECTORIES_SINCE:
        raise KafkaError(Errors.UNSUPPORTED_VERSION, "Directory assignment is not supported yet.")
    broker = state.broker(request.broker_id, request.broker_epoch)
    rules = Rules.of(state)
    records: list[MetadataRecord] = []
    offline: dict[PartitionKey, None] = {}
    answer = AssignReplicasToDirsResponse()
    for directory in request.directories:
        of_directory = AssignReplicasToDirsResponseDirectoryData(id=directory.id)
        answer.directories.append(of_directory)
        for topic in directory.topics:
            of_topic = AssignReplicasToDirsResponseTopicData(topic_id=topic.topic_id)
            of_directory.topics.append(of_topic)
            for each in topic.partitions:
                key = topic.topic_id, each.partition_index
                error, record = _assign(state, rules, broker.id, key, directory.id)
                if record is not None:
                    records.append(record)
                of_topic.partitions.append(
                    AssignReplicasToDirsResponsePartitionData(
                        partition_index=each.partition_index, error_code=error.code
                    )
                )
                if not error and not is_online(broker, directory.id):
                    offline[key] = None
    records += update_leaders(state, offline, gone=broker.id)
    return Decision(records, answer, atomic=False)


def _assign(
    state: ControllerState,
    rules: Rules,
    broker: int,
    key: PartitionKey,
    directory: bytes,
) -> tuple[Error, MetadataRecord | None]:
    topic = state.image.topics_by_id.get(key[0])
    if topic is None:
        return Errors.UNKNOWN_TOPIC_ID, None
    partition = state.find_partition(key)
    if partition is None:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION, None
    if broker not in partition.replicas:
        return Errors.NOT_LEADER_OR_FOLLOWER, None
    change = PartitionChange(key, partition, rules, state.min_in_sync(topic.name))
    change.directories[broker] = directory
    return Errors.NONE, change.build()
