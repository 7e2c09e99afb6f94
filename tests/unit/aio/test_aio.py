"""The asyncio clients: the threaded ones' behaviour, never in the loop's way, and safe to cancel."""

import asyncio
import gc
import threading
import time

import pyarrow
import pytest
import uvloop

from bowstring import Json, ValueEncodeError, aio
from bowstring.clients.errors import (
    BufferFullError,
    ClientError,
    ClosedError,
    ConfigError,
    NoBrokerError,
    RecordTooLargeError,
    UnknownTopicError,
)
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from tests.support.waiting import FOR_EVER_S, HANG_S, pause_async, wait_until, wait_until_async

# From Python values pyarrow first imports pandas, which takes longer than a loop may stand still.
pyarrow.array([b""])
TICK_S = 0.01
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
def run():
    """Runs a coroutine, and fails when something held the loop up."""
    return runner("asyncio")


@pytest.fixture(params=LOOPS)
def run_on_each(request):
    """The same on each kind of loop."""
    return runner(request.param)


def runner(kind):
    """What runs a coroutine on a loop of this kind and watches over it."""

    def start(main, stall_s=1.0):
        async def watched():
            stalls = []
            ticking = asyncio.create_task(watch(stalls, stall_s))
            try:
                return await asyncio.wait_for(main, HANG_S)
            finally:
                await pause_async(2 * TICK_S, "the watch comes back once more")
                ticking.cancel()
                assert not stalls, f"the loop stood still for {max(stalls):.2f} s"

        with asyncio.Runner(loop_factory=LOOPS[kind]) as made:
            return made.run(watched())

    return start


async def watch(stalls, stall_s):
    """Notes when the loop's thread did not return in time, although it computed, or another thread ran.

    When the machine is busy, all threads of the process stand still.
    """
    others = Ticks()
    others.start()
    try:
        while True:
            started, cpu_s, ticks = time.monotonic(), time.thread_time(), others.count
            await pause_async(TICK_S, "what is watched is how late it comes back")
            late = time.monotonic() - started - TICK_S
            others_went_on = (others.count - ticks) * TICK_S > late / 2
            if late > stall_s and (others_went_on or time.thread_time() - cpu_s > stall_s):
                stalls.append(late)
    finally:
        others.over.set()


class Ticks(threading.Thread):
    """Counts while it is not held up itself."""

    def __init__(self):
        super().__init__(daemon=True)
        self.count, self.over = 0, threading.Event()

    def run(self):
        while not self.over.wait(TICK_S):
            self.count += 1


@pytest.mark.parametrize(
    "hold_up", [lambda: threading.Event().wait(0.5), lambda: burn(0.5)], ids=["waits", "computes"]
)
def test_the_watch_sees_what_holds_the_loop_up(hold_up):
    async def main():
        await pause_async(TICK_S, "the watch has begun")
        hold_up()

    def is_seen():  # unless the other threads stood still, too
        try:
            runner("asyncio")(main(), stall_s=0.1)
        except AssertionError as error:
            return "the loop stood still" in str(error)
        return False

    wait_until(is_seen)


def burn(seconds):
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass


def test_a_record_there_and_back(run_on_each, bootstrap, new_topic, new_group):
    topic = new_topic()

    async def main():
        async with aio.Producer(bootstrap) as producer:
            sent = await producer.send(topic, "text", key=b"k", headers={"h": b"1"}, timestamp=5, partition=0)
            assert (sent.topic, sent.partition, sent.offset, sent.timestamp) == (topic, 0, 0, 5)
            futures = [producer.send(topic, str(i).encode()) for i in range(500)]
            await producer.flush(HANG_S)
            assert [(await future).offset for future in futures] == list(range(1, 501))
        async with aio.Consumer(bootstrap, group_id=new_group, auto_offset_reset="earliest") as consumer:
            await consumer.subscribe([topic])
            values = []
            async for record in consumer:
                values.append(record.value)
                if len(values) == 501:
                    break
            assert values == [b"text", *(str(i).encode() for i in range(500))]

    run_on_each(main())


def test_send_encodes_by_the_format(run, bootstrap, new_topic):
    async def main():
        topic = new_topic()
        orders = Json(pyarrow.schema([pyarrow.field("id", pyarrow.int32(), nullable=False)]))
        async with aio.Producer(bootstrap, value=orders) as producer:
            assert (await producer.send(topic, {"id": 1}, partition=0)).offset == 0
            with pytest.raises(ValueEncodeError, match=f"topic '{topic}', value: id is missing"):
                await producer.send(topic, {})
        async with aio.Consumer(bootstrap) as consumer:
            await consumer.assign([(topic, 0)])
            await consumer.seek_to_beginning()
            assert [record.value for record in await consumer.poll(HANG_S)] == [b'{"id":1}']

    run(main())


