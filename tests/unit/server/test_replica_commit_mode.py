"""Replication in commit mode: what a follower reports by its fetch offset is on its medium."""

import pytest

from bowstring._native.log.durability import join
from bowstring._native.log.future_replica import FutureReplica
from bowstring._native.server.replica_swap import replace_log
from tests.support.joined_wal import wal_on
from tests.support.log_batches import open_log
from tests.support.plane_requests import batch, only, produce
from tests.support.played_leader import LEADER, PlayedLeader
from tests.support.readable import readable
from tests.support.replicated_planes import Planes
from tests.support.served_plane import TOPIC, TOPIC_ID
from tests.support.waiting import wait_until


@pytest.fixture
def planes(tmp_path):
    made = Planes(tmp_path, count=2, wait_max_ms=20)
    yield made
    for wal in getattr(made, "wals", []):
        wal.stop()
    made.stopping.set()
    for broker, served in enumerate(made.served):
        served.plane.stop()
        for index in range(2):
            join(made.log(broker, index), None, TOPIC_ID, index)
    made.close()


def wal_of(planes, broker):
    """Joins a broker's partitions to a write-ahead log with commits called by the test."""
    made = wal_on(planes.served[broker].directory, segments=4)
    planes.wals = [*getattr(planes, "wals", []), made]
    planes.served[broker].plane.wake_by(made)
    for index in range(2):
        planes.served[broker].plane.set_durability(TOPIC, index, planes.log(broker, index), made)
    return made


def commit_when_staged(wal):
    wait_until(lambda: wal.staged_frame > wal.durable_frame)
    assert wal.commit()


def test_the_high_watermark_waits_for_the_followers_medium(planes):
    wal = wal_of(planes, 1)
    planes.elect(0, 1)
    client = planes.client(0)
    client.send(produce(batch(b"a"), 9, acks=-1), 9)
    wait_until(lambda: planes.log(1).log_end_offset == 1)
    assert not readable(client.socket, 0.2)
    assert planes.replicas[0].followers(TOPIC, 0)[1][0] == 0
    commit_when_staged(wal)
    assert only(client.receive(0, 9)).error_code == 0
    planes.await_equal()


def test_the_high_watermark_waits_for_the_leaders_medium(planes):
    wal = wal_of(planes, 0)
    planes.elect(0, 1)
    client = planes.client(0)
    client.send(produce(batch(b"a"), 9, acks=-1), 9)
    wait_until(lambda: planes.replicas[0].followers(TOPIC, 0)[1][0] == 1)
    assert not readable(client.socket, 0.2)
    assert planes.log(0).high_watermark == 0
    commit_when_staged(wal)
    assert only(client.receive(0, 9)).error_code == 0
    planes.await_equal()


@pytest.mark.parametrize("durability", ["os", "commit"])
def test_a_move_commits_nothing_that_followers_lack(planes, tmp_path, durability):
    """The leader's log is replaced by its copy while an in-sync follower fetches nothing."""
    old = new = None
    if durability == "commit":
        old = wal_of(planes, 0)
        (tmp_path / "other").mkdir()
        new = wal_on(tmp_path / "other", segments=4)
        planes.wals.append(new)
        planes.served[0].plane.wake_by(new)
    planes.elect(0, 1, followers=[])
    client = planes.client(0)
    client.send(produce(batch(b"a"), 9, acks=-1), 9)
    wait_until(lambda: planes.log(0).log_end_offset == 1)
    if old is not None:
        commit_when_staged(old)
    (tmp_path / "copy").mkdir()
    copy = FutureReplica(planes.log(0), open_log(tmp_path / "copy"))
    assert copy.copy(1 << 20) > 0
    copy.target.flush()
    assert replace_log(planes.served[0].plane, TOPIC, 0, copy, 1 << 20, new) == 0
    source = planes.log(0)
    planes.served[0].logs[TOPIC, 0] = copy.target
    assert planes.log(0).high_watermark == source.high_watermark == 0
    assert not readable(client.socket, 0.2)
    planes.follow(1, 0, 1)
    assert only(client.receive(0, 9)).error_code == 0
    planes.await_equal()


def test_a_follower_truncates_once_its_log_is_on_the_medium(planes):
    wal = wal_of(planes, 0)
    planes.elect(0, 1, isr=[0], followers=[])
    client = planes.client(0)
    client.send(produce(batch(b"a", b"b", b"c"), 9, acks=1), 9)
    wait_until(lambda: planes.log(0).log_end_offset == 3)
    planes.elect(1, 2, isr=[1])
    assert only(planes.client(1).call(produce(batch(b"d"), 9, acks=1), 9)).error_code == 0
    commit_when_staged(wal)  # only then its fetch offset may name the three records
    wait_until(lambda: (wal.commit() and None) or planes.log(0).high_watermark == 1)
    planes.await_equal()


def test_a_pending_acknowledgement_of_an_old_epoch_is_refused(planes):
    wal = wal_of(planes, 0)
    planes.elect(0, 1, isr=[0], followers=[])
    client = planes.client(0)
    client.send(produce(batch(b"a"), 9, acks=-1), 9)
    wait_until(lambda: planes.log(0).log_end_offset == 1)
    planes.elect(1, 2, isr=[1], followers=[])
    planes.replicas[0].follow(TOPIC, 0, leader_epoch=2)
    commit_when_staged(wal)
    assert only(client.receive(0, 9)).error_code == 6


def test_what_came_before_a_batch_that_fails_becomes_durable(planes):
    """Otherwise the follower never fetches again: its fetch offset must be on the medium."""
    wal = wal_of(planes, 0)
    leader = PlayedLeader()
    try:
        planes.replicas[0].follow(
            TOPIC, 0, leader_epoch=1, leader_id=LEADER, host=leader.host, port=leader.port
        )
        (topic,) = leader.fetched().topics
        good, overlapping = (
            offset.to_bytes(8, "big")
            + batch(b"a", b"b")[8:12]
            + (1).to_bytes(4, "big")
            + batch(b"a", b"b")[16:]
            for offset in (0, 1)
        )
        leader.give(topic.topic_id, good + overlapping)
        commit_when_staged(wal)
        again = leader.fetched()
        assert again.topics[0].partitions[0].fetch_offset == 2
    finally:
        leader.close()
