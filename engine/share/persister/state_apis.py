"""Lists the APIs of share coordinators: their messages have the same shape."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from bowstring.protocol.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from bowstring.protocol.schema import Request, Response


@dataclass(frozen=True, slots=True)
class StateApi:
    """An API for the state of share partitions of one group.

    Attributes:
        request: Has `group_id` and `topics`.
        topic: An element of `topics`, with `topic_id` and `partitions`.
        response: Has `results`.
        topic_result: An element of `results`, with `topic_id` and `partitions`.
        result: A partition of it.
    """

    versions: tuple[int, int]
    request: type[Request]
    topic: Any
    response: Any
    topic_result: Any
    result: Any

    @property
    def key(self) -> int:
        """The API key."""
        return self.request.api_key

    def ask(self, group_id: str, partitions: Iterable[tuple[bytes, Any]]) -> Request:
        """Returns the request for partitions, each with the id of its topic."""
        by_topic: dict[bytes, list[Any]] = defaultdict(list)
        for topic_id, each in partitions:
            by_topic[topic_id].append(each)
        topics = [self.topic(topic_id=topic_id, partitions=each) for topic_id, each in by_topic.items()]
        make: Any = self.request
        asked: Request = make(group_id=group_id, topics=topics)
        return asked

    def answer(self, results: Iterable[tuple[bytes, Any]]) -> Response:
        """Returns the response for results, each with the id of its topic."""
        by_topic: dict[bytes, list[Any]] = defaultdict(list)
        for topic_id, each in results:
            by_topic[topic_id].append(each)
        found: Response = self.response(
            results=[self.topic_result(topic_id=topic, partitions=each) for topic, each in by_topic.items()]
        )
        return found


INITIALIZE: Final = StateApi(
    (0, 0),
    initialize_share_group_state.InitializeShareGroupStateRequest,
    initialize_share_group_state.InitializeStateData,
    initialize_share_group_state.InitializeShareGroupStateResponse,
    initialize_share_group_state.InitializeStateResult,
    initialize_share_group_state.PartitionResult,
)
READ: Final = StateApi(
    (0, 0),
    read_share_group_state.ReadShareGroupStateRequest,
    read_share_group_state.ReadStateData,
    read_share_group_state.ReadShareGroupStateResponse,
    read_share_group_state.ReadStateResult,
    read_share_group_state.PartitionResult,
)
WRITE: Final = StateApi(
    (0, 1),
    write_share_group_state.WriteShareGroupStateRequest,
    write_share_group_state.WriteStateData,
    write_share_group_state.WriteShareGroupStateResponse,
    write_share_group_state.WriteStateResult,
    write_share_group_state.PartitionResult,
)
DELETE: Final = StateApi(
    (0, 0),
    delete_share_group_state.DeleteShareGroupStateRequest,
    delete_share_group_state.DeleteStateData,
    delete_share_group_state.DeleteShareGroupStateResponse,
    delete_share_group_state.DeleteStateResult,
    delete_share_group_state.PartitionResult,
)
SUMMARY: Final = StateApi(
    (0, 1),
    read_share_group_state_summary.ReadShareGroupStateSummaryRequest,
    read_share_group_state_summary.ReadStateSummaryData,
    read_share_group_state_summary.ReadShareGroupStateSummaryResponse,
    read_share_group_state_summary.ReadStateSummaryResult,
    read_share_group_state_summary.PartitionResult,
)
STATE_APIS: Final = {each.key: each for each in (INITIALIZE, READ, WRITE, DELETE, SUMMARY)}
"""By API key."""
