"""What a consumer commits when its block ends by an exception: finished records, and nothing else."""

import asyncio
import time

import pytest

from bowstring import aio
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import ConfigError
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from tests.support.waiting import HANG_S

GROUP = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 100}


class BodyError(Exception):
    pass


@pytest.fixture
def topic(bootstrap, new_topic):
    name = new_topic()
    with Producer(bootstrap) as producer:
        for number in range(100):
            producer.send(name, b"%d" % number)
    return name


@pytest.fixture
def committed(admin, topic, new_group):
    """Returns the group's stored offset, or None."""
    return lambda: getattr(admin.committed_offsets(new_group).get(TopicPartition(topic, 0)), "offset", None)


@pytest.fixture
def consumer(bootstrap, topic, new_group):
    made = Consumer(bootstrap, group_id=new_group, **GROUP)
    made.subscribe([topic])
    yield made
    made.close()


def take(call, count):
    """Calls until something is returned; by then `count` records have come."""
    while not (got := call()):
        pass
    assert len(got) == count
    return got


def polls(consumer, count):
    return take(lambda: consumer.poll(timeout=HANG_S, max_records=count), count)


def rows(consumer, count):
    return take(
        lambda: consumer.poll_arrow(timeout=HANG_S, max_records=count, columns=["offset"])["offset"], count
    )


@pytest.mark.parametrize("read", [polls, rows])
@pytest.mark.parametrize("kind", [BodyError, KeyboardInterrupt, SystemExit])
def test_the_last_poll_is_not_finished(consumer, committed, read, kind):
    with pytest.raises(kind), consumer:
        read(consumer, 30)
        read(consumer, 30)
        raise kind
    assert committed() == 30


def test_the_first_poll_alone(consumer, committed, topic):
    with pytest.raises(BodyError), consumer:
        polls(consumer, 30)
        raise BodyError
    assert committed() == 0


def test_raw_batches(bootstrap, consumer, committed, topic):
    with pytest.raises(BodyError), consumer:
        end = take(consumer.poll_batches, 1)[-1].next_offset
        with Producer(bootstrap) as producer:
            producer.send(topic, b"more")
        take(consumer.poll_batches, 1)
        raise BodyError
    assert (end, committed()) == (100, 100)


def test_iteration_finishes_record_by_record(consumer, committed):
    with pytest.raises(BodyError), consumer:
        for record in consumer:
            if record.offset == 41:
                raise BodyError
    assert committed() == 41


def test_the_last_record_of_a_stretch_of_iteration(bootstrap, topic, new_group, committed):
    consumer = Consumer(bootstrap, group_id=new_group, max_poll_records=10, **GROUP)
    consumer.subscribe([topic])
    with pytest.raises(BodyError), consumer:
        for record in consumer:
            if record.offset == 19:
                raise BodyError
    assert committed() == 19


def test_a_block_that_ends_well_commits_all(consumer, committed):
    with consumer:
        polls(consumer, 30)
        for record in consumer:
            if record.offset == 41:
                break
    assert committed() == 42


def test_a_commit_of_the_block_stays(consumer, committed):
    with pytest.raises(BodyError), consumer:
        records = polls(consumer, 30)
        consumer.commit(records[9])
        raise BodyError
    assert committed() == 10


def test_a_commit_of_the_record_at_hand_stays(consumer, committed):
    with pytest.raises(BodyError), consumer:
        for record in consumer:
            if record.offset == 41:
                consumer.commit(record)
                raise BodyError
    assert committed() == 42


def test_a_listener_that_commits_positions(bootstrap, topic, new_group, committed):
    consumer = Consumer(bootstrap, group_id=new_group, enable_auto_commit=False, **GROUP)
    consumer.subscribe([topic], on_revoked=lambda partitions: consumer.commit())
    with pytest.raises(BodyError), consumer:
        polls(consumer, 30)
        polls(consumer, 30)
        raise BodyError
    assert committed() == 30


