"""ShareFetch and ShareAcknowledge of a broker that runs: sessions, waits, locks, restarts (KIP-932)."""

import asyncio
import threading

import pytest

from bowstring.engine.api.share_acknowledgements import RENEW_VERSION
from bowstring.engine.broker.metrics import registry
from bowstring.engine.share.persister.interface import SharePartitionKey
from bowstring.engine.share.sessions import SessionKey, SessionPartition
from bowstring.protocol import decode_response, encode_request
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import delete_topics as dt
from bowstring.protocol.messages import incremental_alter_configs as iac
from bowstring.protocol.messages import share_acknowledge as sa
from bowstring.protocol.messages import share_fetch as sf
from tests.support.embedded import loop_of
from tests.support.log_batches import batch
from tests.support.served_broker import Served
from tests.support.share_member import ACCEPT, REJECT, RELEASE, RENEW, ShareMember
from tests.support.waiting import FOR_EVER_MS, HANG_S, wait_until

GROUP = "g"
GROUP_RESOURCE = 32
CONFIG = {
    "share.coordinator.state.topic.num.partitions": "1",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.max.share.sessions": "4",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    running = Served(tmp_path_factory.mktemp("broker"), **CONFIG)
    yield running
    running.stop()


class Topic:
    """A topic, and the share partitions of a group of its own."""

    def __init__(self, served, name, partitions=1, start_offset=0):
        self.served = served
        self.name = name
        self.group = f"{GROUP}-{name}"
        self.id = served.create_topic(name, partitions)
        for index in range(partitions):
            key = SharePartitionKey(self.group, self.id, index)
            work = served.engine.coordination.persister.initialize(key, 0, start_offset)
            loop = loop_of(served.broker)
            assert asyncio.run_coroutine_threadsafe(work, loop).result(HANG_S) is Errors.NONE
        # A member that keeps the share partitions loaded, and holds nothing.
        self.keeper = ShareMember(served.connect(), self.group, self.id)
        if start_offset >= 0:
            self.keeper.fetch(*range(partitions))
            share = served.engine.coordination.share_partitions
            wait_until(lambda: all(share.find(self.group, self.id, each) for each in range(partitions)))

    def produce(self, count, partition=0, **more):
        answer = self.served.produce(self.name, batch([b"v"] * count, **more), partition)
        assert answer.error_code == 0

    def member(self, **more):
        return ShareMember(self.served.connect(), self.group, self.id, **more)

    def configure(self, **configs):
        resource = iac.AlterConfigsResource(
            resource_type=GROUP_RESOURCE,
            resource_name=self.group,
            configs=[
                iac.AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
                for name, value in configs.items()
            ],
        )
        (answer,) = self.served.ask(iac.IncrementalAlterConfigsRequest(resources=[resource])).responses
        assert answer.error_code == 0, answer.error_message


@pytest.fixture
def topic(served, request):
    members = []

    def made(*arguments, **more):
        found = Topic(served, f"t{abs(hash(request.node.name))}", *arguments, **more)
        members.append(found.keeper)
        member = found.member

        def joining(**options):
            members.append(member(**options))
            return members[-1]

        found.member = joining
        return found

    yield made
    for each in members:
        each.client.close()
    wait_until(lambda: not len(served.engine.coordination.share_partitions.sessions))


def test_a_fetch_ends_when_its_time_is_over(topic):
    """Timers of uvloop ring up to the smallest part of a second before its clock has the time: often, so several."""
    records = topic()
    for _ in range(40):
        assert not records.keeper.fetch(0, max_wait_ms=7)


def test_a_session_serves_a_topic_once_the_broker_knows_it(served, topic):
    records = topic()
    records.produce(1)
    ann = records.member()
    assert not ann.fetch()
    session = served.engine.coordination.share_partitions.sessions.get(SessionKey(records.group, ann.id))
    session.add(SessionPartition(records.id, 0, None))
    assert ann.acquire(0) == [(0, 0, 1)]


def test_records_go_to_one_member_and_are_done_when_acknowledged(topic):
    records = topic()
    records.produce(3)
    records.produce(2)
    ann, ben = records.member(), records.member()
    found = ann.fetch(0)[0]
    assert found.records[:8] == bytes(8)
    assert [(each.first_offset, each.last_offset) for each in found.acquired_records] == [(0, 4)]
    assert ben.acquire(0) == []
    assert ben.acknowledge(0, 0, ACCEPT) == Errors.INVALID_RECORD_STATE.code
    assert ann.acknowledge(0, 2, ACCEPT, RELEASE, REJECT) == 0
    assert ben.acquire(0) == [(1, 1, 2)]
    found = ben.fetch_answer(acknowledged={0: [(1, 1, [ACCEPT])]})
    assert found.responses[0].partitions[0].acknowledge_error_code == 0
    assert found.acquisition_lock_timeout_ms == 30000


def test_acknowledged_records_stay_acknowledged(served, topic):
    records = topic()
    records.produce(4)
    ann = records.member()
    assert ann.acquire(0) == [(0, 3, 1)]
    assert ann.acknowledge(0, 1, ACCEPT) == 0
    assert ann.acknowledge(3, 3, RELEASE) == 0
    served.restart()
    ben = records.member()
    found = wait_until(lambda: ben.acquire(0, max_wait_ms=100))
    # Whether the end of the connection was stored as the delivery of record 2 is left open.
    assert (found[0][0], found[-1][1], found[-1][2]) == (2, 3, 2)


def test_sessions(topic):
    records = topic(2)
    records.produce(1)
    ann = records.member()
    assert ann.acknowledge(0, 0, ACCEPT) == Errors.INVALID_SHARE_SESSION_EPOCH.code
    assert ann.acknowledge(0, 0, ACCEPT, epoch=1) == Errors.SHARE_SESSION_NOT_FOUND.code
    assert ann.fetch_answer(share_session_epoch=1).error_code == Errors.SHARE_SESSION_NOT_FOUND.code
    first = ann.fetch_answer(0, acknowledged={0: [(0, 0, [ACCEPT])]})
    assert first.error_code == Errors.INVALID_REQUEST.code
    assert set(ann.fetch(0, 1)) == {0, 1}
    assert ann.fetch_answer(share_session_epoch=7).error_code == Errors.INVALID_SHARE_SESSION_EPOCH.code
    assert ann.fetch() == {}
    records.produce(2, partition=1)
    assert ann.acquire(1) == [(0, 1, 1)]
    assert ann.close() == 0
    assert ann.close() == Errors.SHARE_SESSION_NOT_FOUND.code
    ben = records.member()
    wait_until(lambda: ben.acquire(1) == [(0, 1, 2)])


def test_there_are_only_so_many_sessions(topic):
    records = topic()
    members = [records.member() for _ in range(4)]
    assert [each.fetch_answer(0).error_code for each in members] == [
        0,
        0,
        0,
        Errors.SHARE_SESSION_LIMIT_REACHED.code,
    ]
    members[0].close()
    assert members[3].fetch_answer(0).error_code == 0


@pytest.mark.parametrize("member_id", ["", "m" * 37])
def test_malformed_members(topic, member_id):
    ann = topic().member()
    ann.id = member_id
    assert ann.fetch_answer(0).error_code == Errors.INVALID_REQUEST.code
    assert ann.acknowledge(0, 0, ACCEPT) == Errors.INVALID_REQUEST.code


def test_partitions_that_are_not_there(topic):
    records = topic()
    ann = records.member()
    assert ann.fetch(0, 5)[5].error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION.code
    ben = ShareMember(records.served.connect(), records.group, bytes(15) + b"\5")
    assert ben.fetch(0)[0].error_code == Errors.UNKNOWN_TOPIC_ID.code
    assert ben.acknowledge(0, 0, ACCEPT) == Errors.UNKNOWN_TOPIC_ID.code
    ben.client.close()
    other = ShareMember(records.served.connect(), "never-initialized", records.id)
    assert other.fetch(0, max_wait_ms=FOR_EVER_MS)[0].error_code == Errors.UNKNOWN_SERVER_ERROR.code
    other.client.close()


def in_background(work):
    """Runs work on a thread; returns a function that waits for its result."""
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()

    def result():
        thread.join(HANG_S)
        assert found, "it hangs"
        return found[0]

    return result


def test_a_fetch_waits_for_records(topic):
    records = topic()
    ann = records.member()
    assert ann.acquire(0) == []
    waiting = in_background(lambda: ann.acquire(0, max_wait_ms=FOR_EVER_MS))
    records.produce(1)
    assert waiting() == [(0, 0, 1)]
    waiting = in_background(lambda: ann.acquire(0, max_wait_ms=FOR_EVER_MS, min_bytes=200))
    for _ in range(3):
        records.produce(1)
    assert waiting()[0][:2] != (1, 1)


def test_a_fetch_waits_for_what_another_member_gives_back(topic):
    records = topic()
    records.produce(2)
    ann, ben = records.member(), records.member()
    assert ann.acquire(0) == [(0, 1, 1)]
    waiting = in_background(lambda: ben.acquire(0, max_wait_ms=FOR_EVER_MS))
    assert ann.acknowledge(0, 1, ACCEPT, RELEASE) == 0
    assert waiting() == [(1, 1, 2)]
    waiting = in_background(lambda: ann.acquire(0, max_wait_ms=FOR_EVER_MS))
    ben.client.close()
    assert waiting() == [(1, 1, 3)]


def sent_without_waiting(member):
    """Sends a fetch that waits for records, whose answer is never read."""
    partition = sf.FetchPartition(partition_index=0)
    request = sf.ShareFetchRequest(
        group_id=member.group,
        member_id=member.id,
        max_wait_ms=FOR_EVER_MS,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=500,
        batch_size=500,
        topics=[sf.FetchTopic(topic_id=member.topic_id, partitions=[partition])],
    )
    member.client.send(encode_request(request, RENEW_VERSION, 1, "test"))


def test_a_fetch_ends_with_its_connection(served, topic):
    """Records without a reader are not acquired, so another member need not wait for a lock."""
    records = topic()
    share = served.engine.coordination.share_partitions.find(records.group, records.id, 0)
    ann = records.member()
    sent_without_waiting(ann)
    wait_until(lambda: share.waiting)
    ann.client.close()
    wait_until(lambda: not share.waiting)
    records.produce(2)
    assert records.keeper.acquire(0, max_wait_ms=FOR_EVER_MS) == [(0, 1, 1)]


def test_a_refused_session_waits_no_longer_than_its_connection(served, topic):
    records = topic()
    for _ in range(3):
        records.member().fetch(0)
    loop = loop_of(served.broker)
    before = len(asyncio.all_tasks(loop))
    refused = [records.member() for _ in range(10)]
    for each in refused:
        sent_without_waiting(each)
    wait_until(lambda: len(asyncio.all_tasks(loop)) >= before + len(refused))
    for each in refused:
        each.client.close()
    wait_until(lambda: len(asyncio.all_tasks(loop)) < before + len(refused) // 2)


def test_locks_end_and_are_renewed(topic):
    records = topic()
    records.configure(share_record_lock_duration_ms="1000")
    records.produce(2)
    ann, ben = records.member(), records.member()
    found = ann.fetch_answer(0)
    assert found.acquisition_lock_timeout_ms == 1000
    waiting = in_background(lambda: ben.acquire(0, max_wait_ms=FOR_EVER_MS))
    assert waiting() == [(0, 1, 2)]
    assert ann.acknowledge(0, 0, ACCEPT) == Errors.INVALID_RECORD_STATE.code
    assert ben.acknowledge(0, 0, RENEW) == Errors.INVALID_REQUEST.code
    assert ben.acknowledge(0, 0, RENEW, renew=True) in (0, Errors.INVALID_RECORD_STATE.code)
    renewed = ben.fetch_answer(is_renew_ack=True)
    assert renewed.error_code == Errors.INVALID_REQUEST.code
    records.configure(share_renew_acknowledge_enable="false", share_record_lock_duration_ms="60000")
    wait_until(lambda: ben.acquire(0, max_wait_ms=100))
    assert ben.acknowledge(0, 1, RENEW, renew=True) == Errors.INVALID_RECORD_STATE.code


@pytest.mark.parametrize(("reset", "first"), [("earliest", 0), ("latest", 2), ("by_duration:PT1H", 2)])
def test_where_a_group_starts(topic, reset, first):
    records = topic(start_offset=-1)
    records.configure(share_auto_offset_reset=reset)
    records.produce(2)
    ann = records.member()
    found = ann.acquire(0, max_wait_ms=FOR_EVER_MS, min_bytes=0)
    records.produce(1)
    found += ann.acquire(0, max_wait_ms=FOR_EVER_MS)
    assert (found[0][0], found[-1][1]) == (first, 2)


def test_delivery_limit_and_read_committed(topic):
    records = topic()
    records.configure(share_delivery_count_limit="2", share_isolation_level="read_committed")
    records.produce(1)
    ann = records.member()
    for deliveries in (1, 2):
        assert ann.acquire(0) == [(0, 0, deliveries)]
        assert ann.acknowledge(0, 0, RELEASE) == 0
    assert ann.acquire(0) == []
    records.produce(1)
    assert ann.acquire(0) == [(1, 1, 1)]


def test_a_record_limit_cuts_batches(topic):
    records = topic()
    records.produce(5)
    ann = records.member()
    assert ann.acquire(0, max_records=2, share_acquire_mode=1) == [(0, 1, 1)]
    assert ann.acquire(0, max_records=2) == [(2, 4, 1)]


def test_many_records_of_any_size(topic):
    records = topic()
    for count in (1, 300, 2, 900, 700, 1):
        records.produce(count)
    ann = records.member()
    got = []
    while found := ann.acquire(0, max_records=400, max_bytes=20000):
        got += [offset for first, last, _ in found for offset in range(first, last + 1)]
        assert ann.acknowledge(found[0][0], found[-1][1], ACCEPT) == 0
    assert got == list(range(1904))


def test_a_deleted_topic(served, topic):
    records = topic()
    records.produce(1)
    ann = records.member()
    assert ann.acquire(0) == [(0, 0, 1)]
    waiting = in_background(lambda: ann.fetch(0, max_wait_ms=FOR_EVER_MS))
    served.ask(
        dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name=records.name)], timeout_ms=FOR_EVER_MS)
    )
    assert waiting()[0].error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION.code
    assert ann.acknowledge(0, 0, ACCEPT) == Errors.UNKNOWN_TOPIC_ID.code


