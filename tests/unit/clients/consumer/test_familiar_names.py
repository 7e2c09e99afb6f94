"""Names of other clients' consumers, and commits in all their forms."""

import time

import pytest

from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import ConfigError, UnknownTopicError
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import OffsetAndMetadata, TopicPartition
from tests.support.waiting import HANG_S, error_in_time


@pytest.fixture
def topic(bootstrap, new_topic):
    name = new_topic(2)
    with Producer(bootstrap) as producer:
        for i in range(10):
            producer.send(name, str(i), partition=0)
    return name


def test_names_of_other_clients(bootstrap, topic):
    partition = TopicPartition(topic, 0)
    settings = {"auto_offset_reset": "earliest", "allow_auto_create": False}
    with Consumer(bootstrap, **settings) as consumer:
        assert consumer.get_watermark_offsets(partition) == (0, 10)
        assert consumer.get_watermark_offsets((topic, 1)) == (0, 0)
        assert set(consumer.list_topics(topic)[topic].partitions) == {0, 1}
        assert topic in consumer.list_topics() and topic in consumer.topics()
        assert consumer.partitions_for_topic(topic) == {0, 1}
        error_in_time(lambda s: consumer.list_topics("there-is-none", timeout=s), UnknownTopicError)
        consumer.assign([partition])
        assert consumer.highwater(partition) is None
        assert consumer.get_watermark_offsets(partition, cached=True) == (-1, -1)
        assert [record.offset for record in consumer.consume(3, timeout=HANG_S)] == [0, 1, 2]
        assert consumer.highwater(partition) == 10
        assert consumer.get_watermark_offsets(partition, cached=True) == (0, 10)
        assert consumer.offsets_for_times({(topic, 0): 0})[partition].offset == 0
        with pytest.raises(ConfigError, match="not assigned"):
            consumer.highwater((topic, 1))


def test_commits_in_all_their_forms(bootstrap, topic, new_group):
    partition = TopicPartition(topic, 0)
    told = []

    def note(offsets, error):
        told.append((offsets, error))

    def stored():
        return consumer.committed([partition])[partition]

    def polled_until(count):
        deadline = time.monotonic() + HANG_S
        while len(told) < count and time.monotonic() < deadline:
            consumer.poll(timeout=0.05)
        return told[count - 1]

    settings = {"enable_auto_commit": False, "auto_offset_reset": "earliest"}
    with Consumer(bootstrap, group_id=new_group, **settings) as consumer:
        consumer.assign([partition])
        record = consumer.poll(HANG_S, max_records=4)[-1]
        consumer.commit(record)
        assert stored().offset == 4
        consumer.commit({partition: 5}, on_commit=note)
        assert told.pop() == ({partition: OffsetAndMetadata(5)}, None)
        consumer.commit({partition: OffsetAndMetadata(6, metadata="mine")}, asynchronous=True, on_commit=note)
        assert polled_until(1) == ({partition: OffsetAndMetadata(6, metadata="mine")}, None)
        assert stored().metadata == "mine"
        consumer.commit_async({partition: 7}, note)
        assert polled_until(2)[1] is None
        consumer.commit_async({TopicPartition(topic, 99): 7}, note)
        assert isinstance(polled_until(3)[1], UnknownTopicError)
        with pytest.raises(ConfigError, match="callback"):
            consumer.commit_async({}, "no function")
    with Consumer(bootstrap) as consumer, pytest.raises(ConfigError, match="group_id"):
        consumer.commit()
