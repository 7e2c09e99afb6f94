"""Replies that the control thread holds, so that a reactor wakes once for several."""

import pytest

from bowstring.protocol.messages import metadata as md
from tests.support.readable import readable
from tests.support.taken_requests import Taken
from tests.support.waiting import pause

ALL_TOPICS = md.MetadataRequest(topics=None)
ANSWER = b"\x00\x00\x00\x01"
CLIENTS = 8


@pytest.fixture
def taken(served):
    """Requests of as many clients, one of each, and the clients in their order."""
    clients = [served.client() for _ in range(CLIENTS)]
    taken = Taken(served)
    for number, client in enumerate(clients, 1):
        client.send(ALL_TOPICS, 8)
        taken.come(number)
    taken.clients = clients
    taken.plane.hold_replies()
    return taken


def answered(clients) -> list:
    pause(0.05, "a reply that is held would arrive")
    return [each for each in clients if readable(each.socket, 0)]


def test_a_held_reply_leaves_when_it_is_released(taken):
    taken.answer(0)
    assert not answered(taken.clients)
    taken.plane.release_replies()
    assert taken.clients[0].read_frame() == ANSWER
    taken.answer(0)  # nothing is held any more
    assert taken.clients[1].read_frame() == ANSWER


def test_held_replies_leave_together(taken):
    for _ in range(CLIENTS):
        taken.answer(0)
    taken.plane.release_replies()
    assert all(each.read_frame() == ANSWER for each in taken.clients)


def test_held_replies_leave_with_one_that_comes_later(taken):
    taken.answer(0)
    pause(0.001, "the first reply would have waited for long enough")
    taken.answer(0)
    assert all(each.read_frame() == ANSWER for each in taken.clients[:2])
    taken.answer(0)
    assert not answered(taken.clients[2:])
    taken.plane.release_replies()
    assert taken.clients[2].read_frame() == ANSWER


def test_what_is_not_held_takes_along_what_is(taken):
    first, last = taken[0], taken[-1]
    taken.answer(0)
    taken.plane.disconnect(last.connection_id)
    assert taken.clients[-1].closed()
    taken.plane.finish(first.connection_id)
    assert taken.clients[0].read_frame() == ANSWER
    assert taken.clients[0].closed()


def test_the_order_of_a_connections_replies_is_kept(taken):
    client = taken.clients[0]
    client.send(ALL_TOPICS, 8)
    taken.answer(0)
    taken.plane.release_replies()
    taken.plane.hold_replies()
    taken.come(CLIENTS)
    taken.answer(CLIENTS - 1)
    taken.plane.release_replies()
    assert client.read_frame() == client.read_frame() == ANSWER
