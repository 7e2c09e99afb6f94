"""Joining and leaving the ISR: events of the data plane."""

import pytest

from bowstring.protocol.errors import Errors
from tests.support.plane_requests import batch, only, produce
from tests.support.replicated_planes import Planes
from tests.support.served_plane import TOPIC
from tests.support.waiting import wait_until

LAG_MS = 200


@pytest.fixture
def planes(tmp_path):
    made = Planes(tmp_path, lag_max_ms=LAG_MS, wait_max_ms=20)
    yield made
    made.close()


def events(planes, kind):
    return [(event[3], event[4]) for event in planes.events[0] if event[0] == kind]


def test_a_follower_that_does_not_fetch_leaves_and_comes_back(planes):
    planes.elect(0, 1, followers=[1])
    client = planes.client(0)
    client.send(produce(batch(b"a"), 9, acks=-1), 9)

    def lags():
        planes.replicas[0].check_lag()
        return events(planes, "lags")

    assert wait_until(lags) == [(1, 2)]
    assert planes.log(0).high_watermark == 0
    planes.replicas[0].set_isr(TOPIC, 0, [0, 1], changing=False)
    assert only(client.receive(0, 9)).error_code == 0
    planes.follow(2, 0, 1)
    assert wait_until(lambda: events(planes, "may-join")) == [(1, 2)]
    planes.replicas[0].set_isr(TOPIC, 0, [0, 1], joining=[2], changing=True)
    planes.replicas[0].set_isr(TOPIC, 0, [0, 1, 2])
    assert {b: each[2] for b, each in planes.replicas[0].followers(TOPIC, 0).items()} == {1: True, 2: True}
    planes.replicas[0].check_lag()
    assert events(planes, "lags") == [(1, 2)]


def test_the_maximal_isr_counts_while_a_change_is_under_way(planes):
    planes.elect(0, 1, isr=[0, 1], followers=[1])
    planes.replicas[0].set_isr(TOPIC, 0, [0, 1], joining=[2], changing=True)
    client = planes.client(0)
    client.send(produce(batch(b"a"), 9, acks=-1), 9)
    wait_until(lambda: planes.replicas[0].followers(TOPIC, 0)[1][0] == 1)
    assert planes.log(0).high_watermark == 0
    planes.replicas[0].set_isr(TOPIC, 0, [0, 1], ineligible=[2])  # the controller refused
    assert only(client.receive(0, 9)).error_code == 0


def test_a_follower_that_the_high_watermark_has_passed_does_not_join(planes):
    """Its fetch qualified it, then the high watermark passed it before the request to the controller."""
    planes.elect(0, 1, isr=[0, 1], followers=[1, 2])
    wait_until(lambda: events(planes, "may-join") == [(1, 2)])
    leader = planes.replicas[0]
    planes.replicas[2].follow(TOPIC, 0, leader_epoch=1)  # stops fetching
    client = planes.client(0)
    wait_until(lambda: only(client.call(produce(batch(b"a"), 9, acks=-1), 9)).error_code == 0)
    end = leader.followers(TOPIC, 0)[2][0]
    assert planes.log(0).high_watermark > end
    assert not leader.try_join(TOPIC, 0, 2, leader_epoch=1)
    planes.follow(2, 0, 1)
    wait_until(lambda: leader.followers(TOPIC, 0)[2][0] == planes.log(0).log_end_offset)
    assert not leader.try_join(TOPIC, 0, 2, leader_epoch=2), "of another epoch"
    assert leader.try_join(TOPIC, 0, 2, leader_epoch=1)
    assert not leader.try_join(TOPIC, 0, 2, leader_epoch=1), "a change is under way"
    planes.replicas[2].follow(TOPIC, 0, leader_epoch=1)
    client.send(produce(batch(b"b"), 9, acks=-1), 9)
    before = planes.log(0).high_watermark
    wait_until(lambda: leader.followers(TOPIC, 0)[1][0] == before + 1)
    assert planes.log(0).high_watermark == before, "it waits for the follower that joins"


def test_a_leader_that_followed_meanwhile_does_not_acknowledge(planes):
    """It may truncate pending records as a follower, even if it leads again before its reactor runs."""
    for epoch in range(1, 60, 2):
        planes.elect(0, epoch, isr=[0, 1], followers=[])
        client = planes.client(0)
        end = planes.log(0).log_end_offset
        client.send(produce(batch(b"a"), 9, acks=-1), 9)
        wait_until(lambda before=end: planes.log(0).log_end_offset > before)
        planes.replicas[0].follow(TOPIC, 0, leader_epoch=epoch + 1)
        planes.elect(0, epoch + 1, isr=[0, 1], followers=[])
        assert only(client.receive(0, 9)).error_code == Errors.NOT_LEADER_OR_FOLLOWER.code
