"""Timeouts where users of other clients put them: first in poll, second in consume, -1 for ever."""

import asyncio
import threading
import time

import pytest

from bowstring import aio
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import ConfigError
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from tests.support.waiting import HANG_S


def test_poll_takes_a_timeout_first(bootstrap, new_topic, consumer_for):
    topic = new_topic()
    consumer = consumer_for(topic)
    for call in (consumer.poll, consumer.poll_batches, lambda timeout: consumer.consume(5, timeout)):
        began = time.monotonic()
        assert call(0.3) == []
        assert time.monotonic() - began >= 0.3
    assert consumer.poll(0) == [] and consumer.poll_arrow(0.1).num_rows == 0
    with Producer(bootstrap, linger_ms=60_000) as producer:  # one batch
        for _ in range(10):
            producer.send(topic, b"x")
    assert len(consumer.poll(int(HANG_S))) == 10, "a timeout, not a number of records"
    consumer.seek((topic, 0), 0)
    assert len(consumer.consume(4, int(HANG_S))) == 4


@pytest.mark.parametrize("forever", [None, -1, -1.0])
def test_for_ever(bootstrap, new_topic, consumer_for, forever):
    topic = new_topic()
    consumer = consumer_for(topic)
    with Producer(bootstrap) as producer:
        later = threading.Timer(0.3, producer.send, (topic, b"at last"))
        later.start()
        assert consumer.poll(forever)[0].value == b"at last"
        later.join()
        producer.send(topic, b"flushed")
        producer.flush(forever)
        assert consumer.consume(1, forever)[0].value == b"flushed"
    assert consumer.position((topic, 0), -1) == 2


def test_wakeup_ends_it(consumer_for, new_topic):
    consumer = consumer_for(new_topic())
    later = threading.Timer(0.3, consumer.wakeup)
    later.start()
    assert consumer.poll(None) == []
    later.join()


@pytest.mark.parametrize("wrong", ["1", float("nan"), object()])
def test_what_is_no_timeout(consumer_for, wrong):
    consumer = consumer_for()
    for call in (consumer.poll, consumer.poll_arrow, consumer.poll_batches, consumer.await_records):
        with pytest.raises(ConfigError, match=r"timeout is .*a number of seconds"):
            call(wrong)
    with Producer("127.0.0.1:1") as producer, pytest.raises(ConfigError, match=r"timeout is"):
        producer.flush(wrong)


@pytest.mark.parametrize("wrong", [1.0, 0, -1, True, "5"])
def test_what_is_no_number_of_records(consumer_for, wrong):
    consumer = consumer_for()
    for call in (consumer.poll, consumer.poll_arrow):
        with pytest.raises(ConfigError, match=r"max_records is .* whole number.*timeout="):
            call(max_records=wrong)
    with pytest.raises(ConfigError, match=r"(max_records|num_messages) is"):
        consumer.consume(wrong)


def test_two_numbers_in_a_row_are_refused(consumer_for):
    """kafka-python has milliseconds and records there."""
    with pytest.raises(TypeError, match=r"poll\(\) takes"):
        consumer_for().poll(1000, 500)


def test_asyncio(bootstrap, new_topic):
    topic = new_topic()

    async def main():
        async with aio.Producer(bootstrap) as producer, aio.Consumer(bootstrap) as consumer:
            await consumer.assign([TopicPartition(topic, 0)])
            await consumer.seek((topic, 0), 0)
            began = time.monotonic()
            assert await consumer.poll(0.3) == []
            assert time.monotonic() - began >= 0.3
            waiting = asyncio.create_task(consumer.poll(None))
            await asyncio.sleep(0)
            await producer.send(topic, b"at last")
            assert (await waiting)[0].value == b"at last"
            producer.send(topic, b"flushed")
            await producer.flush(-1)
            with pytest.raises(ConfigError, match=r"max_records"):
                await consumer.poll(max_records=1.0)

    asyncio.run(main())


def test_no_broker_and_no_end_of_time():
    with Consumer("127.0.0.1:1") as consumer:
        consumer.assign([("t", 0)])
        later = threading.Timer(0.3, consumer.wakeup)
        later.start()
        assert consumer.poll(-1) == []
        later.join()
