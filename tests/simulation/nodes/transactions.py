"""Random transactional producers and plain ones, which share few transactional ids."""

from bowstring._native.record.encode import encode_batch
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    delete_records,
    describe_producers,
    describe_transactions,
    end_txn,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    list_transactions,
    produce,
    txn_offset_commit,
)
from tests.simulation.nodes.kernel import MS, WALL_NS
from tests.support.waiting import pause_async

TRANSACTION = 1
TIMEOUT_MS = 1500
OLD_PRODUCE, NEW_PRODUCE, NAMED_FETCH = 11, 12, 12
OLD_ADD = 3
UNKNOWN_TOPIC_OR_PARTITION = Errors.UNKNOWN_TOPIC_OR_PARTITION.code
AGAIN = {
    None,
    UNKNOWN_TOPIC_OR_PARTITION,
    Errors.NOT_LEADER_OR_FOLLOWER.code,
    Errors.NOT_ENOUGH_REPLICAS.code,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND.code,
    Errors.REQUEST_TIMED_OUT.code,
}


async def coordinator(client, key, key_type):
    """Returns the node that coordinates a key, as some node says; sometimes another one."""
    if client.random.random() < 0.05:
        return client.a_node()
    request = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    answer = await client.ask(request)
    if answer is None or answer.coordinators[0].error_code:
        return None
    return client.world.nodes.get(answer.coordinators[0].node_id)


def a_partition(client):
    """A partition of some topic, with its leader; None when there is none."""
    image = client.image()
    topics = [each for each in client.topics if image is not None and each in image.topics]
    if not topics:
        return None
    topic = image.topics[client.random.choice(topics)]
    index = client.random.randrange(len(topic.partitions))
    node = client.world.nodes.get(topic.partitions[index].leader)
    return None if node is None else (topic.name, index, node)


def batch(client, producer=None, sequence=0, *, transactional=False):
    now_ms = (WALL_NS + client.world.kernel.now) // MS
    fields = {}
    if producer is not None:
        fields = {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": sequence}
    rows = [(b"k", b"%d" % client.random.randrange(1000), now_ms, ())]
    return encode_batch(rows, transactional=transactional, **fields)


def produce_request(topic, index, data, acks=-1, transactional_id=None):
    part = produce.PartitionProduceData(index=index, records=data)
    return produce.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[produce.TopicProduceData(name=topic, partition_data=[part])],
    )


async def write(client):
    """Produces without a transaction."""
    found = a_partition(client)
    if found is not None:
        topic, index, node = found
        request = produce_request(topic, index, batch(client), client.random.choice([1, -1, -1]))
        await client.ask(request, node, OLD_PRODUCE)


async def write_in_order(client):
    """An idempotent producer: it sends a batch again, to the current leader, until it is answered."""
    answer = await client.ask(
        init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    )
    found = a_partition(client)
    if answer is None or answer.error_code or found is None:
        return
    producer = (answer.producer_id, answer.producer_epoch)
    for sequence in range(client.random.randrange(1, 4)):
        data = batch(client, producer, sequence)
        for _ in range(8):
            error = await send_again(client, *found[:2], data)
            if error not in AGAIN:
                break
            await pause_async(0.1, "the backoff of a producer")
        if error:
            return


async def send_again(client, topic, index, data):
    """Returns the error of a batch that may have been sent before; None when there is no answer."""
    image = client.image()
    partition = None
    if image is not None and topic in image.topics and index < len(image.topics[topic].partitions):
        partition = image.topics[topic].partitions[index]
    node = client.world.nodes.get(partition.leader) if partition is not None else None
    if node is None:
        return UNKNOWN_TOPIC_OR_PARTITION
    answer = await client.ask(produce_request(topic, index, data), node, OLD_PRODUCE)
    if answer is None:
        return None
    return answer.responses[0].partition_responses[0].error_code


