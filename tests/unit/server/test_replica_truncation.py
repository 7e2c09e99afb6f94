"""Followers truncate what their leader does not have, by Kafka's rules (KIP-101, KIP-279, KIP-595)."""

import errno
import os
import random

import pytest

from bowstring._native.log.heal import heal, may_heal
from tests.support import faults
from tests.support.log_batches import everything, headers
from tests.support.plane_requests import batch, only, produce
from tests.support.replicated_planes import Planes
from tests.support.served_plane import TOPIC
from tests.support.waiting import wait_until


def only_of(broker, error):
    """Makes writes to the logs of a broker fail."""

    def make(original):
        def pwritev(fd, *rest):
            return (
                -error if f"/broker-{broker}/" in os.readlink(f"/proc/self/fd/{fd}") else original(fd, *rest)
            )

        return pwritev

    return make


def test_a_follower_goes_on_when_its_log_is_healed(tmp_path):
    planes = Planes(tmp_path, wait_max_ms=20)
    try:
        planes.elect(0, epoch=1)
        client = planes.client(0)
        with faults.replaced("pwritev", only_of(1, errno.ENOMEM)):
            assert only(client.call(produce(batch(b"a"), 9, acks=1), 9)).error_code == 0
            wait_until(lambda: planes.log(1).failed, "a log that fails")
        assert may_heal(planes.log(1))
        heal(planes.log(1))
        planes.await_equal()
    finally:
        planes.close()


