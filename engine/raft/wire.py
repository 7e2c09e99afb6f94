"""Converts the messages of replicas to the bodies of Kafka's requests and responses, and back.

A body of another topic or partition than `__cluster_metadata-0` is no message of a replica. Where a version
lacks a field, the message has what the field means to an older node.
"""

from typing import Any, Final

from bowstring.engine.raft import messages
from bowstring.engine.raft.keys import NO_DIRECTORY, OffsetAndEpoch, ReplicaKey
from bowstring.engine.raft.messages import LeaderAndEpoch, ReplicaProgress, Request, Response
from bowstring.engine.raft.voters import Endpoint, Endpoints, VersionRange
from bowstring.protocol.errors import Errors
from bowstring.protocol.ids import METADATA_TOPIC_ID
from bowstring.protocol.messages import (
    add_raft_voter,
    api_versions,
    begin_quorum_epoch,
    describe_quorum,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from bowstring.protocol.records import METADATA_TOPIC
from bowstring.protocol.schema import Message

KRAFT_VERSION: Final = "kraft.version"
FETCH_VERSION_MIN: Final = 12
"""The first Fetch with the epoch before the fetched offset."""
_TOPIC_IDS_FROM: Final = 13
_REPLICA_STATE_FROM: Final = 15
_NODE_ENDPOINTS_FROM: Final = 17
_PRE_VOTE_FROM: Final = 2


class UnsupportedVersionError(Exception):
    """The version lacks a field that this request needs."""


def request_class(request: Request) -> type[Message]:
    """Returns the class of a request's body."""
    return _CLASSES[type(request)]


def response_class(request: type[Message]) -> type[Any]:
    """Returns the class of the response's body to a request's."""
    return _RESPONSES[request]


# ---------------------------------------------------------------- requests


def request_body(request: Request, version: int) -> Message:
    """Returns the body of a request.

    Raises:
        UnsupportedVersionError: `version` has no pre-vote.
    """
    match request:
        case messages.VoteRequest():
            return _vote_request(request, version)
        case messages.BeginQuorumEpochRequest():
            return _begin_request(request)
        case messages.EndQuorumEpochRequest():
            return _end_request(request)
        case messages.FetchRequest():
            return _fetch_request(request, version)
        case messages.FetchSnapshotRequest():
            return _fetch_snapshot_request(request)
        case _:
            return _other_request(request, version)


def _vote_request(request: messages.VoteRequest, version: int) -> Message:
    if request.pre_vote and version < _PRE_VOTE_FROM:
        raise UnsupportedVersionError(f"Vote {version} has no pre-vote")
    voter = request.voter or ReplicaKey(-1)
    partition = vote.VoteRequestPartitionData(
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=request.end.epoch,
        last_offset=request.end.offset,
        pre_vote=request.pre_vote,
    )
    topic = vote.VoteRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return vote.VoteRequest(cluster_id=request.cluster_id, voter_id=voter.id, topics=[topic])


def _begin_request(request: messages.BeginQuorumEpochRequest) -> Message:
    voter = request.voter or ReplicaKey(-1)
    partition = begin_quorum_epoch.BeginQuorumEpochRequestPartitionData(
        voter_directory_id=voter.directory_id,
        leader_id=request.leader.leader_id,
        leader_epoch=request.leader.epoch,
    )
    topic = begin_quorum_epoch.BeginQuorumEpochRequestTopicData(
        topic_name=METADATA_TOPIC, partitions=[partition]
    )
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=request.cluster_id,
        voter_id=voter.id,
        topics=[topic],
        leader_endpoints=_listed(begin_quorum_epoch.LeaderEndpoint, request.leader.endpoints),
    )


def _end_request(request: messages.EndQuorumEpochRequest) -> Message:
    partition = end_quorum_epoch.EndQuorumEpochRequestPartitionData(
        leader_id=request.leader.leader_id,
        leader_epoch=request.leader.epoch,
        preferred_successors=[key.id for key in request.preferred_candidates],
        preferred_candidates=[
            end_quorum_epoch.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
            for key in request.preferred_candidates
        ],
    )
    topic = end_quorum_epoch.EndQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=request.cluster_id,
        topics=[topic],
        leader_endpoints=_listed(end_quorum_epoch.LeaderEndpoint, request.leader.endpoints),
    )


