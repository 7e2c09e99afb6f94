"""Short functions that build a batch, a Produce and a Fetch."""

from bowstring._native.record.decode import decode_batches
from bowstring._native.record.encode import encode_batch
from bowstring.protocol.messages import fetch as f
from bowstring.protocol.messages import produce as p
from tests.support.served_plane import TOPIC, TOPIC_ID
from tests.support.waiting import FOR_EVER_MS


def batch(*values: bytes, **options) -> bytes:
    now = options.pop("timestamp", 1_700_000_000_000)
    codec = options.pop("codec", 0)
    return encode_batch([(options.get("key"), value, now, []) for value in values], codec)


def records_of(records: bytes) -> list[tuple[int, bytes]]:
    return [(record.offset, record.value) for record in decode_batches(records)]


def produce(records, version, *, topic=TOPIC, topic_id=TOPIC_ID, partition=0, acks=1, timeout_ms=FOR_EVER_MS):
    named = {"topic_id": topic_id} if version >= 13 else {"name": topic}
    data = p.TopicProduceData(
        **named, partition_data=[p.PartitionProduceData(index=partition, records=records)]
    )
    return p.ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[data])


def fetch_topic(version, partitions, topic=TOPIC, topic_id=TOPIC_ID):
    return f.FetchTopic(
        **({"topic_id": topic_id} if version >= 13 else {"topic": topic}), partitions=partitions
    )


def fetch(version, *, topic=TOPIC, topic_id=TOPIC_ID, partition=0, offset=0, max_wait_ms=0, min_bytes=1,
          max_bytes=50 << 20, partition_max_bytes=1 << 20, leader_epoch=-1, replica_id=-1, isolation=0,
          session_id=0, session_epoch=-1):  # fmt: skip
    part = f.FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=partition_max_bytes,
        current_leader_epoch=leader_epoch,
    )
    return f.FetchRequest(
        replica_id=replica_id, max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes,
        isolation_level=isolation, session_id=session_id, session_epoch=session_epoch,
        topics=[fetch_topic(version, [part], topic, topic_id)],
    )  # fmt: skip


def only(response, topics="responses", partitions="partition_responses"):
    (topic,) = getattr(response, topics)
    (partition,) = getattr(topic, partitions)
    return partition


def fetched(response):
    return only(response, partitions="partitions")
