"""Describes share groups for admin clients (ShareGroupDescribe, KIP-932)."""

from functools import partial

from bowstring.engine.groups.descriptions import converted
from bowstring.engine.groups.modern.cluster import ClusterView
from bowstring.engine.groups.share.assignor import NAME
from bowstring.engine.groups.share.group import ShareGroup
from bowstring.engine.groups.share.member import ShareMember
from bowstring.engine.groups.share.membership import found_group
from bowstring.engine.groups.state import ShardState
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.share_group_describe import Assignment, DescribedGroup, TopicPartitions
from bowstring.protocol.messages.share_group_describe import Member as DescribedMember


def describe(state: ShardState, group_id: str) -> DescribedGroup:
    """Describes a group and its members; a group of another type is not found."""
    try:
        group = found_group(state, group_id)
    except KafkaError as error:
        return DescribedGroup(
            group_id=group_id, error_code=Errors.GROUP_ID_NOT_FOUND.code, error_message=error.detail
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=NAME,
        members=converted(list(group.members.values()), partial(_member, state.cluster)),
    )


def _member(cluster: ClusterView, member: ShareMember) -> DescribedMember:
    topics = [
        TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(indexes))
        for topic_id, indexes in member.assigned.items()
        if (name := cluster.topic_name(topic_id)) is not None
    ]
    return DescribedMember(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topics),
        assignment=Assignment(topic_partitions=topics),
    )


def initialized_partitions(state: ShardState, group_id: str) -> dict[bytes, list[int]]:
    """Returns the partitions of a group that have state, by topic id; none for other groups."""
    group = state.groups.get(group_id)
    if not isinstance(group, ShareGroup) or group.partitions is None:
        return {}
    return {topic_id: sorted(each.partitions) for topic_id, each in group.partitions.initialized.items()}