def _fetch_request(request: messages.FetchRequest, version: int) -> Message:
    partition = fetch.FetchPartition(
        current_leader_epoch=request.leader_epoch,
        fetch_offset=request.end.offset,
        last_fetched_epoch=request.end.epoch,
        partition_max_bytes=request.max_bytes,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    topic = fetch.FetchTopic(topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition])
    body = fetch.FetchRequest(
        cluster_id=request.cluster_id,
        max_wait_ms=request.max_wait_ms,
        max_bytes=request.max_bytes,
        topics=[topic],
    )
    if version >= _REPLICA_STATE_FROM:
        body.replica_state = fetch.ReplicaState(replica_id=request.replica.id)
    else:
        body.replica_id = request.replica.id
    return body


def _fetch_snapshot_request(request: messages.FetchSnapshotRequest) -> Message:
    partition = fetch_snapshot.FetchSnapshotRequestPartitionSnapshot(
        current_leader_epoch=request.leader_epoch,
        snapshot_id=fetch_snapshot.SnapshotId(
            end_offset=request.snapshot_id.offset, epoch=request.snapshot_id.epoch
        ),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    topic = fetch_snapshot.FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=request.cluster_id,
        replica_id=request.replica.id,
        max_bytes=request.max_bytes,
        topics=[topic],
    )


def _other_request(request: Request, version: int) -> Message:
    match request:
        case messages.AddVoterRequest():
            body = add_raft_voter.AddRaftVoterRequest(
                cluster_id=request.cluster_id,
                timeout_ms=request.timeout_ms,
                voter_id=request.voter.id,
                voter_directory_id=request.voter.directory_id,
                listeners=_listed(add_raft_voter.Listener, request.endpoints),
            )
            if version >= 1:
                body.ack_when_committed = request.ack_when_committed
            return body
        case messages.RemoveVoterRequest():
            return remove_raft_voter.RemoveRaftVoterRequest(
                cluster_id=request.cluster_id,
                voter_id=request.voter.id,
                voter_directory_id=request.voter.directory_id,
            )
        case messages.UpdateVoterRequest():
            return update_raft_voter.UpdateRaftVoterRequest(
                cluster_id=request.cluster_id,
                current_leader_epoch=request.leader_epoch,
                voter_id=request.voter.id,
                voter_directory_id=request.voter.directory_id,
                listeners=_listed(update_raft_voter.Listener, request.endpoints),
                kraft_version_feature=update_raft_voter.KRaftVersionFeature(
                    min_supported_version=request.versions.lowest,
                    max_supported_version=request.versions.highest,
                ),
            )
        case messages.ApiVersionsRequest():
            return api_versions.ApiVersionsRequest()
        case _:
            assert isinstance(request, messages.DescribeQuorumRequest), request
            partition = describe_quorum.DescribeQuorumRequestPartitionData()
            topic = describe_quorum.DescribeQuorumRequestTopicData(
                topic_name=METADATA_TOPIC, partitions=[partition]
            )
            return describe_quorum.DescribeQuorumRequest(topics=[topic])


def parse_request(body: Message, version: int) -> Request | None:
    """Returns the message in a request's body; None when it is about another partition."""
    found = _PARSERS[type(body)](body, version)
    assert found is None or isinstance(found, Request), found
    return found


def _parse_vote_request(body: vote.VoteRequest, version: int) -> Request | None:
    partition = _metadata_partition(body.topics, "topic_name")
    if partition is None:
        return None
    voter = None if body.voter_id < 0 else ReplicaKey(body.voter_id, partition.voter_directory_id)
    return messages.VoteRequest(
        cluster_id=body.cluster_id,
        voter=voter,
        candidate=ReplicaKey(partition.replica_id, partition.replica_directory_id),
        epoch=partition.replica_epoch,
        end=OffsetAndEpoch(partition.last_offset, partition.last_offset_epoch),
        pre_vote=partition.pre_vote,
    )


def _parse_begin_request(body: begin_quorum_epoch.BeginQuorumEpochRequest, version: int) -> Request | None:
    partition = _metadata_partition(body.topics, "topic_name")
    if partition is None:
        return None
    voter = None if body.voter_id < 0 else ReplicaKey(body.voter_id, partition.voter_directory_id)
    leader = LeaderAndEpoch(partition.leader_id, partition.leader_epoch, _endpoints(body.leader_endpoints))
    return messages.BeginQuorumEpochRequest(body.cluster_id, voter, leader)


