"""Incremental fetch sessions, KIP-227."""

import pytest

from bowstring.protocol.messages import fetch as f
from tests.support.fetch_sessions import at, open_session, step
from tests.support.plane_requests import batch, fetch, produce, records_of
from tests.support.served_plane import TOPIC_ID, Served
from tests.support.waiting import FOR_EVER_MS


def partitions_of(answer):
    return [partition.partition_index for topic in answer.responses for partition in topic.partitions]


@pytest.mark.parametrize("version", range(7, 19))
def test_only_what_changed_is_told(client, version):
    opened = open_session(client, version)
    assert opened.session_id > 0 and sorted(partitions_of(opened)) == [0, 1]
    assert client.call(step(opened.session_id, 1, version), version).responses == []
    client.call(produce(batch(b"a"), 9, partition=1), 9)
    answer = client.call(step(opened.session_id, 2, version), version)
    assert partitions_of(answer) == [1]
    assert records_of(answer.responses[0].partitions[0].records) == [(0, b"a")]
    # The position moves with the next request; then nothing is new.
    answer = client.call(step(opened.session_id, 3, version, [at(1, 1, version)]), version)
    assert answer.responses == []


def test_session_waits_and_is_woken(served, client):
    session_id = open_session(client).session_id
    client.send(step(session_id, 1, max_wait_ms=FOR_EVER_MS), 17)
    served.client().call(produce(batch(b"late"), 9, partition=1), 9)
    assert partitions_of(client.receive(1, 17)) == [1]


def test_forgotten_partitions_are_not_fetched(served, client):
    session_id = open_session(client).session_id
    forgotten = f.ForgottenTopic(topic_id=TOPIC_ID, partitions=[1])
    client.call(step(session_id, 1, forgotten=[forgotten]), 17)
    for partition in (0, 1):
        client.call(produce(batch(b"a"), 9, partition=partition), 9)
    assert partitions_of(client.call(step(session_id, 2), 17)) == [0]


def test_session_errors(client):
    session_id = open_session(client).session_id
    assert client.call(step(session_id, 5), 17).error_code == 71
    assert client.call(step(session_id + 3, 1), 17).error_code == 70
    assert client.call(step(session_id, 1, version=12), 12).error_code == 106
    assert client.call(step(session_id, 1), 17).error_code == 0


def test_final_epoch_closes_the_session(served, client):
    session_id = open_session(client).session_id
    assert served.plane.counters()["fetch_sessions"] == 1
    closing = fetch(17, session_id=session_id, session_epoch=-1)
    assert client.call(closing, 17).session_id == 0
    assert served.plane.counters()["fetch_sessions"] == 0
    assert client.call(step(session_id, 1), 17).error_code == 70


def test_full_cache_answers_without_a_session(tmp_path):
    served = Served(tmp_path, session_slots=2)
    try:
        client = served.client()
        assert [open_session(client).session_id > 0 for _ in range(3)] == [True, True, False]
    finally:
        served.close()


def test_old_sessions_make_room(tmp_path):
    served = Served(tmp_path, session_slots=2, session_min_idle_ms=0)
    try:
        client = served.client()
        ids = [open_session(client).session_id for _ in range(5)]
        assert all(ids) and len(set(ids)) == 5
        assert served.plane.counters()["fetch_sessions"] == 2
    finally:
        served.close()


def test_no_partition_starves(served, client):
    """Replies begin where the last one stopped: max_bytes for one partition serves both in turn."""
    for partition in (0, 1):
        client.call(produce(batch(b"x" * 100_000), 9, partition=partition), 9)
    session_id = open_session(client, max_bytes=1).session_id
    seen = [
        p.partition_index
        for t in client.call(step(session_id, 1, max_bytes=1), 17).responses
        for p in t.partitions
        if p.records
    ]
    seen += [
        p.partition_index
        for t in client.call(step(session_id, 2, max_bytes=1), 17).responses
        for p in t.partitions
        if p.records
    ]
    assert sorted(seen) == [0, 1]


def test_session_survives_the_topic_being_deleted(served, client):
    session_id = open_session(client).session_id
    client.send(step(session_id, 1, max_wait_ms=FOR_EVER_MS), 17)
    served.client().call(produce(batch(b"a"), 9), 9)
    client.receive(1, 17)
    served.plane.remove_topic("flights")
    errors = [p.error_code for t in client.call(step(session_id, 2), 17).responses for p in t.partitions]
    assert errors == [100, 100]
