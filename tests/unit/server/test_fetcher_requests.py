"""What a follower's fetches say: against a leader that the test plays."""

import pytest

from bowstring.protocol.errors import Errors
from tests.support.played_leader import LEADER, SESSION, PlayedLeader
from tests.support.replicated_planes import Planes
from tests.support.served_plane import TOPIC


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
    planes.replicas[0].follow(TOPIC, 0, leader_epoch=1, leader_id=LEADER, host=leader.host, port=leader.port)
    (topic,) = leader.fetched().topics
    leader.answer(topic.topic_id, Errors.UNKNOWN_LEADER_EPOCH)
    again = leader.fetched()
    assert again.session_id == SESSION  # which has the partition still
    assert again.forgotten_topics_data == []


def test_a_partition_with_an_error_is_forgotten_while_others_are_fetched(planes, leader):
    for partition in (0, 1):
        planes.replicas[0].follow(
            TOPIC, partition, leader_epoch=1, leader_id=LEADER, host=leader.host, port=leader.port
        )
    first = leader.fetched()
    if len(first.topics[0].partitions) < 2:  # the second order came later
        leader.answer(first.topics[0].topic_id, Errors.NONE)
        leader.fetched()
    leader.answer(first.topics[0].topic_id, Errors.UNKNOWN_LEADER_EPOCH, Errors.NONE)
    assert [topic.partitions for topic in leader.fetched().forgotten_topics_data] == [[0]]