def _parse_end_request(body: end_quorum_epoch.EndQuorumEpochRequest, version: int) -> Request | None:
    partition = _metadata_partition(body.topics, "topic_name")
    if partition is None:
        return None
    leader = LeaderAndEpoch(partition.leader_id, partition.leader_epoch, _endpoints(body.leader_endpoints))
    if version == 0:
        candidates = tuple(ReplicaKey(id) for id in partition.preferred_successors)
    else:
        candidates = tuple(
            ReplicaKey(each.candidate_id, each.candidate_directory_id)
            for each in partition.preferred_candidates
        )
    return messages.EndQuorumEpochRequest(body.cluster_id, leader, candidates)


def _parse_fetch_request(body: fetch.FetchRequest, version: int) -> Request | None:
    if version >= _TOPIC_IDS_FROM:
        partition = _metadata_partition(body.topics, "topic_id", METADATA_TOPIC_ID)
    else:
        partition = _metadata_partition(body.topics, "topic")
    if partition is None:
        return None
    id = body.replica_state.replica_id if version >= _REPLICA_STATE_FROM else body.replica_id
    return messages.FetchRequest(
        cluster_id=body.cluster_id,
        replica=ReplicaKey(id, partition.replica_directory_id),
        leader_epoch=partition.current_leader_epoch,
        end=OffsetAndEpoch(partition.fetch_offset, partition.last_fetched_epoch),
        high_watermark=partition.high_watermark,
        max_wait_ms=body.max_wait_ms,
        max_bytes=body.max_bytes,
    )


def _parse_fetch_snapshot_request(body: fetch_snapshot.FetchSnapshotRequest, version: int) -> Request | None:
    partition = _metadata_partition(body.topics, "name", index="partition")
    if partition is None:
        return None
    return messages.FetchSnapshotRequest(
        cluster_id=body.cluster_id,
        replica=ReplicaKey(body.replica_id, partition.replica_directory_id),
        leader_epoch=partition.current_leader_epoch,
        snapshot_id=OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
        max_bytes=body.max_bytes,
    )


def _parse_add_request(body: add_raft_voter.AddRaftVoterRequest, version: int) -> Request:
    key = ReplicaKey(body.voter_id, body.voter_directory_id)
    return messages.AddVoterRequest(
        *(body.cluster_id, key, _endpoints(body.listeners), body.timeout_ms, body.ack_when_committed)
    )


def _parse_remove_request(body: remove_raft_voter.RemoveRaftVoterRequest, version: int) -> Request:
    return messages.RemoveVoterRequest(body.cluster_id, ReplicaKey(body.voter_id, body.voter_directory_id))


def _parse_update_request(body: update_raft_voter.UpdateRaftVoterRequest, version: int) -> Request:
    feature = body.kraft_version_feature
    return messages.UpdateVoterRequest(
        cluster_id=body.cluster_id,
        leader_epoch=body.current_leader_epoch,
        voter=ReplicaKey(body.voter_id, body.voter_directory_id),
        endpoints=_endpoints(body.listeners),
        versions=VersionRange(feature.min_supported_version, feature.max_supported_version),
    )


def _parse_api_versions_request(body: api_versions.ApiVersionsRequest, version: int) -> Request:
    return messages.ApiVersionsRequest()


def _parse_describe_request(body: describe_quorum.DescribeQuorumRequest, version: int) -> Request | None:
    partition = _metadata_partition(body.topics, "topic_name")
    return None if partition is None else messages.DescribeQuorumRequest()


# ---------------------------------------------------------------- responses


def response_body(
    request: type[Message], response: Response, version: int, listener: str, wall_clock_ms: int = 0
) -> Message:
    """Returns the body of a response to a request of this class.

    `listener` is the one that the request came through: the response says where the leader has that. Steady
    times become wall-clock times when `wall_clock_ms`, the difference between the two, is added.
    """
    match response:
        case messages.ErrorResponse():
            body: Message = response_class(request)(error_code=response.error.code)
        case messages.FetchResponse():
            body = _fetch_response(response, version, listener)
        case messages.FetchSnapshotResponse():
            body = _fetch_snapshot_response(response, version, listener)
        case messages.VoteResponse():
            body = _vote_response(response, version, listener)
        case messages.BeginQuorumEpochResponse():
            body = _announcement_response(begin_quorum_epoch, "Begin", response, version, listener)
        case messages.EndQuorumEpochResponse():
            body = _announcement_response(end_quorum_epoch, "End", response, version, listener)
        case messages.DescribeQuorumResponse():
            body = _describe_response(response, version, wall_clock_ms)
        case _:
            body = _other_response(response, listener)
    return body


