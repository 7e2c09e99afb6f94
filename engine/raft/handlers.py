"""Finds the handler of a message. Imported with the first one: a quorum of one exchanges none."""

from collections.abc import Callable
from typing import Any, Final

from bowstring.engine.raft import describe, elections, fetching, snapshot_fetching, voter_changes
from bowstring.engine.raft.core import RaftCore
from bowstring.engine.raft.messages import (
    AddVoterRequest,
    AddVoterResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ErrorResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    RemoveVoterResponse,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from bowstring.protocol.errors import Errors


def _answer_api_versions(core: RaftCore, token: object, request: object, now_ms: int) -> None:
    core.respond(token, ApiVersionsResponse(Errors.NONE, core.local.versions))


def _handle_error(core: RaftCore, source: int, response: ErrorResponse, now_ms: int) -> bool:
    if response.error is Errors.UNSUPPORTED_VERSION:
        elections.handle_no_pre_vote(core, now_ms)
    elif response.error is Errors.BROKER_NOT_AVAILABLE:
        elections.handle_no_answer(core, source, now_ms, refused=response.refused)
    voter_changes.handle_no_answer(core, source, response.error)
    return False


REQUESTS: Final[dict[type, Callable[[RaftCore, object, Any, int], None]]] = {
    VoteRequest: elections.handle_vote_request,
    BeginQuorumEpochRequest: elections.handle_begin_quorum_epoch_request,
    EndQuorumEpochRequest: elections.handle_end_quorum_epoch_request,
    FetchRequest: fetching.handle_fetch_request,
    FetchSnapshotRequest: snapshot_fetching.handle_fetch_snapshot_request,
    AddVoterRequest: voter_changes.handle_add_voter_request,
    RemoveVoterRequest: voter_changes.handle_remove_voter_request,
    UpdateVoterRequest: voter_changes.handle_update_voter_request,
    ApiVersionsRequest: _answer_api_versions,
    DescribeQuorumRequest: describe.handle_describe_quorum_request,
}
RESPONSES: Final[dict[type, Callable[[RaftCore, int, Any, int], bool]]] = {
    VoteResponse: elections.handle_vote_response,
    BeginQuorumEpochResponse: elections.handle_begin_quorum_epoch_response,
    EndQuorumEpochResponse: elections.handle_end_quorum_epoch_response,
    FetchResponse: fetching.handle_fetch_response,
    FetchSnapshotResponse: snapshot_fetching.handle_fetch_snapshot_response,
    UpdateVoterResponse: voter_changes.handle_update_voter_response,
    AddVoterResponse: voter_changes.handle_change_response,
    RemoveVoterResponse: voter_changes.handle_change_response,
    ApiVersionsResponse: voter_changes.handle_api_versions_response,
    ErrorResponse: _handle_error,
}