def test_what_is_pipelined_behind_a_fetch_waits_for_its_answer(topic):
    records = topic()
    records.produce(1)
    ann = records.member()
    assert ann.acquire(0) == [(0, 0, 1)]
    common = {"group_id": ann.group, "member_id": ann.id}
    waits = {"max_wait_ms": FOR_EVER_MS, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 9}
    batches = [sa.AcknowledgementBatch(first_offset=0, last_offset=1, acknowledge_types=[ACCEPT])]
    part = sa.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
    for request in (
        sf.ShareFetchRequest(share_session_epoch=1, **common, **waits),
        sa.ShareAcknowledgeRequest(
            share_session_epoch=2,
            topics=[sa.AcknowledgeTopic(topic_id=records.id, partitions=[part])],
            **common,
        ),
    ):
        ann.client.send(encode_request(request, RENEW_VERSION, 1, "test"))
    records.produce(1)
    fetched = decode_response(78, RENEW_VERSION, ann.client.receive())[1]
    assert fetched.error_code == 0
    assert fetched.responses[0].partitions[0].acquired_records[0].first_offset == 1
    acknowledged = decode_response(79, RENEW_VERSION, ann.client.receive())[1]
    assert acknowledged.error_code == 0
    assert acknowledged.responses[0].partitions[0].error_code == 0


