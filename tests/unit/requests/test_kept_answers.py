"""Answers that are kept until the image changes."""

from types import SimpleNamespace

from bowstring.engine.requests.kept_answers import KeptAnswers
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import metadata as md
from bowstring.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from bowstring.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from bowstring.protocol.messages.find_coordinator import FindCoordinatorRequest


def message(body=b"body", key=3, version=13, listener=0, correlation_id=7):
    return SimpleNamespace(
        api_key=key, api_version=version, listener=listener, body=body, correlation_id=correlation_id
    )


ANSWER = b"\0\0\0\7answer"
IMAGE = object()
NOW = (IMAGE, 10, 2, True, 5)
WHO = "User:alice"


def test_only_an_equal_request_in_the_same_state_gets_it():
    kept = KeptAnswers()
    assert kept.find(message(), NOW, WHO) is None
    kept.keep(message(), b"body", WHO, ANSWER, before=NOW, now=NOW)
    assert kept.find(message(correlation_id=-2), NOW, WHO) == b"\xff\xff\xff\xfeanswer"
    for other in (message(b"bodY"), message(key=10), message(version=12), message(listener=1)):
        assert kept.find(other, NOW, WHO) is None
    assert kept.find(message(), NOW, "User:bob") is None
    laters = [
        (IMAGE, 11, 2, True, 5),
        (IMAGE, 10, 3, True, 5),
        (IMAGE, 10, 2, False, 5),
        (IMAGE, 10, 2, True, 6),
    ]
    for later in [(object(), *NOW[1:]), *laters]:
        assert kept.find(message(), later, WHO) is None


def test_an_answer_of_a_state_that_has_passed_is_not_kept():
    kept = KeptAnswers()
    kept.keep(message(), b"body", WHO, ANSWER, before=(IMAGE, 9, 2, True, 5), now=NOW)
    assert len(kept) == 0
    kept.keep(message(), b"body", WHO, ANSWER, before=NOW, now=NOW)
    kept.keep(
        message(b"new"), b"new", WHO, ANSWER, before=(IMAGE, 11, 2, True, 5), now=(IMAGE, 11, 2, True, 5)
    )
    assert len(kept) == 1, "those of the former state are gone"
    assert kept.find(message(), NOW, WHO) is None


def test_memory_is_bounded():
    kept = KeptAnswers()
    kept.keep(message(), b"body", WHO, bytes(1 << 20), before=NOW, now=NOW)
    assert len(kept) == 0
    for number in range(200):
        body = number.to_bytes(2, "big")
        kept.keep(message(body), body, WHO, bytes(100 << 10), before=NOW, now=NOW)
        assert len(kept) * (100 << 10) <= 4 << 20
        assert kept.find(message(body), NOW, WHO)


def test_many_small_answers_count_with_what_holds_them():
    kept, most = KeptAnswers(), 0
    for number in range(20_000):
        body = number.to_bytes(3, "big")
        kept.keep(message(body), body, WHO, ANSWER, before=NOW, now=NOW)
        most = max(most, len(kept))
    assert 1_000 < most <= (4 << 20) // 256


def described(served, *names):
    topics = [md.MetadataRequestTopic(name=name) for name in names]
    answer = served.ask(md.MetadataRequest(topics=topics, allow_auto_topic_creation=False), 13)
    return {each.name: (Errors.of(each.error_code), len(each.partitions)) for each in answer.topics}


def test_changes_of_topics_are_seen(served):
    absent = (Errors.UNKNOWN_TOPIC_OR_PARTITION, 0)
    for _ in range(3):
        assert described(served, "a", "b") == {"a": absent, "b": absent}
    served.create_topic("a", 2)
    for _ in range(3):
        assert described(served, "a", "b") == {"a": (Errors.NONE, 2), "b": absent}
    wanted = CreatePartitionsTopic(name="a", count=3, assignments=None)
    grown = served.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=30_000))
    assert grown.results[0].error_code == 0, grown
    for _ in range(3):
        assert described(served, "a", "b") == {"a": (Errors.NONE, 3), "b": absent}
    served.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=30_000))
    assert described(served, "a", "b") == {"a": absent, "b": absent}


def test_a_missing_topic_is_created_each_time(served):
    def create():
        answer = served.ask(md.MetadataRequest(topics=[md.MetadataRequestTopic(name="auto")]), 13)
        return Errors.of(answer.topics[0].error_code)

    for _ in range(2):
        assert create() is Errors.UNKNOWN_TOPIC_OR_PARTITION
        assert create() is Errors.NONE
        served.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="auto")], timeout_ms=30_000))


def test_a_coordinator_that_ends_is_seen(served):
    def coordinator():
        answer = served.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 6)
        return Errors.of(answer.coordinators[0].error_code)

    for _ in range(3):
        assert coordinator() is Errors.NONE
    deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name="__consumer_offsets")], timeout_ms=30_000)
    served.ask(deleted)
    for _ in range(3):
        assert coordinator() is Errors.NONE, "it was created again"
