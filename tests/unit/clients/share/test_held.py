"""Records that a share consumer holds, and what it says about them."""

import pytest

from bowstring.clients.errors import ConfigError
from bowstring.clients.records import Node, TopicPartition
from bowstring.clients.share.held import HeldRange, HeldRecords, Said
from bowstring.clients.share.records import Acknowledgement

A, B = Node(1, "a", 1), Node(2, "b", 2)
P, Q = TopicPartition("t", 0), TopicPartition("t", 1)
ACCEPT, RELEASE, RENEW = Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.RENEW


def whole(node, first, last):
    held = HeldRange(node, first, last, 1)
    held.has_all()
    return held


@pytest.fixture
def held():
    made = HeldRecords()
    made.add(P, whole(A, 10, 19))
    made.add(P, whole(A, 20, 24))
    made.add(Q, whole(B, 0, 4))
    return made


def test_what_is_said_is_taken_once_in_runs(held):
    assert held.nodes() == set() and held.open_count == 20
    held.say(P, 12, 14, ACCEPT)
    held.say(P, 15, 15, RELEASE)
    assert held.nodes() == {A}
    assert held.take(B) == {}
    assert held.take(A) == {P: [Said(12, 15, bytes([1, 1, 1, 2]))]}
    assert held.take(A) == {} and held.open_count == 16
    held.say(P, 18, 21, ACCEPT)
    assert held.take(A) == {P: [Said(18, 19, b"\1"), Said(20, 21, b"\1")]}
    assert held.first_open() == (P, 10)


def test_the_rest_is_said_at_once(held):
    held.say(P, 10, 10, RELEASE)
    held.say_rest(ACCEPT)
    assert held.open_count == 0 and held.first_open() is None
    assert held.take(A) == {P: [Said(10, 19, bytes([2, *[1] * 9])), Said(20, 24, b"\1")]}
    assert held.take(B) == {Q: [Said(0, 4, b"\1")]}
    assert len(held) == 0


def test_nothing_is_said_twice_or_of_others(held):
    held.say(P, 10, 11, ACCEPT)
    for first, last in ((10, 10), (11, 12), (9, 10), (24, 25), (30, 30)):
        with pytest.raises(ConfigError):
            held.say(P, first, last, ACCEPT)
    with pytest.raises(ConfigError, match="not held"):
        held.say(TopicPartition("u", 0), 1, 1, ACCEPT)
    held.take(A)
    with pytest.raises(ConfigError, match="not held"):
        held.say(P, 10, 10, ACCEPT)


def test_offsets_without_a_record_are_said_to_be_gaps():
    held = HeldRecords()
    gapped = HeldRange(A, 0, 5, 2)
    gapped.has([0, 1, 4])
    held.add(P, gapped)
    assert held.take(A) == {P: [Said(2, 3, b"\0"), Said(5, 5, b"\0")]}
    held.say(P, 0, 1, ACCEPT)
    held.say(P, 4, 4, ACCEPT)
    assert held.take(A) == {P: [Said(0, 1, b"\1"), Said(4, 4, b"\1")]}


def test_what_cannot_be_read_is_rejected():
    held = HeldRange(A, 10, 15, 1)
    held.has([11, 14])
    for first, last in ((0, 9), (16, 20), (13, 12)):
        held.reject(first, last)
    assert held.said == bytearray([0, 255, 0, 0, 255, 0])
    held.reject(5, 12)
    assert held.said == bytearray([3, 255, 3, 0, 255, 0])
    held.reject(15, 99)
    assert held.said == bytearray([3, 255, 3, 0, 255, 3])


def test_gaps_go_with_the_records_around_them():
    held = HeldRecords()
    gapped = HeldRange(A, 0, 5, 2)
    gapped.has([0, 1, 4])
    held.add(P, gapped)
    held.say_rest(ACCEPT)
    assert held.take(A) == {P: [Said(0, 5, bytes([1, 1, 0, 0, 1, 0]))]}


def test_renewed_records_stay_and_may_be_renewed_again(held):
    held.say(P, 10, 24, RENEW)
    assert held.renews(A) and not held.renews(B)
    held.say(P, 10, 10, ACCEPT)
    assert held.take(A) == {P: [Said(10, 19, bytes([1, *[4] * 9])), Said(20, 24, b"\4")]}
    assert held.nodes() == set() and not held.renews(A)
    assert held.first_open() == (Q, 0), "a renewed record does not wait for its acknowledgement"
    held.say(P, 11, 11, RENEW)
    assert held.take(A) == {P: [Said(11, 11, b"\4")]}
    held.say(P, 11, 19, ACCEPT)
    assert held.take(A) == {P: [Said(11, 19, b"\1")]}


def test_dropping(held):
    held.drop([Q])
    assert held.first_open() == (Q, 0)
    held.drop()
    assert len(held) == 0