def test_a_fetch_gives_back_what_its_answer_cannot_name(topic):
    """Another connection of the member has used the session meanwhile."""
    records = topic()
    ann = records.member()
    ann.fetch(0)
    share = records.served.engine.coordination.share_partitions.find(records.group, records.id, 0)
    waiting = in_background(lambda: ann.fetch_answer(max_wait_ms=FOR_EVER_MS))
    wait_until(lambda: share.waiting)
    other = ShareMember(records.served.connect(), ann.group, ann.topic_id, ann.id)
    other.epoch = 2
    assert other.fetch() == {}
    records.produce(2)
    assert waiting().error_code == Errors.INVALID_SHARE_SESSION_EPOCH.code
    assert records.keeper.acquire(0, max_wait_ms=FOR_EVER_MS) == [(0, 1, 2)]
    other.client.close()


def test_a_partition_named_twice_has_the_first_error(topic):
    records = topic()
    records.produce(2)
    ann = records.member()
    assert ann.acquire(0) == [(0, 1, 1)]

    def part(first, last):
        batches = (
            []
            if first is None
            else [sa.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[ACCEPT])]
        )
        return sa.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)

    for ranges in ([(5, 5), (0, 0), (None, None)], [(1, 1), (0, 9)], [(None, None), (3, 2)]):
        topics = [sa.AcknowledgeTopic(topic_id=records.id, partitions=[part(*each) for each in ranges])]
        answer = ann.client.ask(
            sa.ShareAcknowledgeRequest(
                group_id=ann.group, member_id=ann.id, share_session_epoch=ann.epoch, topics=topics
            )
        )
        ann.epoch += 1
        (only,) = answer.responses[0].partitions
        assert only.error_code in (Errors.INVALID_REQUEST.code, Errors.INVALID_RECORD_STATE.code)


