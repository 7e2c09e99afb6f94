"""Problems that clients survive: logged once, then ever more rarely, sent to on_error, logged when over."""

import asyncio
import contextlib
import gc
import itertools
import logging
import socket
import threading
import weakref

import pytest

import bowstring
from bowstring import aio
from bowstring.clients import troubles
from bowstring.clients.admin.admin import Admin
from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.errors import (
    AuthorizationError,
    BrokerError,
    BrokerUnreachableError,
    ClientError,
    ConfigError,
    ConnectionLostError,
    NoBrokerError,
    TopicExistsError,
    UnknownTopicError,
)
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from bowstring.clients.troubles import PAUSE_MAX_S, PAUSE_S, Troubles
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from bowstring.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from bowstring.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)
from bowstring.protocol.messages.offset_commit import OffsetCommitRequest
from bowstring.protocol.messages.produce import ProduceRequest
from tests.support.fake_broker import TOPIC_ID, FakeBroker, produced
from tests.support.fake_group import FakeGroup
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S, error_in_time, wait_until

PATIENCE_S = HANG_S


def await_(condition, turn=lambda: None):
    def is_so():
        if condition():
            return True
        turn()
        return False

    wait_until(is_so)


def lines(caplog, words):
    return [r.getMessage() for r in caplog.records if words in r.getMessage()]


def told_once(caplog, words, given=None):
    """The line about a problem: logged once, and again only after a pause, if the machine stalls."""
    first, *again = lines(caplog, words)
    assert all("The problem has lasted" in line for line in again)
    assert given is None or len(given) == 1 + len(again)
    return first


@pytest.fixture
def port():
    """A port that refuses connections."""
    return steady_port()


# ------------------------------------------------------------ when it is reported


