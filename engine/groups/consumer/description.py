"""Describes consumer groups for admin clients (ConsumerGroupDescribe, KIP-848)."""

from collections.abc import Iterable
from functools import partial

from bowstring.engine.groups.consumer.assignors import enabled_assignors
from bowstring.engine.groups.consumer.group import ConsumerGroup
from bowstring.engine.groups.consumer.member import CLASSIC, CONSUMER, Member
from bowstring.engine.groups.descriptions import converted
from bowstring.engine.groups.modern.cluster import ClusterView
from bowstring.engine.groups.modern.group import NO_ASSIGNMENT
from bowstring.engine.groups.modern.group import Assignment as Target
from bowstring.engine.groups.state import ShardState
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.consumer_group_describe import Assignment, DescribedGroup, TopicPartitions
from bowstring.protocol.messages.consumer_group_describe import Member as DescribedMember


def describe(state: ShardState, group_id: str) -> DescribedGroup:
    """Describes a group and its members; a group of another type is not found."""
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        what = "not found" if group is None else "is not a consumer group"
        return DescribedGroup(
            group_id=group_id,
            error_code=Errors.GROUP_ID_NOT_FOUND.code,
            error_message=f"Group {group_id} {what}.",
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor()
        or enabled_assignors(state.config.group_consumer_assignors)[0],
        members=converted(
            [(each, group.target.get(each.member_id, NO_ASSIGNMENT)) for each in group.members.values()],
            partial(_member, state.cluster),
        ),
    )


def _member(cluster: ClusterView, member_and_target: tuple[Member, Target]) -> DescribedMember:
    member, target = member_and_target
    held: dict[bytes, list[int]] = {}
    for partitions in (member.assigned, member.pending_revocation):
        for topic_id, epochs in partitions.items():
            held.setdefault(topic_id, []).extend(epochs)
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topics),
        subscribed_topic_regex=member.subscribed_regex,
        assignment=_assignment(cluster, held.items()),
        target_assignment=_assignment(cluster, target.items()),
        member_type=CONSUMER if member.classic is None else CLASSIC,
    )


def _assignment(cluster: ClusterView, partitions: Iterable[tuple[bytes, Iterable[int]]]) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(indexes))
            for topic_id, indexes in partitions
            if (name := cluster.topic_name(topic_id)) is not None
        ]
    )
