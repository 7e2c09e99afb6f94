"""Describes streams groups for StreamsGroupDescribe (KIP-1071)."""

from collections.abc import Iterable, Mapping
from typing import Final

from bowstring.engine.groups.descriptions import converted
from bowstring.engine.groups.state import ShardState
from bowstring.engine.groups.streams.configured_topology import ConfiguredTopology, InternalTopic
from bowstring.engine.groups.streams.group import StreamsGroup
from bowstring.engine.groups.streams.heartbeat import existing_group
from bowstring.engine.groups.streams.member import StreamsMember
from bowstring.engine.groups.streams.task_offsets import NO_OFFSETS, TaskOffsets
from bowstring.engine.groups.streams.tasks import TaskId, Tasks, in_order
from bowstring.engine.groups.streams.topology import Topology
from bowstring.protocol.errors import KafkaError
from bowstring.protocol.messages import streams_group_describe as messages
from bowstring.protocol.records.streams_group import TopicInfo

_ASSIGNOR: Final = "sticky"  # the one there is


def describe(state: ShardState, group_id: str) -> messages.DescribedGroup:
    """Returns the description of a group, or an error in its place."""
    try:
        group = existing_group(state, group_id)
    except KafkaError as error:
        found = "not found" if group_id not in state.groups else "is not a streams group"
        return messages.DescribedGroup(
            group_id=group_id, error_code=error.code, error_message=f"Group {group_id} {found}."
        )
    return messages.DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=converted(
            [
                (each, group.target_of(each.member_id), group.offsets.get(each.member_id, NO_OFFSETS))
                for each in group.members.values()
            ],
            _member,
        ),
        assignor_name=_ASSIGNOR,
    )


def _topology(group: StreamsGroup) -> messages.Topology | None:
    if group.configured is not None and group.configured.is_ready:
        return _configured(group.configured)
    return None if group.topology is None else _as_sent(group.topology)


def _configured(topology: ConfiguredTopology) -> messages.Topology:
    return messages.Topology(
        epoch=topology.epoch,
        subtopologies=[
            messages.Subtopology(
                subtopology_id=subtopology_id,
                source_topics=list(subtopology.source_topics),
                repartition_sink_topics=list(subtopology.repartition_sinks),
                state_changelog_topics=[_internal(each) for each in subtopology.changelogs],
                repartition_source_topics=[_internal(each) for each in subtopology.repartition_sources],
            )
            for subtopology_id, subtopology in topology.subtopologies.items()
        ],
    )


def _internal(topic: InternalTopic) -> messages.TopicInfo:
    return messages.TopicInfo(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[messages.KeyValue(key=key, value=value) for key, value in topic.configs.items()],
    )


def _as_sent(topology: Topology) -> messages.Topology:
    return messages.Topology(
        epoch=topology.epoch,
        subtopologies=[
            messages.Subtopology(
                subtopology_id=subtopology_id,
                source_topics=sorted(subtopology.source_topics),
                repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
                state_changelog_topics=_sent_topics(subtopology.state_changelog_topics),
                repartition_source_topics=_sent_topics(subtopology.repartition_source_topics),
            )
            for subtopology_id, subtopology in sorted(topology.subtopologies.items())
        ],
    )


def _sent_topics(topics: Iterable[TopicInfo]) -> list[messages.TopicInfo]:
    return [
        messages.TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[messages.KeyValue(key=each.key, value=each.value) for each in topic.topic_configs],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(member_and_more: tuple[StreamsMember, Tasks, TaskOffsets]) -> messages.Member:
    member, target, offsets = member_and_more
    endpoint = member.user_endpoint
    return messages.Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else messages.Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=[messages.KeyValue(key=key, value=value) for key, value in member.client_tags.items()],
        task_offsets=_task_offsets(offsets.reached),
        task_end_offsets=_task_offsets(offsets.ends),
        assignment=messages.Assignment(
            active_tasks=_task_ids(member.tasks.active),
            standby_tasks=_task_ids(member.tasks.standby),
            warmup_tasks=_task_ids(member.tasks.warmup),
        ),
        target_assignment=messages.Assignment(
            active_tasks=_task_ids(target.active),
            standby_tasks=_task_ids(target.standby),
            warmup_tasks=_task_ids(target.warmup),
        ),
    )


def _task_offsets(offsets: Mapping[TaskId, int]) -> list[messages.TaskOffset]:
    return [
        messages.TaskOffset(subtopology_id=subtopology_id, partition=partition, offset=offset)
        for (subtopology_id, partition), offset in sorted(offsets.items())
    ]


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[messages.TaskIds]:
    return [
        messages.TaskIds(subtopology_id=subtopology_id, partitions=partitions)
        for subtopology_id, partitions in in_order(tasks)
    ]
