"""Calls while a broker hangs (its connections stay open, and it answers nothing) or lags behind."""

import pytest

from bowstring.clients.admin.admin import Admin
from bowstring.clients.admin.results import NewTopic
from bowstring.clients.errors import BrokerError, NoBrokerError, UnknownTopicError, UnsupportedApiError
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from bowstring.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from bowstring.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from bowstring.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from bowstring.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from bowstring.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from bowstring.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.fake_broker import CLOSE, SILENCE, FakeBroker
from tests.support.waiting import FOR_EVER_MS


def silent(version, request):
    return SILENCE


def created(version, request):
    results = [CreatableTopicResult(name=each.name, topic_id=b"i" * 16) for each in request.topics]
    return CreateTopicsResponse(topics=results)


def deleted(version, request):
    results = [DeletableTopicResult(name=each.name) for each in request.topics]
    return DeleteTopicsResponse(responses=results)


def grown(version, request):
    results = [CreatePartitionsTopicResult(name=each.name) for each in request.topics]
    return CreatePartitionsResponse(results=results)


def altered(version, request):
    results = [
        AlterConfigsResourceResponse(resource_type=each.resource_type, resource_name=each.resource_name)
        for each in request.resources
    ]
    return IncrementalAlterConfigsResponse(responses=results)


def described(version, request):
    return DescribeClusterResponse(cluster_id="fake")


@pytest.fixture
def brokers():
    """One that hangs, and one that answers."""
    with FakeBroker() as hung, FakeBroker() as well:
        for cls in (MetadataRequest, CreateTopicsRequest, DescribeClusterRequest):
            hung.handlers[cls] = silent
        well.handlers[CreateTopicsRequest] = created
        well.handlers[DescribeClusterRequest] = described
        yield hung, well


def test_a_question_goes_to_another_broker_too(brokers):
    hung, well = brokers
    while not hung.seen(DescribeClusterRequest):  # the order of the brokers is random
        with Admin([hung.bootstrap, well.bootstrap], timeout_ms=FOR_EVER_MS) as admin:
            assert admin.describe_cluster().cluster_id == "fake"


def test_what_changes_something_is_sent_once_and_not_to_a_broker_that_hangs(brokers):
    hung, well = brokers
    calls = 0
    while not hung.seen(MetadataRequest):
        with Admin([hung.bootstrap, well.bootstrap], timeout_ms=FOR_EVER_MS) as admin:
            assert admin.create_topic("new") == b"i" * 16
            calls += 1
    assert not hung.seen(CreateTopicsRequest)
    assert len(well.seen(CreateTopicsRequest)) == calls


def test_a_broker_that_ends_is_passed_over(brokers):
    hung, well = brokers
    hung.handlers[DescribeClusterRequest] = lambda version, request: CLOSE
    while not hung.seen(DescribeClusterRequest):
        with Admin([hung.bootstrap, well.bootstrap], timeout_ms=FOR_EVER_MS) as admin:
            assert admin.describe_cluster().cluster_id == "fake"


def test_without_any_answer_the_call_ends_in_time(brokers):
    hung, _ = brokers
    with Admin(hung.bootstrap, timeout_ms=50) as admin, pytest.raises(NoBrokerError):
        admin.describe_cluster()


def test_an_api_that_the_broker_lacks_is_named(brokers):
    _, well = brokers
    few = [ApiVersion(api_key=MetadataRequest.api_key, min_version=0, max_version=12)]
    few.append(ApiVersion(api_key=18, min_version=0, max_version=4))
    well.handlers[ApiVersionsRequest] = lambda version, request: ApiVersionsResponse(api_keys=few)
    with Admin(well.bootstrap) as admin, pytest.raises(UnsupportedApiError):
        admin.describe_cluster()


def test_a_topic_that_was_just_created_is_waited_for(brokers):
    _, well = brokers
    lags = {"new": 2, "other": 1}

    def metadata(version, request):
        answer = well.metadata(version, request)
        for topic in answer.topics:
            lags[topic.name] -= 1
            topic.error_code = Errors.UNKNOWN_TOPIC_OR_PARTITION.code if lags[topic.name] >= 0 else 0
        return answer

    well.handlers[MetadataRequest] = metadata
    with Admin(well.bootstrap, timeout_ms=FOR_EVER_MS) as admin:
        admin.create_topic("new")
        assert admin.describe_topic("new").partitions
        with pytest.raises(UnknownTopicError):
            admin.describe_topic("other")


def test_a_list_has_what_was_just_created_and_not_what_was_deleted(brokers):
    """Also if the answering brokers lag behind the one that made the change."""
    _, well = brokers
    answers = [[], [], ["new"], ["new"], ["new"], []]

    def metadata(version, request):
        there = answers.pop(0) if request.topics is None else []
        given = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in there])
        return well.metadata(version, given)

    well.handlers[MetadataRequest] = metadata
    well.handlers[DeleteTopicsRequest] = deleted
    with Admin(well.bootstrap, timeout_ms=FOR_EVER_MS) as admin:
        admin.topics()
        admin.create_topic("new")
        assert set(admin.topics()) == {"new"}
        admin.delete_topics(["new"])
        assert not admin.topics() and not answers


@pytest.mark.parametrize(
    ("api", "answer", "results", "ask"),
    [
        (CreateTopicsRequest, created, "topics", lambda admin: admin.create_topic("new")),
        (DeleteTopicsRequest, deleted, "responses", lambda admin: admin.delete_topics(["old"])),
        (CreatePartitionsRequest, grown, "results", lambda admin: admin.create_partitions({"old": 2})),
        (
            IncrementalAlterConfigsRequest,
            altered,
            "responses",
            lambda admin: admin.alter_configs("topic", "old", set={"retention.ms": "1"}),
        ),
    ],
)
def test_a_change_waits_for_a_controller(api, answer, results, ask):
    """As Java's Admin does; an answer without a controller names each topic."""

    def answered(version, request):
        response = answer(version, request)
        if len(broker.seen(api)) < 3:
            for each in getattr(response, results):
                each.error_code = Errors.NOT_CONTROLLER.code
        return response

    with FakeBroker() as broker:
        broker.handlers[api] = answered
        with Admin(broker.bootstrap, timeout_ms=FOR_EVER_MS) as admin:
            ask(admin)
        assert len(broker.seen(api)) == 3


def test_a_refusal_of_one_topic_is_final():
    def mixed(version, request):
        response = created(version, request)
        response.topics[0].error_code = Errors.NOT_CONTROLLER.code
        return response

    with FakeBroker() as broker:
        broker.handlers[CreateTopicsRequest] = mixed
        with Admin(broker.bootstrap, timeout_ms=FOR_EVER_MS) as admin, pytest.raises(BrokerError):
            admin.create_topics([NewTopic("a"), NewTopic("b")])
        assert len(broker.seen(CreateTopicsRequest)) == 1