def test_after_a_seek_forward(consumer, committed, topic):
    with pytest.raises(BodyError), consumer:
        polls(consumer, 30)
        polls(consumer, 30)
        consumer.seek((topic, 0), 90)
        raise BodyError
    assert committed() == 30, "30 to 59 were handed out and not finished"


def test_after_a_seek_back(consumer, committed, topic):
    with pytest.raises(BodyError), consumer:
        polls(consumer, 30)
        polls(consumer, 30)
        consumer.seek((topic, 0), 7)
        raise BodyError
    assert committed() == 7


def test_calls_between_polls_commit_nothing_unfinished(bootstrap, topic, new_group, committed):
    """Looking at positions also runs the consumer's periodic work, and so automatic commits."""
    with Consumer(bootstrap, group_id=new_group, auto_commit_interval_ms=1, **GROUP) as consumer:
        consumer.subscribe([topic])
        polls(consumer, 30)
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            assert consumer.position((topic, 0)) == 30
        assert committed() in {None, 0}
        polls(consumer, 30)
        while committed() != 30:
            consumer.position((topic, 0))


def test_close_without_committing(consumer, committed):
    polls(consumer, 30)
    consumer.close(autocommit=False)
    assert committed() in {None, 0}, "0 where polling took so long that a commit was due"


def test_the_exception_of_the_block_is_raised_also_if_closing_fails(consumer, caplog):
    close = consumer._group.close

    def fail(**options):
        close(**options)
        raise ConfigError("closing failed")

    with pytest.raises(BodyError), consumer:
        polls(consumer, 30)
        consumer._group.close = fail
        raise BodyError
    assert "closing failed" in caplog.text


# ------------------------------------------------------------ asyncio


def ended_by_error(body, bootstrap, topic, group, kind=BodyError, **options):
    async def main():
        async with aio.Consumer(bootstrap, group_id=group, **GROUP, **options) as consumer:
            await consumer.subscribe([topic])
            await body(consumer)
            raise kind

    with pytest.raises(kind):
        asyncio.run(main())


async def apolls(consumer, count):
    while not (got := await consumer.poll(timeout=HANG_S, max_records=count)):
        pass
    assert len(got) == count


def test_aio_the_last_poll_is_not_finished(bootstrap, topic, new_group, committed):
    async def body(consumer):
        await apolls(consumer, 30)
        await apolls(consumer, 30)

    ended_by_error(body, bootstrap, topic, new_group)
    assert committed() == 30


def test_aio_iteration_finishes_record_by_record(bootstrap, topic, new_group, committed):
    async def body(consumer):
        async for record in consumer:
            if record.offset == 41:
                return

    ended_by_error(body, bootstrap, topic, new_group)
    assert committed() == 41


def test_aio_a_poll_amid_iteration(bootstrap, topic, new_group, committed):
    async def body(consumer):
        async for record in consumer:
            if record.offset == 41:
                break
        assert [record.offset for record in await consumer.poll(timeout=HANG_S, max_records=3)] == [
            42,
            43,
            44,
        ]

    ended_by_error(body, bootstrap, topic, new_group)
    assert committed() == 42


def test_aio_a_cancelled_task(bootstrap, topic, new_group, committed):
    """The waiting poll has nothing; all records returned before it are finished."""

    async def body(consumer):
        await apolls(consumer, 100)
        asyncio.get_running_loop().call_later(0.2, asyncio.current_task().cancel)
        await consumer.poll(timeout=HANG_S)

    ended_by_error(body, bootstrap, topic, new_group, asyncio.CancelledError)
    assert committed() == 100


def test_aio_a_block_that_ends_well_commits_all(bootstrap, topic, new_group, committed):
    async def main():
        async with aio.Consumer(bootstrap, group_id=new_group, **GROUP) as consumer:
            await consumer.subscribe([topic])
            await apolls(consumer, 30)

    asyncio.run(main())
    assert committed() == 30
