"""A log that has failed, and the broker around it: its end is not called clean."""

import errno
import time

import pytest

from bowstring import Broker
from bowstring._native.log.partition_log import LogError
from bowstring._native.record.encode import encode_batch, with_producer
from bowstring.engine.broker.node import NodeLostError
from bowstring.protocol.messages import create_topics as ct
from bowstring.protocol.messages import produce as p
from tests.support import faults
from tests.support.waiting import FOR_EVER_MS
from tests.support.wire_client import WireClient

STORAGE_ERROR = 56


def append(client: WireClient, topic_id: bytes, sequence: int) -> tuple[int, int]:
    """(error, base offset) of a batch of producer 7, each time the same one for its sequence."""
    plain = encode_batch([(None, b"v%d" % sequence, time.time_ns() // 1_000_000_000_000 * 1_000_000, [])], 0)
    part = p.PartitionProduceData(index=0, records=with_producer(plain, 7, 0, sequence))
    topic = p.TopicProduceData(topic_id=topic_id, partition_data=[part])
    found = client.ask(p.ProduceRequest(acks=1, timeout_ms=FOR_EVER_MS, topic_data=[topic])).responses[0]
    return found.partition_responses[0].error_code, found.partition_responses[0].base_offset


def test_a_failed_log_is_recovered_at_the_next_start(tmp_path):
    """Its producers, too: called clean, it would have forgotten them and taken a retry for something new."""
    marker = tmp_path / ".kafka_cleanshutdown"
    broker = Broker(data_dir=tmp_path).start()
    client = WireClient(broker.port)
    wanted = ct.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    topic_id = client.ask(ct.CreateTopicsRequest(topics=[wanted])).topics[0].topic_id
    assert append(client, topic_id, 0) == (0, 0)
    with faults.failing("pwritev", errno.ENOSPC):
        assert append(client, topic_id, 1) == (STORAGE_ERROR, -1)
    with pytest.raises((LogError, NodeLostError), match="t-0"):
        broker.stop()
    assert not marker.exists()
    with Broker(data_dir=tmp_path) as broker:
        client = WireClient(broker.port)
        assert append(client, topic_id, 0) == (0, 0)  # a retry
        assert append(client, topic_id, 1) == (0, 1)
    assert marker.exists()
