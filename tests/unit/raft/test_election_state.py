"""quorum-state, as Kafka writes it."""

import json

import pytest

from bowstring.engine.raft.election_state import ElectionState, QuorumStateError
from bowstring.engine.raft.keys import ReplicaKey
from tests.support.raft_harness import key


@pytest.mark.parametrize("state", [ElectionState(3), ElectionState(3, 1), ElectionState(3, -1, key(2))])
def test_version_1_comes_back(state):
    assert ElectionState.from_json(state.to_json(1, [])) == state


def test_version_0_has_the_voters_and_no_directory():
    text = ElectionState(3, 1, key(2)).to_json(0, [1, 2])
    found = json.loads(text)
    assert found["currentVoters"] == [{"voterId": 1}, {"voterId": 2}]
    assert found["data_version"] == 0 and "votedDirectoryId" not in found
    assert ElectionState.from_json(text) == ElectionState(3, 1, ReplicaKey(2))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"data_version":2,"leaderEpoch":1,"leaderId":1,"votedId":-1}',
        '{"data_version":1,"leaderEpoch":1,"leaderId":1}',
        '{"data_version":1,"leaderEpoch":"1","leaderId":1,"votedId":-1}',
        '{"data_version":1,"leaderEpoch":1,"leaderId":1,"votedId":2,"votedDirectoryId":"?"}',
    ],
)
def test_anything_else_is_refused(text):
    with pytest.raises(QuorumStateError):
        ElectionState.from_json(text)
