"""Notifies members which partitions are served where, for interactive queries (KIP-1071)."""

from collections.abc import Iterable, Mapping

from bowstring.engine.groups.streams.configured_topology import ConfiguredTopology, PartitionsOf
from bowstring.engine.groups.streams.member import StreamsMember
from bowstring.protocol.messages import streams_group_heartbeat as messages


def partitions_by_endpoint(
    members: Iterable[StreamsMember], configured: ConfiguredTopology, partitions_of: PartitionsOf
) -> list[messages.EndpointToPartitions]:
    """Returns the input partitions of the tasks of each member that has an endpoint."""
    return [
        messages.EndpointToPartitions(
            user_endpoint=messages.Endpoint(host=member.user_endpoint[0], port=member.user_endpoint[1]),
            active_partitions=_partitions(member.tasks.active, configured, partitions_of),
            standby_partitions=_partitions(member.tasks.standby, configured, partitions_of),
        )
        for member in members
        if member.user_endpoint is not None
    ]


def _partitions(
    tasks: Mapping[str, Iterable[int]], configured: ConfiguredTopology, partitions_of: PartitionsOf
) -> list[messages.TopicPartition]:
    found = []
    for subtopology_id in sorted(tasks):
        subtopology = configured.subtopologies.get(subtopology_id)
        if subtopology is None:
            continue  # its topics do not fit at present
        for topic in subtopology.input_topics():
            count = partitions_of(topic) or 0
            partitions = sorted(each for each in tasks[subtopology_id] if each < count)
            if partitions:
                found.append(messages.TopicPartition(topic=topic, partitions=partitions))
    return found
