"""Requests of one connection: those of the control thread take effect in their order, and what it has not taken is bounded."""

import pytest

from bowstring.engine.protocol.messages import metadata as md
from tests.support.plane_requests import batch, produce
from tests.support.served_plane import TOPIC
from tests.support.taken_requests import Taken
from tests.support.waiting import pause, wait_until

ALL_TOPICS = md.MetadataRequest(topics=None)
ANSWER = b"\x00\x00\x00\x01"


def quiet(taken) -> bool:
    pause(0.05, "nothing may come")
    return not taken.plane.take_requests()


def test_the_control_thread_has_one_request_of_a_connection_at_a_time(served):
    """Kafka mutes a connection until its request is answered: what a client pipelines takes effect in order."""
    client, other = served.client(), served.client()
    for _ in range(3):
        client.send(ALL_TOPICS, 8)
    taken = Taken(served)
    taken.come(1)
    assert quiet(taken)
    first = taken[0].connection_id
    other.send(ALL_TOPICS, 8)
    taken.come(2)
    for _ in range(2):
        taken.answer([each.connection_id for each in taken].index(first))
        taken.come(2)
    assert quiet(taken)
    for _ in range(2):
        taken.answer(0)
    for _ in range(3):
        assert client.read_frame() == ANSWER


def test_produce_behind_one_that_is_being_answered_goes_on(served):
    """It is the reactor's own; answers stay in order."""
    client = served.client()
    client.send(ALL_TOPICS, 8)
    client.send(produce(batch(b"v"), 9), 9)
    taken = Taken(served)
    taken.come(1)
    wait_until(lambda: served.logs[TOPIC, 0].log_end_offset == 1, "the batch is in the log")
    taken.answer(0)
    client.read_frame()
    assert client.receive(0, 9).responses[0].partition_responses[0].error_code == 0


def test_a_client_that_takes_no_answers_gets_no_more_of_them(served):
    client = served.client()
    for _ in range(500):
        client.send(ALL_TOPICS, 8)
    taken = Taken(served)
    answered, before = 0, -1
    while answered < 60:
        found = taken.plane.take_requests()
        if not found:
            pause(0.05, "time for more to come, if it may")
            if answered == before:
                break
            before = answered
            continue
        for request in found:
            taken.plane.reply(request.connection_id, request.slot, bytes(256 << 10))
            answered += 1
    # What the sockets hold comes on top.
    assert answered < 60
    for number in range(500):
        while number >= answered:
            for request in taken.plane.take_requests():
                taken.plane.reply(request.connection_id, request.slot, ANSWER)
                answered += 1
        client.read_frame()


@pytest.mark.parametrize("stops", [False, True])
def test_ends_with_requests_that_wait(served, stops):
    client = served.client()
    for _ in range(3):
        client.send(ALL_TOPICS, 8)
    taken = Taken(served)
    taken.come(1)
    if stops:
        served.plane.stop()
        assert client.closed()
        return
    client.close()
    taken.answer(0)
    wait_until(lambda: taken.plane.take_requests() or not served.plane.counters()["connections"], "its end")
