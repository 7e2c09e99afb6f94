"""Messages survive the wire in every version, except fields that a version lacks."""

import pytest

from bowstring._native.protocol.message_codec import decode, encode
from bowstring.engine.raft import messages as m
from bowstring.engine.raft import wire
from bowstring.engine.raft.keys import OffsetAndEpoch, ReplicaKey
from bowstring.engine.raft.voters import VersionRange
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import fetch, vote
from tests.support.raft_harness import LISTENER, key, voter

LEADER = m.LeaderAndEpoch(1, 4, voter(1).endpoints)
END = OffsetAndEpoch(7, 3)
NEVER_LOWER = 0x7FFFFFFFFFFFFFFF
REQUESTS = [
    (m.VoteRequest("c", key(1), key(2), 4, END, pre_vote=True), 2, 2),
    (m.VoteRequest("c", key(1), key(2), 4, END, pre_vote=False), 1, 2),
    (m.VoteRequest(None, None, ReplicaKey(2), 4, END, pre_vote=False), 0, 2),
    (m.BeginQuorumEpochRequest("c", key(2), LEADER), 1, 1),
    (m.BeginQuorumEpochRequest("c", None, LEADER._replace(endpoints=())), 0, 0),
    (m.EndQuorumEpochRequest("c", LEADER, (key(2), key(3))), 1, 1),
    (m.EndQuorumEpochRequest("c", LEADER._replace(endpoints=()), (ReplicaKey(2),)), 0, 0),
    (m.FetchRequest("c", key(2), 4, END, 5, 500, 1000), 18, 18),
    (m.FetchRequest("c", key(2), 4, END, NEVER_LOWER, 500, 1000), 17, 17),
    (m.FetchRequest("c", ReplicaKey(2), 4, END, NEVER_LOWER, 500, 1000), 12, 16),
    (m.FetchSnapshotRequest("c", key(2), 4, END, 100, 1000), 1, 1),
    (m.FetchSnapshotRequest("c", ReplicaKey(2), 4, END, 100, 1000), 0, 0),
    (m.AddVoterRequest("c", key(3), voter(3).endpoints, 1000, ack_when_committed=False), 1, 1),
    (m.AddVoterRequest("c", key(3), voter(3).endpoints, 1000), 0, 1),
    (m.RemoveVoterRequest("c", key(3)), 0, 0),
    (m.UpdateVoterRequest("c", 4, key(3), voter(3).endpoints, VersionRange(0, 1)), 0, 0),
    (m.ApiVersionsRequest(), 3, 4),
    (m.DescribeQuorumRequest(), 0, 2),
]
FAR = m.ReplicaProgress(key(1), 9, 20, 30, voter(1).endpoints)
RESPONSES = [
    (m.VoteRequest, m.VoteResponse(LEADER, vote_granted=True), 1, 2),
    (m.VoteRequest, m.VoteResponse(LEADER, Errors.FENCED_LEADER_EPOCH), 1, 2),
    (m.BeginQuorumEpochRequest, m.BeginQuorumEpochResponse(LEADER), 1, 1),
    (m.EndQuorumEpochRequest, m.EndQuorumEpochResponse(LEADER), 1, 1),
    (m.FetchRequest, m.FetchResponse(LEADER, high_watermark=5, log_start_offset=0, records=b"x"), 17, 18),
    (m.FetchRequest, m.FetchResponse(LEADER, diverging=END), 17, 18),
    (m.FetchRequest, m.FetchResponse(LEADER._replace(endpoints=()), snapshot_id=END), 12, 16),
    (m.FetchSnapshotRequest, m.FetchSnapshotResponse(LEADER, Errors.NONE, END, 9, 3, b"abc"), 1, 1),
    (m.FetchSnapshotRequest, m.FetchSnapshotResponse(LEADER, Errors.SNAPSHOT_NOT_FOUND), 1, 1),
    (m.AddVoterRequest, m.AddVoterResponse(Errors.DUPLICATE_VOTER, "why"), 0, 1),
    (m.RemoveVoterRequest, m.RemoveVoterResponse(Errors.NONE, None), 0, 0),
    (m.UpdateVoterRequest, m.UpdateVoterResponse(LEADER), 0, 0),
    (m.ApiVersionsRequest, m.ApiVersionsResponse(versions=VersionRange(0, 1)), 3, 4),
    (
        m.DescribeQuorumRequest,
        m.DescribeQuorumResponse(LEADER._replace(endpoints=()), Errors.NONE, 5, (FAR,)),
        2,
        2,
    ),
    (m.VoteRequest, m.ErrorResponse(Errors.INCONSISTENT_CLUSTER_ID), 0, 2),
    (m.FetchRequest, m.ErrorResponse(Errors.INVALID_REQUEST), 12, 18),
]


@pytest.mark.parametrize(("request_", "lowest", "highest"), REQUESTS)
def test_requests(request_, lowest, highest):
    for version in range(lowest, highest + 1):
        body = wire.request_body(request_, version)
        again = decode(wire.request_class(request_), version, encode(body, version))
        found = wire.parse_request(again, version)
        if isinstance(request_, m.VoteRequest) and request_.voter is None and version > 0:
            assert found.voter is None
        assert found == request_, version


@pytest.mark.parametrize(("request_", "response", "lowest", "highest"), RESPONSES)
def test_responses(request_, response, lowest, highest):
    sample = next(each for each, _, _ in REQUESTS if type(each) is request_)
    cls = wire.request_class(sample)
    for version in range(lowest, highest + 1):
        body = wire.response_body(cls, response, version, LISTENER)
        again = decode(wire.response_class(cls), version, encode(body, version))
        assert wire.parse_response(again, LISTENER) == response, version


def test_a_version_without_pre_vote_says_so():
    with pytest.raises(wire.UnsupportedVersionError):
        wire.request_body(REQUESTS[0][0], 1)


def test_other_partitions_are_no_messages():
    body = wire.request_body(REQUESTS[1][0], 2)
    body.topics[0].topic_name = "other"
    assert wire.parse_request(body, 2) is None
    body = wire.request_body(REQUESTS[1][0], 2)
    body.topics[0].partitions[0].partition_index = 1
    assert wire.parse_request(body, 2) is None
    assert wire.parse_request(vote.VoteRequest(), 2) is None
    assert wire.parse_request(fetch.FetchRequest(), 18) is None


def test_the_times_of_describe_quorum_are_those_of_the_wall():
    cls = wire.request_class(m.DescribeQuorumRequest())
    response = m.DescribeQuorumResponse(LEADER, Errors.NONE, 5, (FAR, FAR._replace(last_fetch_ms=-1)))
    body = wire.response_body(cls, response, 2, LISTENER, wall_clock_ms=1000)
    times = [each.last_fetch_timestamp for each in body.topics[0].partitions[0].current_voters]
    assert times == [1020, -1]