async def read(client):
    found = a_partition(client)
    if found is not None:
        topic, index, node = found
        part = fetch.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 16)
        request = fetch.FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=client.random.randrange(2),
            topics=[fetch.FetchTopic(topic=topic, partitions=[part])],
        )
        await client.ask(request, node, NAMED_FETCH)


async def begin(client, transactional_id, node):
    request = init_producer_id.InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS
    )
    answer = await client.ask(request, node, 4)
    if answer is None or answer.error_code:
        return None
    return (answer.producer_id, answer.producer_epoch)


async def transact(client):
    """A transaction, or a part of one: it may be left in the middle."""
    random = client.random
    transactional_id = f"x{random.randrange(4)}"
    node = await coordinator(client, transactional_id, TRANSACTION)
    if node is None:
        return
    producer = await begin(client, transactional_id, node)
    if producer is None:
        return
    is_new = random.random() < 0.6
    for sequence in range(random.randrange(0, 3)):
        found = a_partition(client)
        if found is None:
            return
        if not is_new:
            await add(client, transactional_id, producer, found, node)
        data = batch(client, producer, sequence if random.random() < 0.3 else 0, transactional=True)
        request = produce_request(*found[:2], data, -1, transactional_id)
        await client.ask(request, found[2], NEW_PRODUCE if is_new else OLD_PRODUCE)
    if random.random() < 0.3:
        await commit_offsets(client, transactional_id, producer, node, is_new=is_new)
    if random.random() < 0.8:
        request = end_txn.EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=random.random() < 0.6,
        )
        await client.ask(request, node, 5 if is_new else 4)


async def add(client, transactional_id, producer, partition, node):
    topic = add_partitions_to_txn.AddPartitionsToTxnTopic(name=partition[0], partitions=[partition[1]])
    request = add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[topic],
    )
    await client.ask(request, node, OLD_ADD)


async def commit_offsets(client, transactional_id, producer, node, *, is_new):
    group = client.random.choice(client.groups)
    if not is_new:
        request = add_offsets_to_txn.AddOffsetsToTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            group_id=group,
        )
        await client.ask(request, node)
    there = await coordinator(client, group, 0)
    if there is None:
        return
    part = txn_offset_commit.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=client.random.randrange(50), committed_metadata=""
    )
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(
        name=client.random.choice(client.topics), partitions=[part]
    )
    request = txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[topic],
    )
    await client.ask(request, there, 5 if is_new else 4)


async def allocate(client):
    """An id without a transaction."""
    await client.ask(init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0))


async def look_at_transactions(client):
    random = client.random
    if random.random() < 0.3:
        await client.ask(list_transactions.ListTransactionsRequest())
    elif random.random() < 0.5:
        node = await coordinator(client, "x1", TRANSACTION)
        request = describe_transactions.DescribeTransactionsRequest(transactional_ids=["x0", "x1", "x9"])
        await client.ask(request, node)
    else:
        found = a_partition(client)
        if found is not None:
            topic = describe_producers.TopicRequest(name=found[0], partition_indexes=[found[1]])
            await client.ask(describe_producers.DescribeProducersRequest(topics=[topic]), found[2])


async def look_at_offsets(client):
    found = a_partition(client)
    if found is None:
        return
    if client.random.random() < 0.7:
        part = list_offsets.ListOffsetsPartition(
            partition_index=found[1], timestamp=client.random.choice([-1, -2, -3, 5])
        )
        topic = list_offsets.ListOffsetsTopic(name=found[0], partitions=[part])
        request = list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=[topic])
    else:
        cut = delete_records.DeleteRecordsPartition(
            partition_index=found[1], offset=client.random.randrange(5)
        )
        topic = delete_records.DeleteRecordsTopic(name=found[0], partitions=[cut])
        request = delete_records.DeleteRecordsRequest(topics=[topic], timeout_ms=1000)
    await client.ask(request, found[2])


PRODUCERS = [
    (6, write),
    (4, write_in_order),
    (3, read),
    (12, transact),
    (2, allocate),
    (1, look_at_transactions),
    (2, look_at_offsets),
]
