"""Large requests for the control thread: how many bytes of them the broker holds, and which requests wait."""

import struct
import threading

import pytest

from bowstring.protocol import encode_request
from bowstring.protocol.messages import metadata as md
from tests.support.served_plane import Served
from tests.support.taken_requests import Taken
from tests.support.waiting import wait_until

MB = 1_000_000


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def metadata(size_bytes: int) -> bytes:
    """A Metadata request of about that size."""
    count = size_bytes // 1002
    topics = [md.MetadataRequestTopic(name=f"{i:01000}") for i in range(count)]
    return frame(encode_request(md.MetadataRequest(topics=topics), 8, 1, "test"))


@pytest.fixture
def small(tmp_path):
    """A plane that takes 200 kB of large requests at once, answered by the test only."""
    served = Served(tmp_path, reactors=2, slow_max_bytes=200_000)
    yield served
    served.close()


def parked(served) -> int:
    return served.plane.counters()["slow_batches"]["parked_connections"]


def test_large_requests_of_all_connections_wait_for_room_and_small_ones_do_not(small):
    clients = [small.client() for _ in range(3)]
    taken = Taken(small)
    clients[0].socket.sendall(metadata(150_000))
    taken.come(1)
    clients[1].socket.sendall(metadata(150_000))
    wait_until(lambda: parked(small) == 1, "the second to wait")
    clients[2].socket.sendall(metadata(2000))
    taken.come(2)
    assert [request.body_bytes > 100_000 for request in taken] == [True, False]
    taken.answer(0)
    taken.come(2)
    assert parked(small) == 0
    taken.clear()
    wait_until(lambda: small.plane.counters()["slow_batches"]["waiting_bytes"] == 0, "nothing to be counted")


def test_what_is_alone_is_taken_however_large(small):
    small.client().socket.sendall(metadata(3 * MB))
    taken = Taken(small)
    taken.come(1)
    assert taken[0].body_bytes > 2 * MB


def test_a_connection_has_no_more_than_a_megabyte_of_small_requests_in_hand(small):
    """However many come, and behind a large one, whose buffer has room for more of them."""
    client, taken = small.client(), Taken(small)
    pipelined = metadata(3 * MB) + metadata(20_000) * 400
    sender = threading.Thread(target=client.socket.sendall, args=(pipelined,))
    sender.start()
    answered = 0
    while answered < 401:
        taken.come(1)
        assert sum(request.body_bytes for request in taken if request.body_bytes < MB) < 1.5 * MB
        taken.answer(0)
        answered += 1
    sender.join()


def test_a_connection_that_goes_gives_its_room_back_when_its_request_is_dropped(small):
    client, taken = small.client(), Taken(small)
    client.socket.sendall(metadata(150_000))
    taken.come(1)
    client.close()
    other = small.client()
    other.socket.sendall(metadata(150_000))
    wait_until(lambda: parked(small) == 1, "the other to wait")
    taken.answer(0)
    taken.come(1)