class Clock:
    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(troubles.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def told():
    """Troubles, with what was passed to on_error."""
    given = []
    made = Troubles(logging.getLogger("bowstring.test"))
    made.given, made.kept = given, made.listen(given.append)
    return made


def test_pauses_grow(clock, told, caplog):
    at = []
    for _ in range(10_000):
        told.note("broker x:1", ClientError("refused"))
        told.deliver()
        if len(told.given) > len(at):
            at.append(clock.now - 100.0)
        clock.now += 1.0
    pauses = [later - earlier for earlier, later in itertools.pairwise(at)]
    assert at[0] == 0 and pauses[:3] == [PAUSE_S, 2 * PAUSE_S, 4 * PAUSE_S] and max(pauses) == PAUSE_MAX_S
    assert len(caplog.records) == len(at)
    assert lines(caplog, "refused")[:2] == [
        "refused. Retrying",
        "refused. The problem has lasted 10 s; retrying",
    ]


def test_the_end_is_told_once_and_only_if_the_beginning_was(clock, told, caplog):
    told.note("topic 'x'", ClientError("unknown"), grace_s=1)
    clock.now += 0.5
    told.over("topic 'x'")
    assert not caplog.records and not told.active
    told.note("topic 'x'", ClientError("unknown"), grace_s=1)
    clock.now += 1.5
    told.note("topic 'x'", ClientError("unknown"), grace_s=1)
    clock.now += 2
    told.over("topic 'x'")
    told.over("topic 'x'")
    assert lines(caplog, "topic 'x'") == ["topic 'x': recovered after 3.5 s"]


def test_what_comes_and_goes_is_not_told_each_time(clock, told, caplog):
    for _ in range(600):
        told.note("broker x:1", ClientError("lost"))
        clock.now += 0.1
        told.over("broker x:1")
    assert len(lines(caplog, "lost")) == len(lines(caplog, "recovered")) == 3  # at 0, 10 and 30 s
    clock.now += 1000
    told.note("broker x:1", ClientError("lost"))
    assert len(lines(caplog, "lost")) == 4


def test_what_nobody_needs_any_more(clock, told, caplog):
    told.note("topic 'x'", ClientError("unknown"))
    told.forget("topic 'x'")
    told.over("topic 'x'")
    assert not lines(caplog, "recovered") and not told.active


@pytest.mark.parametrize("client", [Consumer, Producer, Admin])
def test_what_is_no_function(client):
    with pytest.raises(ConfigError, match=r"on_error is .*a function"):
        client("127.0.0.1:1", on_error="print")


# ------------------------------------------------------------ consumers


def test_a_broker_that_is_down_and_comes_back(port, caplog):
    given = []
    with Consumer({"bootstrap.servers": f"127.0.0.1:{port}", "error_cb": given.append}) as consumer:
        consumer.assign([("t", 0)])
        await_(lambda: given, lambda: consumer.poll(0.02))
        for _ in range(10):
            assert consumer.poll(0.02) == []
        line = told_once(caplog, "Connection refused", given)
        assert f"127.0.0.1:{port}" in line and line.endswith("Retrying")
        assert {type(error) for error in given} == {BrokerUnreachableError}
        with bowstring.Broker(port=port):
            await_(lambda: lines(caplog, "recovered"), lambda: consumer.poll(0.02))
        assert lines(caplog, "recovered")[0].startswith(f"broker 127.0.0.1:{port}: recovered after ")


def test_a_broker_that_breaks_off(caplog):
    with FakeBroker() as broker, Consumer(broker.bootstrap) as consumer:
        broker.handlers[FetchRequest] = lambda *_: FetchResponse()
        consumer.assign([("t", 0)])
        consumer.seek(("t", 0), 0)
        await_(lambda: broker.seen(FetchRequest), lambda: consumer.poll(0.02))
        for each in broker.sockets:
            each.shutdown(socket.SHUT_RDWR)
        await_(lambda: lines(caplog, "recovered"), lambda: consumer.poll(0.02))
        told_once(caplog, "lost the connection")


def test_an_idle_connection_that_is_closed_is_nobodys_trouble(caplog):
    with FakeBroker() as broker, Admin(broker.bootstrap) as admin:
        admin.topics()
        for each in broker.sockets:
            each.shutdown(socket.SHUT_RDWR)
        admin.topics()
    assert not caplog.records


def test_a_topic_that_is_not_there_yet(bootstrap, admin, new_topic, new_group, caplog):
    name = new_topic() + "-later"
    given = []
    options = {"allow_auto_create": False, "group_id": new_group, "on_error": given.append}
    with Consumer(bootstrap, **options) as consumer:
        consumer.subscribe([name])
        await_(lambda: given, lambda: consumer.poll(0.02))
        assert isinstance(given[0], UnknownTopicError) and name in lines(caplog, "UNKNOWN_TOPIC")[0]
        admin.create_topic(name, 1)
        await_(lambda: lines(caplog, "recovered"), lambda: consumer.poll(0.02))
    admin.delete_topics([name])


def test_topics_that_are_read_no_longer(bootstrap, caplog):
    with Consumer(bootstrap, allow_auto_create=False) as consumer:
        consumer.assign([("never-there", 0)])
        await_(lambda: consumer.troubles.active, lambda: consumer.poll(0.02))
        consumer.assign([])
        error_in_time(lambda s: consumer.partitions_for("nor-this", timeout=s), UnknownTopicError)
        assert not consumer.troubles.active and not consumer._cluster.wanted


def test_a_partition_that_is_not_there(bootstrap, new_topic, caplog):
    topic = new_topic()
    with Consumer(bootstrap) as consumer:
        consumer.assign([(topic, 7)])
        await_(lambda: lines(caplog, "partitions 0 to 0"), lambda: consumer.poll(0.02))
        assert f"{topic}-7" in lines(caplog, "partitions 0 to 0")[0]


def test_a_pattern_that_matches_nothing(bootstrap, new_group, monkeypatch, caplog):
    monkeypatch.setattr("bowstring.clients.consumer.coordinator.PATTERN_GRACE_S", 0)
    with Consumer(bootstrap, group_id=new_group) as consumer:
        consumer.subscribe(pattern="no-such-.*")
        await_(lambda: lines(caplog, "no topic matches"), lambda: consumer.poll(0.02))
        assert "no-such-.*" in lines(caplog, "no topic matches")[0]


@pytest.mark.parametrize("how", ["assign", "subscribe"])
def test_what_waiting_does_not_mend_is_raised(how, caplog):
    """As Java's consumer does, and confluent-kafka in a message."""
    with FakeGroup() as broker, Consumer(broker.bootstrap, group_id="g") as consumer:

        def forbidden(version, request):
            code = Errors.TOPIC_AUTHORIZATION_FAILED.code
            topics = [MetadataResponseTopic(name=t.name, error_code=code) for t in request.topics or []]
            where = MetadataResponseBroker(node_id=1, host=broker.host, port=broker.port)
            return MetadataResponse(brokers=[where], controller_id=1, cluster_id="fake", topics=topics)

        broker.handlers[MetadataRequest] = forbidden
        if how == "assign":
            consumer.assign([("secret", 0)])
        else:
            consumer.subscribe(["secret"])
        with pytest.raises(AuthorizationError, match="'secret'"):
            await_(lambda: False, lambda: consumer.poll(0.02))
        assert lines(caplog, "TOPIC_AUTHORIZATION_FAILED")


@pytest.mark.parametrize("code", [Errors.KAFKA_STORAGE_ERROR, Errors.THROTTLING_QUOTA_EXCEEDED])
def test_fetches_that_are_refused_for_a_while(code, caplog):
    refusing = True

    def fetch(version, request):
        part = PartitionData(partition_index=0, error_code=code.code if refusing else 0)
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[part])])

    with FakeBroker() as broker, Consumer(broker.bootstrap) as consumer:
        broker.handlers[FetchRequest] = fetch
        consumer.assign([("t", 0)])
        consumer.seek(("t", 0), 5)
        await_(lambda: lines(caplog, code.name), lambda: consumer.poll(0.02))
        assert "t-0 at offset 5" in lines(caplog, code.name)[0]
        refusing = False
        await_(lambda: lines(caplog, "partition t-0: recovered"), lambda: consumer.poll(0.02))


