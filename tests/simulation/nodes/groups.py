"""Random members of groups of all types, with few group ids, and clients that inspect and delete groups."""

from bowstring.protocol.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_fetch,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    streams_group_describe,
    streams_group_heartbeat,
    sync_group,
)
from tests.simulation.nodes.transactions import a_partition, coordinator

GROUP = 0
LEFT = -1
MEMBER_ID_REQUIRED = 79
SHARE_MEMBERS = [f"AAAAAAAAAAAAAAAAAAAA{each}" for each in range(10, 14)]
SUBSCRIPTION = bytes.fromhex("0000") + (1).to_bytes(4, "big") + (2).to_bytes(2, "big") + b"t0" + bytes(4)


def a_group(client, kind=None):
    """A group; each has a usual type, which some clients ignore."""
    groups = client.groups
    if kind is None or client.random.random() < 0.1:
        return client.random.choice(groups)
    return client.random.choice([each for each in groups if each.startswith(kind)])


async def join(client):
    """A classic member: it joins, syncs, beats, commits, and leaves or not."""
    random = client.random
    group = a_group(client, "classic")
    node = await coordinator(client, group, GROUP)
    if node is None:
        return
    member = ""
    for _ in range(2):
        request = join_group.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=6000,
            rebalance_timeout_ms=1000,
            member_id=member,
            protocol_type="consumer",
            protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )
        answer = await client.ask(request, node)
        if answer is None or answer.error_code not in (0, MEMBER_ID_REQUIRED):
            return
        member = answer.member_id
        if answer.error_code == 0:
            break
    generation = answer.generation_id
    assignments = [
        sync_group.SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"")
        for each in answer.members
    ]
    request = sync_group.SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )
    await client.ask(request, node)
    for _ in range(random.randrange(3)):
        request = heartbeat.HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
        await client.ask(request, node)
        await commit(client, group, node, generation, member)
    if random.random() < 0.7:
        who = leave_group.MemberIdentity(member_id=member)
        await client.ask(leave_group.LeaveGroupRequest(group_id=group, members=[who]), node)


async def commit(client, group, node, epoch=-1, member=""):
    part = offset_commit.OffsetCommitRequestPartition(
        partition_index=client.random.randrange(2),
        committed_offset=client.random.randrange(100),
        committed_metadata="",
    )
    topic = offset_commit.OffsetCommitRequestTopic(
        name=client.random.choice(client.topics), partitions=[part]
    )
    request = offset_commit.OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=epoch, member_id=member, topics=[topic]
    )
    await client.ask(request, node, 9)


async def commit_alone(client):
    group = a_group(client)
    node = await coordinator(client, group, GROUP)
    if node is not None:
        await commit(client, group, node)


async def fetch_offsets(client):
    group = a_group(client)
    node = await coordinator(client, group, GROUP)
    if node is not None:
        asked = offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=None)
        request = offset_fetch.OffsetFetchRequest(groups=[asked], require_stable=client.random.random() < 0.5)
        await client.ask(request, node, 9)


async def beat(client):
    """A member of KIP-848."""
    random = client.random
    group = a_group(client, "consumer")
    node = await coordinator(client, group, GROUP)
    if node is None:
        return
    member, epoch = f"m{random.randrange(6)}", 0
    for _ in range(random.randrange(1, 4)):
        request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout_ms=2000 if epoch == 0 else -1,
            subscribed_topic_names=random.sample(client.topics, 2) if epoch == 0 else None,
            topic_partitions=[] if epoch == 0 else None,
        )
        answer = await client.ask(request, node)
        if answer is None or answer.error_code:
            return
        epoch = answer.member_epoch
        if random.random() < 0.4:
            await commit(client, group, node, epoch, member)
    if random.random() < 0.5:
        request = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=LEFT
        )
        await client.ask(request, node)


async def share(client):
    """A member of a share group; it fetches from some leader, and acknowledges what it got."""
    random = client.random
    group = a_group(client, "share")
    node = await coordinator(client, group, GROUP)
    if node is None:
        return
    member = random.choice(SHARE_MEMBERS)
    request = share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=0,
        subscribed_topic_names=random.sample(client.topics, 2),
    )
    answer = await client.ask(request, node)
    if answer is None or answer.error_code:
        return
    await fetch_shared(client, group, member)
    if random.random() < 0.5:
        request = share_group_heartbeat.ShareGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=LEFT
        )
        await client.ask(request, node)


async def fetch_shared(client, group, member):
    found = a_partition(client)
    image = client.image()
    if found is None or found[0] not in image.topics:
        return
    topic_id = image.topics[found[0]].id
    part = share_fetch.FetchPartition(partition_index=found[1])
    request = share_fetch.ShareFetchRequest(
        group_id=group,
        member_id=member,
        share_session_epoch=0,
        max_wait_ms=client.random.choice([0, 200]),
        min_bytes=1,
        max_records=10,
        batch_size=10,
        topics=[share_fetch.FetchTopic(topic_id=topic_id, partitions=[part])],
    )
    answer = await client.ask(request, found[2])
    if answer is None or answer.error_code:
        return
    batches = [
        share_acknowledge.AcknowledgementBatch(
            first_offset=each.first_offset,
            last_offset=each.last_offset,
            acknowledge_types=[client.random.choice([1, 1, 2, 3])],
        )
        for topic in answer.responses
        for got in topic.partitions
        for each in got.acquired_records
    ]
    if batches and client.random.random() < 0.8:
        part = share_acknowledge.AcknowledgePartition(
            partition_index=found[1], acknowledgement_batches=batches
        )
        request = share_acknowledge.ShareAcknowledgeRequest(
            group_id=group,
            member_id=member,
            share_session_epoch=client.random.choice([1, LEFT]),
            topics=[share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=[part])],
        )
        await client.ask(request, found[2])


async def stream(client):
    """A member of a streams group."""
    random = client.random
    group = a_group(client, "streams")
    node = await coordinator(client, group, GROUP)
    if node is None:
        return
    member = f"s{random.randrange(4)}"
    topology = streams_group_heartbeat.Topology(
        epoch=0,
        subtopologies=[
            streams_group_heartbeat.Subtopology(
                subtopology_id="0", source_topics=[random.choice(client.topics)]
            )
        ],
    )
    request = streams_group_heartbeat.StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=0,
        rebalance_timeout_ms=2000,
        topology=topology,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id=member,
        client_tags=[],
    )
    answer = await client.ask(request, node)
    if answer is not None and not answer.error_code and random.random() < 0.6:
        request = streams_group_heartbeat.StreamsGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=random.choice([LEFT, answer.member_epoch])
        )
        await client.ask(request, node)


async def look_at_groups(client):
    """Describes groups by their own type, or by another one."""
    random = client.random
    groups = random.sample(client.groups, 2)
    request = random.choice(
        [
            list_groups.ListGroupsRequest(),
            describe_groups.DescribeGroupsRequest(groups=groups),
            consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=groups),
            share_group_describe.ShareGroupDescribeRequest(group_ids=groups),
            streams_group_describe.StreamsGroupDescribeRequest(group_ids=groups),
        ]
    )
    await client.ask(request)


async def delete(client):
    group = a_group(client)
    node = await coordinator(client, group, GROUP)
    if node is not None:
        await client.ask(delete_groups.DeleteGroupsRequest(groups_names=[group]), node)


MEMBERS = [
    (4, join),
    (2, commit_alone),
    (2, fetch_offsets),
    (6, beat),
    (4, share),
    (2, stream),
    (2, look_at_groups),
    (1, delete),
]