def _vote_response(response: messages.VoteResponse, version: int, listener: str) -> Message:
    partition = vote.VoteResponsePartitionData(
        error_code=response.error.code,
        leader_id=response.leader.leader_id,
        leader_epoch=response.leader.epoch,
        vote_granted=response.vote_granted,
    )
    body = vote.VoteResponse(
        topics=[vote.VoteResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
    )
    if version >= 1:
        body.node_endpoints = _node_endpoints(vote.NodeEndpoint, response.leader, listener)
    return body


def _announcement_response(
    module: Any,
    name: str,
    response: messages.BeginQuorumEpochResponse | messages.EndQuorumEpochResponse,
    version: int,
    listener: str,
) -> Message:
    """Returns the body for BeginQuorumEpoch or EndQuorumEpoch, which differ only in their names."""
    name += "QuorumEpochResponse"
    partition = getattr(module, f"{name}PartitionData")(
        error_code=response.error.code,
        leader_id=response.leader.leader_id,
        leader_epoch=response.leader.epoch,
    )
    topic = getattr(module, f"{name}TopicData")(topic_name=METADATA_TOPIC, partitions=[partition])
    body: Any = getattr(module, name)(topics=[topic])
    if version >= 1:
        body.node_endpoints = _node_endpoints(module.NodeEndpoint, response.leader, listener)
    found: Message = body
    return found


def _fetch_response(response: messages.FetchResponse, version: int, listener: str) -> Message:
    partition = fetch.PartitionData(
        error_code=response.error.code,
        high_watermark=response.high_watermark,
        log_start_offset=response.log_start_offset,
        current_leader=fetch.LeaderIdAndEpoch(
            leader_id=response.leader.leader_id, leader_epoch=response.leader.epoch
        ),
        records=response.records,
    )
    if response.diverging is not None:
        offset, epoch = response.diverging
        partition.diverging_epoch = fetch.EpochEndOffset(epoch=epoch, end_offset=offset)
    if response.snapshot_id is not None:
        offset, epoch = response.snapshot_id
        partition.snapshot_id = fetch.SnapshotId(end_offset=offset, epoch=epoch)
    topic = fetch.FetchableTopicResponse(
        topic=METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
    )
    body = fetch.FetchResponse(responses=[topic])
    if version >= _NODE_ENDPOINTS_FROM:
        body.node_endpoints = _node_endpoints(fetch.NodeEndpoint, response.leader, listener)
    return body


def _fetch_snapshot_response(
    response: messages.FetchSnapshotResponse, version: int, listener: str
) -> Message:
    offset, epoch = response.snapshot_id or (-1, -1)
    partition = fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
        error_code=response.error.code,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=offset, epoch=epoch),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(
            leader_id=response.leader.leader_id, leader_epoch=response.leader.epoch
        ),
        size=response.size_bytes,
        position=response.position,
        unaligned_records=response.data,
    )
    topic = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(name=METADATA_TOPIC, partitions=[partition])
    body = fetch_snapshot.FetchSnapshotResponse(topics=[topic])
    if version >= 1:
        body.node_endpoints = _node_endpoints(fetch_snapshot.NodeEndpoint, response.leader, listener)
    return body


