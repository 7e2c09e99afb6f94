"""Answers whole requests with an error where the response has an error for each topic or resource only."""

from collections.abc import Callable
from typing import Any, Final

from bowstring.engine.errors import KafkaError
from bowstring.engine.protocol.messages.alter_configs import (
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from bowstring.engine.protocol.messages.create_partitions import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from bowstring.engine.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from bowstring.engine.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from bowstring.engine.protocol.messages.elect_leaders import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from bowstring.engine.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from bowstring.engine.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse
from bowstring.engine.protocol.schema import Response
from bowstring.engine.requests.answers import error_response


def refusal(key: int, version: int, body: Any, error: KafkaError) -> Response | None:
    """Returns the answer to a request that failed as a whole: the error for each topic or resource that it
    names, as Kafka's getErrorResponse. None if there is no such answer.
    """
    by_result = _BY_RESULT.get(key)
    if by_result is None:
        return error_response(key, version, error)
    answer = by_result(body, _error_of(error))
    if isinstance(answer, ElectLeadersResponse) and version == 0:
        answer.error_code = 0  # this version has only errors of partitions
    return answer


def _error_of(error: KafkaError) -> dict[str, Any]:
    return {"error_code": error.code, "error_message": error.detail or error.error.message}


def _topics_refused(body: Any, error: dict[str, Any]) -> Response:
    return CreateTopicsResponse(
        topics=[CreatableTopicResult(name=each.name, **error) for each in body.topics]
    )


def _deletions_refused(body: Any, error: dict[str, Any]) -> Response:
    named = [DeletableTopicResult(name=name, **error) for name in body.topic_names]
    by_both = [DeletableTopicResult(name=each.name, topic_id=each.topic_id, **error) for each in body.topics]
    return DeleteTopicsResponse(responses=named + by_both)


def _partitions_refused(body: Any, error: dict[str, Any]) -> Response:
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(name=each.name, **error) for each in body.topics]
    )


def _configs_refused(
    response: Callable[..., Response], result: Callable[..., Any]
) -> Callable[[Any, dict[str, Any]], Response]:
    def refused(body: Any, error: dict[str, Any]) -> Response:
        return response(
            responses=[
                result(resource_type=each.resource_type, resource_name=each.resource_name, **error)
                for each in body.resources
            ]
        )

    return refused


def _elections_refused(body: Any, error: dict[str, Any]) -> Response:
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[PartitionResult(partition_id=number, **error) for number in topic.partitions],
        )
        for topic in body.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=error["error_code"], replica_election_results=results)


_BY_RESULT: Final[dict[int, Callable[[Any, dict[str, Any]], Response]]] = {
    19: _topics_refused,
    20: _deletions_refused,
    33: _configs_refused(AlterConfigsResponse, AlterConfigsResourceResponse),
    37: _partitions_refused,
    43: _elections_refused,
    44: _configs_refused(IncrementalAlterConfigsResponse, IncrementalResourceResponse),
}