def test_a_coordinator_that_is_not_available(caplog):
    with FakeGroup() as broker, Consumer(broker.bootstrap, group_id="g") as consumer:
        find = broker.handlers[FindCoordinatorRequest]
        code = Errors.COORDINATOR_NOT_AVAILABLE.code
        broker.handlers[FindCoordinatorRequest] = lambda *_: FindCoordinatorResponse(
            coordinators=[Coordinator(key="g", error_code=code)]
        )
        consumer.subscribe(["t"])
        await_(lambda: lines(caplog, "COORDINATOR_NOT_AVAILABLE"), lambda: consumer.poll(0.02))
        assert "group 'g'" in lines(caplog, "COORDINATOR_NOT_AVAILABLE")[0]
        broker.handlers[FindCoordinatorRequest] = find
        await_(lambda: lines(caplog, "group 'g': recovered"), lambda: consumer.poll(0.02))


def test_automatic_commits_that_are_refused(caplog):
    options = {"group_id": "g", "auto_commit_interval_ms": 20}
    with FakeGroup() as broker, Consumer(broker.bootstrap, **options) as consumer:
        broker.answers[OffsetCommitRequest] = [Errors.COORDINATOR_LOAD_IN_PROGRESS.code]
        consumer.subscribe(["t"])
        await_(lambda: lines(caplog, "committing"), lambda: consumer.poll(0.02))
        broker.answers[OffsetCommitRequest] = [0]
        await_(
            lambda: lines(caplog, "automatic commits of group 'g': recovered"), lambda: consumer.poll(0.02)
        )


def test_what_on_error_raises_poll_raises(port):
    def fail(error):
        raise RuntimeError("enough") from error

    with Consumer(f"127.0.0.1:{port}", on_error=fail) as consumer:
        consumer.assign([("t", 0)])
        with pytest.raises(RuntimeError, match="enough"):
            await_(lambda: False, lambda: consumer.poll(0.02))
        assert consumer.poll(0.02) == []


def test_on_error_may_use_the_consumer(port):
    given = []
    with Consumer(f"127.0.0.1:{port}", on_error=lambda e: given.append(consumer.assignment())) as consumer:
        consumer.assign([("t", 0)])
        await_(lambda: given, lambda: consumer.poll(0.02))
    assert given == [{TopicPartition("t", 0)}]


def test_polls_that_wait_for_nothing_make_progress(bootstrap, new_topic, consumer_for):
    topic = new_topic()
    with Producer(bootstrap) as producer:
        producer.send(topic, b"x")
    consumer = consumer_for(topic)
    found = []
    await_(lambda: found, lambda: found.extend(consumer.poll(0)))
    assert found[0].value == b"x"


# ------------------------------------------------------------ producers and admins


def send_soon(producer):
    """The pause before the next connect, or the topic's metadata, may take longer than max_block_ms."""

    def sent():
        try:
            return producer.send("t", b"x")
        except (NoBrokerError, UnknownTopicError):
            return None

    wait_until(sent).result(HANG_S)


def test_a_producer_without_a_broker(port, caplog):
    given = []
    heard = threading.Event()

    def hear(error):
        given.append(error)
        heard.set()

    with Producer(f"127.0.0.1:{port}", on_error=hear, max_block_ms=500) as producer:
        with pytest.raises(NoBrokerError):
            producer.send("t", b"x")
        assert heard.wait(PATIENCE_S) and isinstance(given[0], BrokerUnreachableError)
        told_once(caplog, "Connection refused. Check")
        with bowstring.Broker(port=port), Admin(f"127.0.0.1:{port}") as admin:
            with contextlib.suppress(TopicExistsError):  # the producer may have been quicker
                admin.create_topic("t")
            send_soon(producer)
        assert lines(caplog, f"127.0.0.1:{port}: recovered")