def _other_response(response: Response, listener: str) -> Message:
    match response:
        case messages.AddVoterResponse():
            return add_raft_voter.AddRaftVoterResponse(
                error_code=response.error.code, error_message=response.message
            )
        case messages.RemoveVoterResponse():
            return remove_raft_voter.RemoveRaftVoterResponse(
                error_code=response.error.code, error_message=response.message
            )
        case messages.UpdateVoterResponse():
            leader = response.leader
            point = next((each for each in leader.endpoints if each.name == listener), None)
            return update_raft_voter.UpdateRaftVoterResponse(
                error_code=response.error.code,
                current_leader=update_raft_voter.CurrentLeader(
                    leader_id=leader.leader_id,
                    leader_epoch=leader.epoch,
                    host="" if point is None else point.host,
                    port=0 if point is None else point.port,
                ),
            )
        case _:
            assert isinstance(response, messages.ApiVersionsResponse), response
            lowest, highest = response.versions or (0, 0)
            return api_versions.ApiVersionsResponse(
                error_code=response.error.code,
                supported_features=[
                    api_versions.SupportedFeatureKey(
                        name=KRAFT_VERSION, min_version=lowest, max_version=highest
                    )
                ],
            )


def _describe_response(
    response: messages.DescribeQuorumResponse, version: int, wall_clock_ms: int
) -> Message:
    def states(replicas: tuple[ReplicaProgress, ...]) -> list[describe_quorum.ReplicaState]:
        return [
            describe_quorum.ReplicaState(
                replica_id=each.key.id,
                replica_directory_id=each.key.directory_id if version >= 2 else NO_DIRECTORY,
                log_end_offset=each.end_offset,
                last_fetch_timestamp=_wall_clock(each.last_fetch_ms, wall_clock_ms),
                last_caught_up_timestamp=_wall_clock(each.last_caught_up_ms, wall_clock_ms),
            )
            for each in replicas
        ]

    partition = describe_quorum.DescribeQuorumResponsePartitionData(
        error_code=response.error.code,
        error_message=response.error.message if response.error else None,
        leader_id=response.leader.leader_id,
        leader_epoch=response.leader.epoch,
        high_watermark=response.high_watermark,
        current_voters=states(response.voters),
        observers=states(response.observers),
    )
    topic = describe_quorum.DescribeQuorumResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    nodes = [
        describe_quorum.Node(node_id=each.key.id, listeners=_listed(describe_quorum.Listener, each.endpoints))
        for each in response.voters
    ]
    return describe_quorum.DescribeQuorumResponse(
        error_message=None, topics=[topic], nodes=nodes if version >= 2 else []
    )


def _wall_clock(steady_ms: int, wall_clock_ms: int) -> int:
    return -1 if steady_ms < 0 else steady_ms + wall_clock_ms


def parse_response(body: Message, listener: str) -> Response | None:
    """Returns the message in a response's body; None when it is about another partition."""
    found = _RESPONSE_PARSERS[type(body)](body, listener)
    assert found is None or isinstance(found, Response), found
    return found


def _parse_vote_response(body: vote.VoteResponse, listener: str) -> Response | None:
    if body.error_code:
        return messages.ErrorResponse(Errors.of(body.error_code))
    partition = _metadata_partition(body.topics, "topic_name")
    if partition is None:
        return None
    leader = _leader(partition, body.node_endpoints, listener)
    return messages.VoteResponse(leader, Errors.of(partition.error_code), partition.vote_granted)


def _parse_begin_response(
    body: begin_quorum_epoch.BeginQuorumEpochResponse, listener: str
) -> Response | None:
    if body.error_code:
        return messages.ErrorResponse(Errors.of(body.error_code))
    partition = _metadata_partition(body.topics, "topic_name")
    if partition is None:
        return None
    leader = _leader(partition, body.node_endpoints, listener)
    return messages.BeginQuorumEpochResponse(leader, Errors.of(partition.error_code))


def _parse_end_response(body: end_quorum_epoch.EndQuorumEpochResponse, listener: str) -> Response | None:
    if body.error_code:
        return messages.ErrorResponse(Errors.of(body.error_code))
    partition = _metadata_partition(body.topics, "topic_name")
    if partition is None:
        return None
    leader = _leader(partition, body.node_endpoints, listener)
    return messages.EndQuorumEpochResponse(leader, Errors.of(partition.error_code))


def _parse_fetch_response(body: fetch.FetchResponse, listener: str) -> Response | None:
    if body.error_code:
        return messages.ErrorResponse(Errors.of(body.error_code))
    # The request was for this topic alone; depending on the version, it has a name or an id.
    found = [(topic, each) for topic in body.responses for each in topic.partitions]
    if len(found) != 1 or (found[0][0].topic, found[0][0].topic_id) not in _FETCHED_TOPICS:
        return None
    partition = found[0][1]
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    return messages.FetchResponse(
        leader=_leader(partition.current_leader, body.node_endpoints, listener),
        error=Errors.of(partition.error_code),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging=None if diverging.epoch < 0 else OffsetAndEpoch(diverging.end_offset, diverging.epoch),
        snapshot_id=_snapshot_id(snapshot.end_offset, snapshot.epoch),
        records=partition.records or b"",
    )


