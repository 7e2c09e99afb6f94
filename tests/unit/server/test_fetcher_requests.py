"""What a follower's fetches say: against a leader that the test plays."""

import socket

import pytest

from bowstring.engine.errors import Errors
from bowstring.engine.protocol import decode_request, encode_response
from bowstring.engine.protocol.frames import decode_request_header
from bowstring.engine.protocol.messages import fetch
from tests.support.replicated_planes import Planes
from tests.support.served_plane import TOPIC
from tests.support.waiting import HANG_S

LEADER = 9
SESSION = 7


class PlayedLeader:
    """Accepts one follower, and answers each fetch as the test says."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(HANG_S)
        self.port = self.listener.getsockname()[1]
        self.connection = None

    def fetched(self):
        """Returns the next fetch."""
        if self.connection is None:
            self.connection = self.listener.accept()[0].makefile("rwb")
        frame = self.connection.read(int.from_bytes(self.connection.read(4), "big"))
        header = decode_request_header(frame)
        self.version, self.correlation_id = header.api_version, header.correlation_id
        return decode_request(header.api_key, header.api_version, frame, header.body_offset)

    def answer(self, topic_id, *errors):
        """Answers it with an error for each partition, from 0 on."""
        partitions = [fetch.PartitionData(partition_index=i, error_code=e.code) for i, e in enumerate(errors)]
        topics = [fetch.FetchableTopicResponse(topic_id=topic_id, partitions=partitions)]
        body = fetch.FetchResponse(session_id=SESSION, responses=topics)
        frame = encode_response(1, self.version, self.correlation_id, body)
        self.connection.write(len(frame).to_bytes(4, "big") + frame)
        self.connection.flush()

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.listener.close()


@pytest.fixture
def planes(tmp_path):
    made = Planes(tmp_path, count=1)
    yield made
    made.close()


@pytest.fixture
def leader():
    made = PlayedLeader()
    yield made
    made.close()


def test_a_partition_that_returns_after_an_error_is_not_forgotten(planes, leader):
    """A leader adds what a fetch names before it forgets: it would never answer for the partition again."""
    planes.replicas[0].follow(TOPIC, 0, leader_epoch=1, leader_id=LEADER, host="127.0.0.1", port=leader.port)
    (topic,) = leader.fetched().topics
    leader.answer(topic.topic_id, Errors.UNKNOWN_LEADER_EPOCH)
    again = leader.fetched()
    assert again.session_id == SESSION  # which has the partition still
    assert again.forgotten_topics_data == []


def test_a_partition_with_an_error_is_forgotten_while_others_are_fetched(planes, leader):
    for partition in (0, 1):
        planes.replicas[0].follow(
            TOPIC, partition, leader_epoch=1, leader_id=LEADER, host="127.0.0.1", port=leader.port
        )
    first = leader.fetched()
    if len(first.topics[0].partitions) < 2:  # the second order came later
        leader.answer(first.topics[0].topic_id, Errors.NONE)
        leader.fetched()
    leader.answer(first.topics[0].topic_id, Errors.UNKNOWN_LEADER_EPOCH, Errors.NONE)
    assert [topic.partitions for topic in leader.fetched().forgotten_topics_data] == [[0]]