def test_an_on_error_that_fails_leaves_the_producer_alone(port, caplog):
    with Producer(f"127.0.0.1:{port}", on_error=lambda _: 1 / 0, max_block_ms=500) as producer:
        with pytest.raises(NoBrokerError):
            producer.send("t", b"x")
        await_(lambda: "ZeroDivisionError" in caplog.text)
        with bowstring.Broker(port=port), Admin(f"127.0.0.1:{port}") as admin:
            with contextlib.suppress(TopicExistsError):  # the producer may have been quicker
                admin.create_topic("t")
            send_soon(producer)


def test_records_that_are_refused_for_a_while(caplog):
    refusing = [Errors.NOT_ENOUGH_REPLICAS.code]
    with FakeBroker() as broker, Producer(broker.bootstrap, retry_backoff_ms=20) as producer:
        broker.handlers[ProduceRequest] = lambda _, request: produced(request, error=refusing[0])
        future = producer.send("t", b"x")
        await_(lambda: lines(caplog, "NOT_ENOUGH_REPLICAS"))
        assert "t-0" in lines(caplog, "NOT_ENOUGH_REPLICAS")[0]
        refusing[0] = 0
        future.result(PATIENCE_S)
        await_(lambda: lines(caplog, "partition t-0: recovered"))


def test_a_producer_id_that_is_not_given(caplog):
    code = [Errors.COORDINATOR_NOT_AVAILABLE.code]
    with FakeBroker() as broker, Producer(broker.bootstrap, retry_backoff_ms=20) as producer:
        broker.handlers[ProduceRequest] = lambda _, request: produced(request)
        broker.handlers[InitProducerIdRequest] = lambda *_: InitProducerIdResponse(
            error_code=code[0], producer_id=7
        )
        future = producer.send("t", b"x")
        await_(lambda: lines(caplog, "asking for a producer id"))
        code[0] = 0
        future.result(PATIENCE_S)
        await_(lambda: lines(caplog, "producer id: recovered"))


def test_a_topic_that_a_producer_gave_up(bootstrap, monkeypatch):
    monkeypatch.setattr("bowstring.clients.producer.producer.MISSING_TOPIC_GRACE_S", 0.2)
    with Producer(bootstrap, allow_auto_create=False) as producer:
        with pytest.raises(UnknownTopicError):
            producer.send("not-there", b"x")
        await_(lambda: not producer._sender.cluster.wanted and not producer.troubles.active)


def test_an_admin_without_a_broker(port, caplog):
    given = []
    with Admin(f"127.0.0.1:{port}", timeout_ms=300, on_error=given.append) as admin:
        with pytest.raises(NoBrokerError):
            admin.topics()
        assert isinstance(given[0], BrokerUnreachableError)
        told_once(caplog, "Connection refused. Check", given)


# ------------------------------------------------------------ asyncio


def test_asyncio_calls_it_on_the_loop(port):
    async def main():
        loop = asyncio.get_running_loop()
        functions, coroutines = asyncio.Event(), asyncio.Event()

        def plain(error):
            assert asyncio.get_running_loop() is loop and isinstance(error, ClientError)
            functions.set()

        async def coroutine(error):
            await asyncio.sleep(0)
            coroutines.set()

        where = f"127.0.0.1:{port}"
        async with aio.Consumer(where, on_error=plain) as consumer:
            await consumer.assign([("t", 0)])
            await consumer.poll(0.1)
            await asyncio.wait_for(functions.wait(), PATIENCE_S)
        async with aio.Admin(where, on_error=coroutine, timeout_ms=300) as admin:
            with pytest.raises(NoBrokerError):
                await admin.topics()
            await asyncio.wait_for(coroutines.wait(), PATIENCE_S)
        functions.clear()
        async with aio.Producer(where, on_error=plain, max_block_ms=300) as producer:
            with pytest.raises(NoBrokerError):
                await producer.send("t", b"x")
            await asyncio.wait_for(functions.wait(), PATIENCE_S)

    asyncio.run(main())


def test_what_is_given_names_itself():
    """A callback can distinguish errors, as with confluent-kafka's KafkaError."""
    assert BrokerError(Errors.TOPIC_AUTHORIZATION_FAILED.code).name == "TOPIC_AUTHORIZATION_FAILED"
    assert ConnectionLostError.retriable and not AuthorizationError(29).retriable


class KnowsItsClient:
    """An application that passes its own method to the client that it holds."""

    def __init__(self, client):
        self.client = client("127.0.0.1:1", on_error=self.hear)

    def hear(self, error):
        pass


@pytest.mark.parametrize("client", [Consumer, Producer, Admin])
def test_a_function_that_knows_its_client_does_not_keep_it(client):
    application = KnowsItsClient(client)
    gone = weakref.ref(application.client)
    del application
    gc.collect()
    assert gone() is None