def test_locks_that_are_shorter_now_end_before_older_ones(topic):
    records = topic()
    records.configure(share_record_lock_duration_ms="60000")
    records.produce(1)
    ann = records.member()
    assert ann.acquire(0) == [(0, 0, 1)]
    records.configure(share_record_lock_duration_ms="1000")
    records.produce(1)
    assert ann.acquire(0) == [(1, 1, 1)]
    assert records.keeper.acquire(0, max_wait_ms=FOR_EVER_MS) == [(1, 1, 2)]


def on_loop(served, work):
    async def run():
        return work()

    return asyncio.run_coroutine_threadsafe(run(), loop_of(served.broker)).result(HANG_S)


def test_state_is_read_after_what_is_still_being_written(served, topic, monkeypatch):
    """The leader drops the state while an acknowledgement is on its way, which then succeeds."""
    records = topic()
    records.produce(2)
    ann = records.member()
    assert ann.acquire(0) == [(0, 1, 1)]
    share = served.engine.coordination.share_partitions
    begun, may_write = threading.Event(), asyncio.Event()
    write_state = served.engine.coordination.persister.write_state

    async def slowly(*arguments):
        begun.set()
        await may_write.wait()
        return await write_state(*arguments)

    monkeypatch.setattr(served.engine.coordination.persister, "write_state", slowly)
    waiting = in_background(lambda: ann.acknowledge(0, 0, ACCEPT))
    assert begun.wait(HANG_S)
    on_loop(served, lambda: share.drop(share.find(records.group, records.id, 0)))
    fetching = in_background(lambda: records.keeper.acquire(0, max_wait_ms=FOR_EVER_MS))
    wanted = SessionPartition(records.id, 0, records.name)
    loaded = on_loop(served, lambda: share.get(records.group, wanted)[0])
    wait_until(lambda: loaded.waiting or loaded.is_active)
    on_loop(served, may_write.set)
    assert waiting() == 0
    assert fetching() == [(1, 1, 1)]


