"""Tasks that are cancelled within transactions: each ends, and the next one begins."""

import asyncio

import pytest

import bowstring
from bowstring import aio
from tests.support.waiting import HANG_S, wait_until_async

SETTINGS = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}


def committed(bootstrap, topic, count):
    """Returns the values that readers of committed records see: at least `count`, up to the end."""
    with bowstring.Consumer(bootstrap, **SETTINGS) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        found = []
        while len(found) < count or any(consumer.lag(each) != 0 for each in consumer.assignment()):
            found += [record.value for record in consumer.poll(HANG_S)]
        return found


async def cancelled_after(task, steps):
    """Lets the loop run for this many steps, then cancels the task and waits for its end."""
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_block_cancelled_anywhere_ends_its_transaction(bootstrap, new_topic, new_group):
    """While it begins, while records wait for metadata, while it commits."""
    topic = new_topic()

    async def block(producer, steps):
        async with producer.transaction():
            producer.send(topic if steps % 2 else f"{topic}-{steps}", b"cancelled")

    async def main():
        async with aio.Producer(bootstrap, transactional_id=new_group) as producer:
            for steps in range(2, 12):
                await cancelled_after(asyncio.create_task(block(producer, steps)), steps)
                async with producer.transaction():
                    producer.send(topic, b"%d" % steps)
            assert not producer.in_transaction

    asyncio.run(asyncio.wait_for(main(), HANG_S))
    found = committed(bootstrap, topic, 10)
    assert [value for value in found if value != b"cancelled"] == [b"%d" % steps for steps in range(2, 12)]


def test_a_cancelled_begin_leaves_the_transaction_of_another_task_alone(bootstrap, new_topic, new_group):
    topic = new_topic()

    async def main():
        async with (
            aio.Producer(bootstrap, transactional_id=new_group) as producer,
            producer.transaction(),
        ):
            await producer.send(topic, b"mine")
            await cancelled_after(asyncio.create_task(producer.begin_transaction()), 1)
            await producer.send(topic, b"mine, too")

    asyncio.run(asyncio.wait_for(main(), HANG_S))
    assert committed(bootstrap, topic, 2) == [b"mine", b"mine, too"]


def test_a_cancelled_transform_cancels_its_function_and_aborts(bootstrap, new_topic, new_group):
    source, target, group = new_topic(), new_topic(), new_group
    with bowstring.Producer(bootstrap) as producer:
        producer.send(source, b"once")
    running = []

    async def hang(records, producer):
        producer.send(target, b"never")
        running.append(True)
        await asyncio.Event().wait()

    async def copy(records, producer):
        for record in records:
            producer.send(target, record.value)

    async def main():
        settings = {"group_id": group, "enable_auto_commit": False, **SETTINGS}
        async with (
            aio.Consumer(bootstrap, **settings) as consumer,
            aio.Producer(bootstrap, transactional_id=group) as producer,
        ):
            await consumer.subscribe(source)
            task = asyncio.create_task(aio.transform(consumer, hang, producer))
            await wait_until_async(lambda: running)
            await cancelled_after(task, 0)
            moved = 0
            while not moved:
                moved = await aio.transform(consumer, copy, producer, timeout=0.5)
            assert moved == 1

    asyncio.run(asyncio.wait_for(main(), HANG_S))
    assert committed(bootstrap, target, 1) == [b"once"]