def test_iteration_commits_what_was_handed_out(run, bootstrap, new_topic, new_group):
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    with Producer(bootstrap) as producer:
        for i in range(100):
            producer.send(topic, str(i))

    async def main():
        settings = {"group_id": new_group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with aio.Consumer(bootstrap, **settings) as consumer:
            await consumer.subscribe([topic])
            async for record in consumer:
                if record.offset == 41:
                    break
            assert await consumer.position(partition) == 42
            assert consumer.positions() == {partition: 42}
            assert consumer.lag(partition) == 58
            await consumer.commit()
            assert (await consumer.committed([partition]))[partition].offset == 42
            await consumer.pause(partition)
            assert await consumer.poll(timeout=0.2) == []
            await consumer.resume(partition)
            assert (await consumer.poll(HANG_S, max_records=1))[0].offset == 42
        async with aio.Consumer(bootstrap, **settings) as consumer:
            await consumer.subscribe([topic])
            assert (await anext(consumer)).offset == 42

    run(main())


def test_closing_in_the_middle_of_iteration_commits_no_further(run, bootstrap, new_topic, new_group):
    topic = new_topic()
    with Producer(bootstrap) as producer:
        for i in range(100):
            producer.send(topic, str(i))

    async def main():
        for begin in (0, 10):
            async with aio.Consumer(bootstrap, group_id=new_group, auto_offset_reset="earliest") as consumer:
                await consumer.subscribe([topic])
                assert [(await anext(consumer)).offset for _ in range(10)] == list(range(begin, begin + 10))
        with pytest.raises(StopAsyncIteration):
            await anext(consumer)

    run(main())


def test_cancelled_polls_lose_nothing_and_read_nothing_twice(run_on_each, bootstrap, new_topic):
    topic = new_topic()
    count = 4_000
    cancelled = 0

    async def produce():
        async with aio.Producer(bootstrap, linger_ms=0) as producer:
            for i in range(count):
                producer.send(topic, str(i).encode())
                if i % 40 == 0:
                    await pause_async(0.001, "the pace of the load")
                # Every 400 records another poll waits in vain, however quick the machine is.
                while i % 400 == 0 and cancelled <= i // 400:
                    await pause_async(0.001, "the consumer waits meanwhile")

    async def main():
        nonlocal cancelled
        producing = asyncio.create_task(produce())
        values = []
        async with aio.Consumer(bootstrap, auto_offset_reset="earliest", max_poll_records=100) as consumer:
            await consumer.assign([(topic, 0)])
            while len(values) < count:
                try:
                    pause_s = 0.0005 * (cancelled % 7) + 0.001 * (cancelled // 1_000)  # more on slow machines
                    records = await asyncio.wait_for(
                        consumer.poll(timeout=HANG_S), pause_s + 0.001 * (cancelled % 3)
                    )
                except TimeoutError:
                    cancelled += 1
                else:
                    values += [int(record.value) for record in records]
                if len(values) % 500 < 100:
                    assert consumer.positions().get(TopicPartition(topic, 0), 0) >= len(values) - 100
        await producing
        assert cancelled > 5
        assert values == list(range(count))

    run_on_each(main())


def test_other_calls_do_not_wait_for_a_poll(run, bootstrap, new_topic, new_group):
    topic = new_topic()
    partition = TopicPartition(topic, 0)

    async def main():
        async with aio.Consumer(bootstrap, group_id=new_group, auto_offset_reset="earliest") as consumer:
            await consumer.subscribe([topic])
            polls = [asyncio.create_task(consumer.poll(timeout=FOR_EVER_S)) for _ in range(2)]
            await pause_async(0.1, "the polls have begun to wait; it holds at any moment")
            started = time.monotonic()
            assert await consumer.end_offsets([partition]) == {partition: 0}
            await consumer.commit({partition: 0})
            assert (await consumer.committed([partition]))[partition].offset == 0
            assert time.monotonic() - started < HANG_S
            async with aio.Producer(bootstrap) as producer:
                await producer.send(topic, b"v")
            done, waiting = await asyncio.wait(polls, return_when=asyncio.FIRST_COMPLETED)
            assert [record.value for record in done.pop().result()] == [b"v"]
            for poll in waiting:
                poll.cancel()

    run(main())


def test_listeners_run_on_the_loop_and_may_ask(run_on_each, bootstrap, new_topic, new_group):
    topic = new_topic(2)
    heard = []

    async def main():
        loop = asyncio.get_running_loop()
        consumer = aio.Consumer(bootstrap, group_id=new_group, auto_offset_reset="earliest")

        async def assigned(partitions):
            assert asyncio.get_running_loop() is loop
            await consumer.commit({partitions[0]: 1})
            heard.append(("assigned", sorted(partitions)))

        def revoked(partitions):
            heard.append(("revoked", sorted(partitions)))

        async with consumer:
            await consumer.subscribe(topic, on_assigned=assigned, on_revoked=revoked)
            while not heard:
                await consumer.poll(timeout=0.1)

            async def wrong(partitions):
                raise KeyError("mine")

            await consumer.unsubscribe()
            await consumer.subscribe(topic, on_assigned=wrong)
            with pytest.raises(KeyError, match="mine"):
                while True:
                    await consumer.poll(timeout=0.1)
        both = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        assert heard[0] == ("assigned", both)

    run_on_each(main())


def test_admin(run, bootstrap):
    async def main():
        async with aio.Admin(bootstrap) as admin:
            await admin.create_topic("aio-admin", partitions=2)
            try:

                async def is_known():  # Kafka's brokers learn of it a moment later
                    return "aio-admin" in await admin.topics()

                await wait_until_async(is_known)
                assert len((await admin.describe_topic("aio-admin")).partitions) == 2
                assert "aio-admin" in await admin.list_topics()
                ends = await asyncio.gather(
                    *(admin.end_offsets([TopicPartition("aio-admin", i)]) for i in range(2))
                )
                assert [list(end.values()) for end in ends] == [[0], [0]]
            finally:
                await admin.delete_topics(["aio-admin"])

            async def is_gone():
                try:
                    await admin.describe_topic("aio-admin")
                except UnknownTopicError:
                    return True
                return False

            await wait_until_async(is_gone)
        with pytest.raises(ClosedError):
            await admin.topics()

    run(main())


def test_unreachable_brokers_do_not_hold_up_the_loop(run):
    async def main():
        where = "192.0.2.1:9092,name.invalid:1"
        producer = aio.Producer(where, max_block_ms=1200)
        futures = [producer.send("t", b"v") for _ in range(3)]
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        assert all(isinstance(outcome, NoBrokerError) for outcome in outcomes)
        await producer.close(1)
        async with aio.Consumer(where, default_timeout_ms=1500) as consumer:
            with pytest.raises(NoBrokerError):
                await consumer.partitions_for("t")
            await consumer.assign([("t", 0)])
            assert await consumer.poll(timeout=0.1) == []
        async with aio.Admin(where, timeout_ms=1500) as admin:
            with pytest.raises(NoBrokerError):
                await admin.topics()

    run(main())


def test_what_is_wrong_with_a_record_is_raised_by_its_future(run, bootstrap, new_topic):
    topic = new_topic()

    async def main():
        async with aio.Producer(bootstrap, max_request_size=1000) as producer:
            with pytest.raises(RecordTooLargeError):
                await producer.send(topic, bytes(2000))
            await producer.send(topic, b"known now")
            with pytest.raises(RecordTooLargeError):
                await producer.send(topic, bytes(2000))
            with pytest.raises(ConfigError):
                await producer.send(topic, b"v", partition=7)
        with pytest.raises(ClosedError):
            await producer.send(topic, b"v")
        async with aio.Producer(bootstrap, allow_auto_create=False) as producer:
            with pytest.raises(UnknownTopicError):
                await producer.send("there-is-no-such-topic", b"v")

    run(main())


def test_a_full_buffer_makes_senders_wait_in_order(run_on_each, bootstrap, new_topic):
    topic = new_topic()

    async def main():
        settings = {"buffer_memory": 20_000, "batch_size": 2_000, "linger_ms": 50, "max_block_ms": 240_000}
        async with aio.Producer(bootstrap, **settings) as producer:
            for round_ in range(5):
                futures = [producer.send(topic, bytes(500)) for _ in range(36)]
                offsets = [(await future).offset for future in futures]
                assert offsets == list(range(36 * round_, 36 * (round_ + 1)))
            futures = [producer.send(topic, bytes(500)) for _ in range(300)]
            outcomes = await asyncio.gather(*futures, return_exceptions=True)
            full = [each for each in outcomes if isinstance(each, BufferFullError)]
            assert full and len(full) < 280
            assert all(isinstance(each, BufferFullError) or each.offset >= 180 for each in outcomes)

    run_on_each(main())


def test_a_cancelled_send_is_sent(run, bootstrap, new_topic):
    topic = new_topic()

    async def main():
        async with aio.Producer(bootstrap, linger_ms=200) as producer:
            await producer.partitions_for(topic)
            producer.send(topic, b"1").cancel()
            assert (await producer.send(topic, b"2")).offset == 1

    run(main())


def test_a_client_belongs_to_one_loop(bootstrap, new_topic):
    topic = new_topic()
    clients = []

    async def use():
        producer = aio.Producer(bootstrap)
        clients.append(producer)
        await producer.send(topic, b"v")

    async def use_again():
        with pytest.raises(ClientError, match="another event loop"):
            clients[0].send(topic, b"v")
        await use()
        await clients[1].close()

    asyncio.run(use())
    asyncio.run(use_again())


def test_several_loops_at_once(bootstrap, new_topic):
    topic = new_topic()
    offsets = []

    async def use():
        async with aio.Producer(bootstrap) as producer:
            sent = await asyncio.gather(*(producer.send(topic, b"v") for _ in range(200)))
            offsets.extend(each.offset for each in sent)

    threads = [threading.Thread(target=asyncio.run, args=(use(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(offsets) == list(range(600))


def test_forgotten_clients_end_their_threads(bootstrap, new_topic):
    topic = new_topic()

    async def use():
        producer, consumer, admin = aio.Producer(bootstrap), aio.Consumer(bootstrap), aio.Admin(bootstrap)
        await producer.send(topic, b"v")
        await consumer.partitions_for(topic)
        await admin.topics()
        assert of_clients() - before

    def of_clients():
        # The broker in this process may begin an executor's thread at any time.
        begins = ("bowstring-aio", "bowstring-heartbeat", "bowstring-producer")
        return {each for each in threading.enumerate() if each.name.startswith(begins)}

    before = of_clients()
    asyncio.run(use())
    gc.collect()
    wait_until(lambda: of_clients() <= before)


def test_arrow_batches(run, bootstrap, new_topic):
    topic = new_topic()
    with Producer(bootstrap) as producer:
        for i in range(300):
            producer.send(topic, str(i))

    async def main():
        async with aio.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([(topic, 0)])
            batch = await consumer.poll_arrow(HANG_S, max_records=100, columns=["offset", "value"])
            assert batch.schema.names == ["offset", "value"]
            assert batch["offset"].to_pylist() == list(range(100))
            # Records that iteration has taken and not yielded come again as columns.
            assert (await anext(consumer)).offset == 100
            offsets = []
            async for batch in consumer.batches(columns=["offset"], timeout=HANG_S):
                offsets += batch["offset"].to_pylist()
                if len(offsets) == 199:
                    break
            assert offsets == list(range(101, 300))
            assert [batch async for batch in consumer.batches(timeout=0.1)] == []
            empty = await consumer.poll_arrow(timeout=0)
            assert empty.num_rows == 0 and "headers" in empty.schema.names
            task = asyncio.create_task(consumer.poll_arrow(timeout=FOR_EVER_S))
            await pause_async(0.05, "it has begun to wait; cancelling it loses nothing at any moment")
            task.cancel()
            await consumer.seek((topic, 0), 290)
            assert (await consumer.poll_arrow(timeout=HANG_S)).num_rows == 10

    run(main())


def test_a_table_is_sent_and_serializers_are_used(run, bootstrap, new_topic):
    topic = new_topic()

    def serialize(value):
        return repr(value).encode() if value else 1 / 0

    async def main():
        async with aio.Producer(bootstrap, value_serializer=serialize) as producer:
            sent = await producer.send_arrow(
                topic, pyarrow.table({"value": [b"a", b"b"], "key": ["k", None]})
            )
            assert sent[0].offset == 0
            assert (await producer.send(topic, {"x": 1})).offset == 2
            assert await producer.send_columns(topic, 0, [b"c", b"d"])
            with pytest.raises(ConfigError):
                await producer.send_arrow(topic, pyarrow.table({"nothing": [1]}))
            assert (
                await producer.send_arrow(topic, pyarrow.table({"value": pyarrow.array([], "binary")})) == []
            )
            with pytest.raises(ZeroDivisionError):
                await producer.send(topic, 0)
        async with aio.Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([(topic, 0)])
            values = [(await anext(consumer)).value for _ in range(5)]
            assert values == [b"a", b"b", b"{'x': 1}", b"c", b"d"]

    run(main())