class Replica:
    """A log as a list of leader epochs by offset, and the epochs that began in it."""

    def __init__(self) -> None:
        self.records: list[int] = []
        self.epochs: list[tuple[int, int]] = []

    def assign(self, epoch: int) -> None:
        if not self.epochs or self.epochs[-1][0] < epoch:
            self.epochs = [entry for entry in self.epochs if entry[1] < len(self.records)]
            self.epochs.append((epoch, len(self.records)))

    def append(self, epoch: int, count: int) -> None:
        self.assign(epoch)
        self.records += [epoch] * count

    def newest(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The greatest epoch up to `epoch`, and where it ends."""
        if not self.epochs or epoch > self.newest():
            return -1, -1
        later = [start for each, start in self.epochs if each > epoch]
        known = [each for each, _ in self.epochs if each <= epoch]
        end = later[0] if later else len(self.records)
        return (known[-1] if known else epoch), end

    def truncate(self, offset: int) -> None:
        del self.records[offset:]
        self.epochs = [entry for entry in self.epochs if entry[1] < len(self.records)]


def truncations(leader: Replica, follower: Replica) -> list[int]:
    """Lets the follower compare its log with the leader's until they agree. Returns the ends after each truncation."""
    ends = []
    while follower.newest() >= 0:
        epoch, end = leader.end_of(follower.newest())
        assert epoch >= 0, "a leader knows all earlier epochs"
        if epoch == follower.newest() and end >= len(follower.records):
            break
        own_epoch, own_end = follower.end_of(epoch)
        offset = end if own_epoch < 0 else own_end if own_epoch != epoch else min(own_end, end)
        follower.truncate(min(offset, len(follower.records)))
        ends.append(len(follower.records))
    return ends


@pytest.fixture
def planes(tmp_path):
    made = Planes(tmp_path, wait_max_ms=20)
    yield made
    made.close()


def write(planes, leader, count, partition=0):
    answer = only(planes.client(leader).call(produce(batch(*[b"%d" % leader] * count), 9, acks=1), 9))
    assert answer.error_code == 0


def await_truncated(planes, broker, ends, log_end_offset):
    """Waits until a follower has truncated to these ends, in this order, and caught up.

    Before it truncates it may end where it ends afterwards, with other records, so the end is looked at last.
    """

    def truncated():
        return [event[5] for event in planes.events[broker] if event[0] == "truncated"]

    wait_until(lambda: len(truncated()) >= len(ends), lambda: (ends, truncated()), hang_s=20)
    wait_until(lambda: planes.log(broker).log_end_offset == log_end_offset, hang_s=20)
    assert truncated() == ends


def test_a_follower_drops_what_the_new_leader_lacks(planes):
    planes.elect(0, 1, isr=[0], followers=[])
    write(planes, 0, 3)
    for broker in (1, 2):
        planes.follow(broker, 0, 1)
    planes.await_equal()
    planes.elect(0, 2, isr=[0], followers=[])
    for broker in (1, 2):
        planes.replicas[broker].follow(TOPIC, 0, leader_epoch=2)
    write(planes, 0, 5)
    assert planes.log(0).log_end_offset == 8
    planes.elect(1, 3)
    write(planes, 1, 2)
    planes.await_equal()
    assert [header.leader_epoch for header in headers(everything(planes.log(0)))] == [1, 3]
    wait_until(lambda: ("truncated", TOPIC, 0, 3, 0, 3) in planes.events[0], lambda: planes.events[0])


def test_a_follower_says_when_there_is_nothing_to_cut(planes):
    """Its last epoch differs from the leader's, and nothing was written in it."""
    planes.elect(0, 1, isr=[0], followers=[])
    write(planes, 0, 3)
    for broker in (1, 2):
        planes.follow(broker, 0, 1)
    planes.await_equal()
    planes.elect(1, 2, isr=[1], followers=[])
    planes.elect(0, 3, isr=[0], followers=[1, 2])
    write(planes, 0, 1)
    planes.await_equal()
    wait_until(lambda: ("truncated", TOPIC, 0, 3, 1, 3) in planes.events[1], lambda: planes.events[1])
    assert not any(event[0] == "truncated" and event[4] == 0 for event in planes.events[1])


@pytest.mark.parametrize("seed", range(12))
def test_random_elections(planes, seed):
    """Any broker becomes leader, as with unclean elections; the others truncate exactly where the model says."""
    rng = random.Random(seed)
    model = [Replica() for _ in range(3)]
    epoch = 0
    for _ in range(12):
        epoch += rng.randint(1, 2)
        leader = rng.randrange(3)
        followers = [b for b in range(3) if b != leader and rng.random() < 0.6]
        for events in planes.events:
            events.clear()
        for broker in range(3):
            if broker != leader and broker not in followers:
                planes.replicas[broker].follow(TOPIC, 0, leader_epoch=epoch)
        model[leader].assign(epoch)
        expected = {broker: truncations(model[leader], model[broker]) for broker in followers}
        planes.elect(leader, epoch, isr=[leader], followers=followers)
        for _ in range(rng.randint(0, 3)):
            count = rng.randint(1, 4)
            write(planes, leader, count)
            model[leader].append(epoch, count)
        for broker in followers:
            await_truncated(planes, broker, expected[broker], len(model[leader].records))
            old = len(model[broker].records)
            for each in model[leader].records[old:]:
                model[broker].append(each, 1)
        for broker in (leader, *followers):
            assert planes.log(broker).epochs() == model[broker].epochs
            found = everything(planes.log(broker))
            assert found == everything(planes.log(leader))


def test_a_follower_beyond_the_leaders_log_start_begins_again(planes):
    planes.elect(0, 1, isr=[0], followers=[])
    for _ in range(4):
        write(planes, 0, 10)
    planes.log(0).delete_records(30)
    planes.follow(1, 0, 1)
    wait_until(lambda: planes.log(1).log_end_offset == 40)
    assert planes.log(1).log_start_offset == 30
    assert everything(planes.log(1)) == planes.log(0).read(30, 1 << 20)


def test_log_starts_follow_the_leader(planes):
    planes.elect(0, 1)
    for _ in range(4):
        write(planes, 0, 10)
    planes.await_equal()
    planes.log(0).delete_records(15)
    write(planes, 0, 1)
    wait_until(lambda: planes.log(1).log_start_offset == planes.log(2).log_start_offset == 15)
    wait_until(lambda: planes.replicas[0].low_watermark(TOPIC, 0) == 15)


def test_a_log_may_start_within_a_batch(planes):
    """A follower that has nothing begins with that batch, and deletes its first records."""
    planes.elect(0, 1, isr=[0], followers=[])
    for _ in range(3):
        write(planes, 0, 10)
    planes.log(0).delete_records(17)
    planes.follow(1, 0, 1)
    wait_until(lambda: planes.log(1).log_end_offset == 30, lambda: planes.events[1])
    wait_until(lambda: planes.log(1).log_start_offset == 17)
    assert headers(planes.log(1).read(17, 1 << 20))[0].base_offset == 10
    assert not [event for event in planes.events[1] if event[0] == "fetch-failed"]
    write(planes, 0, 5)
    wait_until(lambda: planes.log(1).log_end_offset == 35)
