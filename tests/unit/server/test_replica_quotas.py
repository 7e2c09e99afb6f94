"""Replication quotas (KIP-73): throttled replicas that lag are copied slowly, and nothing else is."""

import time

import pytest

from tests.support.plane_requests import batch, only, produce
from tests.support.replicated_planes import Planes
from tests.support.served_plane import TOPIC
from tests.support.waiting import wait_until

BATCHES = 20
BATCH_BYTES = 10_000
LONG_MS = 60_000


@pytest.fixture(params=[1, 2], ids=["one-reactor", "two-reactors"])
def planes(tmp_path, request):
    made = Planes(tmp_path, reactors=request.param, wait_max_ms=50, part_max_bytes=BATCH_BYTES)
    for partition in (0, 1):
        made.elect(0, 1, isr=[0, 2], followers=[2], partition=partition)
        fill(made, partition)
    wait_until(lambda: made.log(2, 0).log_end_offset == made.log(2, 1).log_end_offset == BATCHES)
    yield made
    made.close()


def fill(planes, partition, count=BATCHES):
    client = planes.client(0)
    for _ in range(count):
        request = produce(batch(b"x" * BATCH_BYTES), 9, partition=partition, acks=-1)
        assert only(client.call(request, 9)).error_code == 0


def throttle_leader(planes, rate, *, partitions=(0,)):
    planes.replicas[0].set_quota(leader_rate=rate)
    for partition in partitions:
        planes.replicas[0].set_throttled(TOPIC, partition, leader=True, follower=False)


def throttle_follower(planes, rate, *, partitions=(0,)):
    planes.replicas[1].set_quota(follower_rate=rate)
    for partition in partitions:
        planes.replicas[1].set_throttled(TOPIC, partition, leader=False, follower=True)


THROTTLES = pytest.mark.parametrize("throttle", [throttle_leader, throttle_follower])


@THROTTLES
def test_a_throttled_replica_catches_up_at_the_rate(planes, throttle):
    rate = BATCHES * BATCH_BYTES // 2
    throttle(planes, rate)
    started = time.monotonic()
    planes.follow(1, 0, 1)
    wait_until(lambda: planes.log(1).log_end_offset == BATCHES)
    at_once = rate + BATCH_BYTES  # a second's credit, and what went beyond it
    assert time.monotonic() - started >= (BATCHES * BATCH_BYTES - at_once) / rate - 0.1
    planes.await_equal()


@THROTTLES
def test_only_throttled_replicas_that_lag_wait(planes, throttle):
    throttle(planes, 1)  # after a batch nothing for ten seconds
    for partition in (0, 1):
        planes.follow(1, 0, 1, partition)
    wait_until(lambda: planes.log(1, 1).log_end_offset == BATCHES)
    fill(planes, 0, 5)
    fill(planes, 1, 5)
    assert planes.log(2).log_end_offset == BATCHES + 5, "replica 2 is in sync"
    wait_until(lambda: planes.log(1, 1).log_end_offset == BATCHES + 5)
    assert planes.log(1).log_end_offset < BATCHES


@THROTTLES
def test_without_the_quota_it_goes_on(planes, throttle):
    throttle(planes, 1)
    planes.follow(1, 0, 1)
    wait_until(lambda: planes.log(1).log_end_offset > 0)
    planes.replicas[0].set_quota()
    planes.replicas[1].set_quota()
    planes.await_equal()


@THROTTLES
def test_a_replica_that_is_no_longer_throttled_goes_on(planes, throttle):
    throttle(planes, 1)
    planes.follow(1, 0, 1)
    wait_until(lambda: planes.log(1).log_end_offset > 0)
    for broker in (0, 1):
        planes.replicas[broker].set_throttled(TOPIC, 0, leader=False, follower=False)
    planes.await_equal()


@THROTTLES
def test_all_partitions_of_a_fetcher_may_wait(planes, throttle):
    """Its session stays as it is meanwhile."""
    throttle(planes, BATCHES * BATCH_BYTES, partitions=(0, 1))
    for partition in (0, 1):
        planes.follow(1, 0, 1, partition)
    for partition in (0, 1):
        planes.await_equal(partition)
    fill(planes, 0, 3)
    planes.await_equal(0)


def test_replicas_in_sync_do_not_wait_for_the_followers_quota(planes):
    planes.follow(1, 0, 1)
    planes.await_equal()
    planes.replicas[0].set_isr(TOPIC, 0, [0, 1, 2])
    throttle_follower(planes, 1)
    fill(planes, 0, 5)
    planes.await_equal()


def test_quotas_name_partitions_that_are_served(planes):
    with pytest.raises(KeyError):
        planes.replicas[0].set_throttled(TOPIC, 99, leader=True, follower=True)