def _parse_fetch_snapshot_response(
    body: fetch_snapshot.FetchSnapshotResponse, listener: str
) -> Response | None:
    if body.error_code:
        return messages.ErrorResponse(Errors.of(body.error_code))
    partition = _metadata_partition(body.topics, "name", index="index")
    if partition is None:
        return None
    return messages.FetchSnapshotResponse(
        leader=_leader(partition.current_leader, body.node_endpoints, listener),
        error=Errors.of(partition.error_code),
        snapshot_id=_snapshot_id(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        size_bytes=partition.size,
        position=partition.position,
        data=partition.unaligned_records,
    )


def _parse_add_response(body: add_raft_voter.AddRaftVoterResponse, listener: str) -> Response:
    return messages.AddVoterResponse(Errors.of(body.error_code), body.error_message)


def _parse_remove_response(body: remove_raft_voter.RemoveRaftVoterResponse, listener: str) -> Response:
    return messages.RemoveVoterResponse(Errors.of(body.error_code), body.error_message)


def _parse_update_response(body: update_raft_voter.UpdateRaftVoterResponse, listener: str) -> Response:
    leader = body.current_leader
    endpoints = (Endpoint(listener, leader.host, leader.port),) if leader.host else ()
    known = LeaderAndEpoch(leader.leader_id, leader.leader_epoch, endpoints)
    return messages.UpdateVoterResponse(known, Errors.of(body.error_code))


def _parse_api_versions_response(body: api_versions.ApiVersionsResponse, listener: str) -> Response:
    versions = [
        VersionRange(each.min_version, each.max_version)
        for each in body.supported_features
        if each.name == KRAFT_VERSION
    ]
    return messages.ApiVersionsResponse(Errors.of(body.error_code), versions[0] if versions else None)


def _parse_describe_response(body: describe_quorum.DescribeQuorumResponse, listener: str) -> Response | None:
    if body.error_code:
        return messages.ErrorResponse(Errors.of(body.error_code))
    partition = _metadata_partition(body.topics, "topic_name")
    if partition is None:
        return None
    endpoints = {node.node_id: _endpoints(node.listeners) for node in body.nodes}

    def progress(states: list[describe_quorum.ReplicaState]) -> tuple[ReplicaProgress, ...]:
        return tuple(
            ReplicaProgress(
                ReplicaKey(each.replica_id, each.replica_directory_id),
                *(each.log_end_offset, each.last_fetch_timestamp, each.last_caught_up_timestamp),
                endpoints.get(each.replica_id, ()),
            )
            for each in states
        )

    return messages.DescribeQuorumResponse(
        LeaderAndEpoch(partition.leader_id, partition.leader_epoch),
        Errors.of(partition.error_code),
        partition.high_watermark,
        progress(partition.current_voters),
        progress(partition.observers),
    )


# ---------------------------------------------------------------- parts

_FETCHED_TOPICS: Final = ((METADATA_TOPIC, NO_DIRECTORY), ("", METADATA_TOPIC_ID))


def _metadata_partition(
    topics: Any, field: str, topic: str | bytes = METADATA_TOPIC, index: str = "partition_index"
) -> Any:
    """Returns the only partition in a body, if it is the metadata log."""
    if len(topics) != 1 or getattr(topics[0], field) != topic or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    number = partition.partition if field in ("topic", "topic_id") else getattr(partition, index)
    return partition if number == 0 else None


def _listed(cls: Any, endpoints: Endpoints) -> list[Any]:
    return [cls(name=each.name, host=each.host, port=each.port) for each in endpoints]


def _endpoints(listed: Any) -> Endpoints:
    return tuple(Endpoint(each.name, each.host, each.port) for each in listed)


def _node_endpoints(cls: Any, leader: LeaderAndEpoch, listener: str) -> list[Any]:
    return [
        cls(node_id=leader.leader_id, host=each.host, port=each.port)
        for each in leader.endpoints
        if each.name == listener
    ]


def _leader(said: Any, node_endpoints: Any, listener: str) -> LeaderAndEpoch:
    """Returns who leads, as a structure with `leader_id` and `leader_epoch` and a list of nodes say."""
    endpoints = tuple(
        Endpoint(listener, each.host, each.port) for each in node_endpoints if each.node_id == said.leader_id
    )
    return LeaderAndEpoch(said.leader_id, said.leader_epoch, endpoints)


def _snapshot_id(end_offset: int, epoch: int) -> OffsetAndEpoch | None:
    return None if end_offset < 0 or epoch < 0 else OffsetAndEpoch(end_offset, epoch)


_CLASSES: Final[dict[type, type[Message]]] = {
    messages.VoteRequest: vote.VoteRequest,
    messages.BeginQuorumEpochRequest: begin_quorum_epoch.BeginQuorumEpochRequest,
    messages.EndQuorumEpochRequest: end_quorum_epoch.EndQuorumEpochRequest,
    messages.FetchRequest: fetch.FetchRequest,
    messages.FetchSnapshotRequest: fetch_snapshot.FetchSnapshotRequest,
    messages.AddVoterRequest: add_raft_voter.AddRaftVoterRequest,
    messages.RemoveVoterRequest: remove_raft_voter.RemoveRaftVoterRequest,
    messages.UpdateVoterRequest: update_raft_voter.UpdateRaftVoterRequest,
    messages.ApiVersionsRequest: api_versions.ApiVersionsRequest,
    messages.DescribeQuorumRequest: describe_quorum.DescribeQuorumRequest,
}
_RESPONSES: Final[dict[type, type[Message]]] = {
    vote.VoteRequest: vote.VoteResponse,
    begin_quorum_epoch.BeginQuorumEpochRequest: begin_quorum_epoch.BeginQuorumEpochResponse,
    end_quorum_epoch.EndQuorumEpochRequest: end_quorum_epoch.EndQuorumEpochResponse,
    fetch.FetchRequest: fetch.FetchResponse,
    fetch_snapshot.FetchSnapshotRequest: fetch_snapshot.FetchSnapshotResponse,
    add_raft_voter.AddRaftVoterRequest: add_raft_voter.AddRaftVoterResponse,
    remove_raft_voter.RemoveRaftVoterRequest: remove_raft_voter.RemoveRaftVoterResponse,
    update_raft_voter.UpdateRaftVoterRequest: update_raft_voter.UpdateRaftVoterResponse,
    api_versions.ApiVersionsRequest: api_versions.ApiVersionsResponse,
    describe_quorum.DescribeQuorumRequest: describe_quorum.DescribeQuorumResponse,
}
_PARSERS: Final[dict[type, Any]] = {
    vote.VoteRequest: _parse_vote_request,
    begin_quorum_epoch.BeginQuorumEpochRequest: _parse_begin_request,
    end_quorum_epoch.EndQuorumEpochRequest: _parse_end_request,
    fetch.FetchRequest: _parse_fetch_request,
    fetch_snapshot.FetchSnapshotRequest: _parse_fetch_snapshot_request,
    add_raft_voter.AddRaftVoterRequest: _parse_add_request,
    remove_raft_voter.RemoveRaftVoterRequest: _parse_remove_request,
    update_raft_voter.UpdateRaftVoterRequest: _parse_update_request,
    api_versions.ApiVersionsRequest: _parse_api_versions_request,
    describe_quorum.DescribeQuorumRequest: _parse_describe_request,
}
_RESPONSE_PARSERS: Final[dict[type, Any]] = {
    vote.VoteResponse: _parse_vote_response,
    begin_quorum_epoch.BeginQuorumEpochResponse: _parse_begin_response,
    end_quorum_epoch.EndQuorumEpochResponse: _parse_end_response,
    fetch.FetchResponse: _parse_fetch_response,
    fetch_snapshot.FetchSnapshotResponse: _parse_fetch_snapshot_response,
    add_raft_voter.AddRaftVoterResponse: _parse_add_response,
    remove_raft_voter.RemoveRaftVoterResponse: _parse_remove_response,
    update_raft_voter.UpdateRaftVoterResponse: _parse_update_response,
    api_versions.ApiVersionsResponse: _parse_api_versions_response,
    describe_quorum.DescribeQuorumResponse: _parse_describe_response,
}
