"""Positions and commits around records that do not decode: in the middle of batches, at their ends, transactions."""

import threading

import pyarrow as pa
import pytest

import bowstring
from bowstring import TopicPartition
from tests.support.waiting import HANG_S

FORM = bowstring.Json(pa.schema({"id": pa.int64()}))


@pytest.fixture(scope="module")
def servers():
    with bowstring.Broker() as broker:
        yield broker.bootstrap_servers


def fill(servers, topic, values, **settings):
    """Writes values as one batch."""
    with bowstring.Producer(servers, linger_ms=1000, **settings) as producer:
        for value in values:
            producer.send(topic, value, key=b"k%d" % len(value), partition=0)
        producer.flush()


def reader(servers, topic, **settings):
    settings = {"auto_offset_reset": "earliest", "value": FORM, **settings}
    consumer = bowstring.Consumer(servers, **settings)
    consumer.assign([TopicPartition(topic, 0)])
    return consumer


def test_commits_stop_at_the_record_that_raises(servers):
    fill(servers, "commit", [b'{"id":0}', b'{"id":1}', b"x", b'{"id":3}'])
    place = TopicPartition("commit", 0)
    with reader(servers, "commit", group_id="commit") as consumer:
        assert [record.offset for record in consumer.poll(HANG_S)] == [0, 1]
        with pytest.raises(bowstring.UndecodableRecordError):
            consumer.poll(HANG_S)
        assert consumer.positions() == {place: 2}
        consumer.commit()
        assert consumer.committed([place])[place].offset == 2
        consumer.seek(place, 3)
        assert [record.offset for record in consumer.poll(HANG_S)] == [3]
    with reader(servers, "commit", group_id="commit") as consumer:
        assert consumer.position(place) == 4, "closing commits"


@pytest.mark.parametrize("iterates", [False, True])
def test_an_automatic_commit_has_what_was_skipped_at_the_end_of_a_batch(servers, iterates):
    topic = f"auto-{iterates}"
    fill(servers, topic, [b'{"id":0}', b"x", b'{"id":2}', b"x", b"x"])
    place = TopicPartition(topic, 0)
    with reader(servers, topic, group_id=topic, on_undecodable="skip") as consumer:
        if iterates:
            for record in consumer:
                if record.offset == 2:
                    break
            assert consumer.positions()[place] in (3, 5)
        else:
            assert [record.offset for record in consumer.poll(HANG_S)] == [0, 2]
        assert consumer.poll(0) == [] and consumer.positions() == {place: 5}
        assert consumer.lag(place) == 0
    with reader(servers, topic, group_id=topic) as consumer:
        assert consumer.position(place) == 5


def test_an_unfinished_record_before_a_skipped_one_is_not_committed(servers):
    fill(servers, "unfinished", [b"x", b'{"id":1}', b"x", b'{"id":3}'])
    place = TopicPartition("unfinished", 0)
    with (
        pytest.raises(ZeroDivisionError),
        reader(servers, "unfinished", group_id="unfinished", on_undecodable="skip") as consumer,
    ):
        assert [record.offset for record in consumer.poll(HANG_S, max_records=1)] == [1]
        assert [record.offset for record in consumer.poll(HANG_S, max_records=1)] == [3]
        raise ZeroDivisionError
    with reader(servers, "unfinished", group_id="unfinished") as consumer:
        assert consumer.position(place) in (2, 3), "record 3 is not finished"


def test_skipping_leaves_out_aborted_transactions(servers):
    with bowstring.Producer(servers, transactional_id="t") as producer:
        producer.init_transactions()
        for values, ends in (
            ([b'{"id":0}', b"x"], producer.abort_transaction),
            ([b"x", b'{"id":1}', b"x"], producer.commit_transaction),
            ([b"x"], producer.abort_transaction),
            ([b"x"], producer.commit_transaction),
        ):
            producer.begin_transaction()
            for value in values:
                producer.send("aborted", value, partition=0)
            ends()
    settings = {"isolation_level": "read_committed", "on_undecodable": "skip"}
    with reader(servers, "aborted", **settings) as consumer:
        assert [record.value for record in consumer.poll(HANG_S)] == [{"id": 1}]
        assert consumer.poll(0) == []
        assert consumer.undecodable_counts()["skipped"] == 3
        place = TopicPartition("aborted", 0)
        assert consumer.positions()[place] == consumer.end_offsets([place])[place]


def test_a_closed_producer_of_dead_letters_moves_nothing(servers):
    fill(servers, "closed", [b'{"id":0}', b"x", b'{"id":2}'])
    with bowstring.Producer(servers) as producer:
        pass
    letters = bowstring.DeadLetter("closed.bad", producer)
    with reader(servers, "closed", group_id="closed", on_undecodable=letters) as consumer:
        assert [record.offset for record in consumer.poll(HANG_S)] == [0]
        for _ in range(2):
            with pytest.raises(bowstring.ClosedError):
                consumer.poll(HANG_S)
            assert consumer.positions() == {TopicPartition("closed", 0): 1}
    with reader(servers, "closed", group_id="closed") as consumer:
        assert consumer.position(TopicPartition("closed", 0)) == 1


def test_an_interrupt_while_a_dead_letter_is_sent_loses_nothing(servers):
    class Interrupted:
        topic = "bad"

        def send_record(self, record, reason):
            raise KeyboardInterrupt

    fill(servers, "interrupt", [b'{"id":0}', b"x"])
    with reader(servers, "interrupt", on_undecodable=Interrupted()) as consumer:
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(HANG_S)
            assert consumer.positions() == {TopicPartition("interrupt", 0): 0}


def test_many_consumers_and_producers_share_a_format(servers):
    wrong = []

    def run(number):
        topic = f"shared-{number}"
        with bowstring.Producer(servers, value=FORM) as producer:
            for i in range(300):
                producer.send(topic, {"id": number * 1000 + i}, partition=0)
            producer.flush()
        with reader(servers, topic) as consumer:
            found = []
            while len(found) < 300:
                found += [record.value["id"] for record in consumer.poll(HANG_S)]
        if found != [number * 1000 + i for i in range(300)]:
            wrong.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