@pytest.mark.parametrize("reset", ["by_duration:P999999999999D", "by_duration:PT0S"])
def test_a_group_starts_so_long_ago(topic, reset):
    records = topic(start_offset=-1)
    records.configure(share_auto_offset_reset=reset)
    records.produce(2)
    ann = records.member()
    found = ann.acquire(0, max_wait_ms=FOR_EVER_MS, min_bytes=0)
    records.produce(1)
    found += ann.acquire(0, max_wait_ms=FOR_EVER_MS)
    assert (found[0][0], found[-1][1]) == (2 if reset.endswith("PT0S") else 0, 2)


def test_a_member_that_comes_back_keeps_what_it_has(served, topic):
    """What ends its last session may be late."""
    records = topic()
    records.produce(2)
    ann = records.member()
    assert ann.acquire(0) == [(0, 1, 1)]
    share, key = served.engine.coordination.share_partitions, SessionKey(records.group, ann.id)

    async def come_back():
        ended = share.sessions.remove(key)
        assert ended is not None
        late = asyncio.ensure_future(share.release(ended))
        share.sessions.open(key, ended.connection_id, list(ended))
        await late

    asyncio.run_coroutine_threadsafe(come_back(), loop_of(served.broker)).result(HANG_S)
    ann.epoch = 1
    assert ann.acknowledge(0, 1, ACCEPT) == 0


def test_metrics_tell_what_is_in_flight_and_behind(topic):
    records = topic()
    records.produce(4)
    ann = records.member()
    assert ann.acquire(0) == [(0, 3, 1)]
    labels = {"group": records.group, "topic": records.name, "partition": "0"}
    engine = records.served.engine

    def measured(name):
        return on_loop(records.served, lambda: registry(engine).get_sample_value(name, labels))

    assert measured("bowstring_share_in_flight_records") == 4
    assert measured("bowstring_group_lag_records") == 4
    assert ann.acknowledge(0, 1, ACCEPT) == 0
    assert measured("bowstring_share_in_flight_records") == 2
    assert measured("bowstring_group_lag_records") == 2
    assert ann.acknowledge(3, 3, ACCEPT) == 0
    assert measured("bowstring_group_lag_records") == 1
