"""Random requests of group administrators: offsets deleted, set and shown, topologies described."""

from bowstring.protocol.messages import (
    alter_share_group_offsets,
    delete_groups,
    delete_share_group_offsets,
    describe_share_group_offsets,
    offset_delete,
    share_group_heartbeat,
    streams_group_topology_description_update,
)
from tests.simulation.nodes.groups import GROUP, LEFT, SHARE_MEMBERS, a_group
from tests.simulation.nodes.transactions import coordinator


async def delete_offsets(client):
    group = a_group(client)
    node = await coordinator(client, group, GROUP)
    if node is not None:
        parts = [offset_delete.OffsetDeleteRequestPartition(partition_index=each) for each in (0, 1)]
        topic = offset_delete.OffsetDeleteRequestTopic(
            name=client.random.choice(client.topics), partitions=parts
        )
        await client.ask(offset_delete.OffsetDeleteRequest(group_id=group, topics=[topic]), node)


async def describe_share_offsets(client):
    group = a_group(client, "share")
    node = await coordinator(client, group, GROUP)
    if node is None:
        return
    topics = None
    if client.random.random() < 0.5:
        name = client.random.choice(client.topics)
        topics = [
            describe_share_group_offsets.DescribeShareGroupOffsetsRequestTopic(
                topic_name=name, partitions=[0, 1]
            )
        ]
    asked = describe_share_group_offsets.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics)
    await client.ask(describe_share_group_offsets.DescribeShareGroupOffsetsRequest(groups=[asked]), node)


async def alter_share_offsets(client):
    group = a_group(client, "share")
    node = await coordinator(client, group, GROUP)
    if node is None:
        return
    part = alter_share_group_offsets.AlterShareGroupOffsetsRequestPartition(
        partition_index=client.random.randrange(2), start_offset=client.random.randrange(5)
    )
    topic = alter_share_group_offsets.AlterShareGroupOffsetsRequestTopic(
        topic_name=client.random.choice(client.topics), partitions=[part]
    )
    request = alter_share_group_offsets.AlterShareGroupOffsetsRequest(group_id=group, topics=[topic])
    await client.ask(request, node)


async def delete_share_offsets(client):
    group = a_group(client, "share")
    node = await coordinator(client, group, GROUP)
    if node is not None:
        topic = delete_share_group_offsets.DeleteShareGroupOffsetsRequestTopic(
            topic_name=client.random.choice(client.topics)
        )
        request = delete_share_group_offsets.DeleteShareGroupOffsetsRequest(group_id=group, topics=[topic])
        await client.ask(request, node)


async def delete_a_share_group(client):
    """All its members leave; unless one joins again, the group is deleted with its partitions' state."""
    group = a_group(client, "share")
    node = await coordinator(client, group, GROUP)
    if node is None:
        return
    for member in SHARE_MEMBERS:
        leave = share_group_heartbeat.ShareGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=LEFT
        )
        await client.ask(leave, node)
    await client.ask(delete_groups.DeleteGroupsRequest(groups_names=[group]), node)


async def describe_a_topology(client):
    """A streams member's push of its topology, here without a request from the coordinator."""
    group = a_group(client, "streams")
    node = await coordinator(client, group, GROUP)
    if node is None:
        return
    messages = streams_group_topology_description_update
    source = messages.TopologyDescriptionNode(
        name="source", node_type=1, source_topics=[client.random.choice(client.topics)]
    )
    described = messages.TopologyDescription(
        subtopologies=[messages.TopologyDescriptionSubtopology(subtopology_id="0", nodes=[source])]
    )
    request = messages.StreamsGroupTopologyDescriptionUpdateRequest(
        group_id=group,
        member_id=f"s{client.random.randrange(4)}",
        topology_epoch=0,
        topology_description=described,
    )
    await client.ask(request, node)


GROUP_ADMINISTRATION = [
    (2, delete_offsets),
    (2, describe_share_offsets),
    (2, alter_share_offsets),
    (1, delete_share_offsets),
    (1, delete_a_share_group),
    (1, describe_a_topology),
]
