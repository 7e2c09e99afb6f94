"""A client's view of a cluster."""

import socket
from types import SimpleNamespace

import pytest

from bowstring.clients.errors import NoBrokerError
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.frames import LARGE_BYTES, decode_response
from bowstring.clients.net.metadata import ClusterMetadata, parse_bootstrap
from bowstring.protocol.frames import encode_response
from bowstring.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.support.addresses import own_address
from tests.support.fake_broker import SILENCE, FakeBroker
from tests.support.readable import readable
from tests.support.waiting import FOR_EVER_MS, HANG_S, wait_until


class TakenMeanwhile(set):
    """Wanted topics; another thread adds one as soon as they have been read."""

    cluster: ClusterMetadata

    def __iter__(self):
        found = list(set.__iter__(self))
        self.cluster.want("t")
        return iter(found)


def test_a_topic_that_is_wanted_while_a_request_is_made_is_in_the_next():
    with FakeBroker() as broker:
        client = NetworkClient("test")
        cluster = ClusterMetadata(client, parse_bootstrap(broker.bootstrap))
        cluster.wanted = TakenMeanwhile()
        cluster.wanted.cluster = cluster
        cluster.refresh(HANG_S)
        cluster.wanted = set(set.__iter__(cluster.wanted))
        cluster.maintain()
        client.poll(0)
        assert cluster.wanted == {"t"} and (cluster.stale or cluster._asked)
        client.close()


def test_a_silent_broker_does_not_hold_up_the_others():
    """It may hang, or be cut off: its connection stays open."""
    with FakeBroker() as broker, socket.create_server((own_address(), 0)) as silent:
        client = NetworkClient("test")
        cluster = ClusterMetadata(client, parse_bootstrap("{}:{}".format(*silent.getsockname())))
        cluster.maintain()
        cluster.bootstrap += parse_bootstrap(broker.bootstrap)
        cluster.refresh(HANG_S)
        assert cluster.brokers and cluster.maintain() > 0
        cluster.refresh(HANG_S)
        client.close()


def test_bootstrap_servers_are_asked_when_the_only_known_broker_hangs():
    """The first request goes to it, and nothing else wakes the client."""
    with FakeBroker() as alone, FakeBroker() as other:
        client = NetworkClient("test", request_timeout_ms=FOR_EVER_MS)
        cluster = ClusterMetadata(client, parse_bootstrap(alone.bootstrap))
        cluster.refresh(HANG_S)  # it names only itself
        alone.handlers[MetadataRequest] = lambda version, request: SILENCE
        cluster.bootstrap += parse_bootstrap(other.bootstrap)
        cluster.refresh(HANG_S)
        assert alone.seen(MetadataRequest) and other.seen(MetadataRequest)
        client.close()


def test_an_answer_that_is_there_at_the_deadline_counts():
    """A client may be delayed past its deadline although the broker answered in time."""
    with FakeBroker() as broker:
        client = NetworkClient("test")
        cluster = ClusterMetadata(client, parse_bootstrap(broker.bootstrap))
        cluster.refresh(HANG_S)
        cluster.want("t")
        cluster.maintain()
        connection = client.ready_connection(cluster.any_node())
        assert connection is not None and readable(connection.socket, HANG_S)
        assert list(cluster.await_topic("t", 0.0).partitions) == [0]
        client.close()


def test_a_topic_that_nobody_was_there_to_ask_for_is_asked_for_no_more():
    client = NetworkClient("test")
    cluster = ClusterMetadata(client, parse_bootstrap("127.0.0.1:1"))
    with pytest.raises(NoBrokerError):
        cluster.await_topic("t", 0.0)
    assert not cluster.wanted
    client.close()


def test_another_broker_is_asked_for_a_topic_that_one_does_not_know(monkeypatch):
    """The broker may be cut off from the controller. Otherwise it is preferred, as it has a connection."""
    client = NetworkClient("test")
    cluster = ClusterMetadata(client, parse_bootstrap("127.0.0.1:1"))
    asked = []
    monkeypatch.setattr(client, "send", lambda node, api, body, callback: asked.append((node, callback)))
    monkeypatch.setattr(client, "ready", lambda node: node.port == 1)
    brokers = [MetadataResponseBroker(node_id=id, host="127.0.0.1", port=id) for id in (1, 2)]
    cluster.want("t")

    def ask():
        before = len(asked)
        wait_until(lambda: cluster.maintain() >= 0 and len(asked) > before)

    for code in (3, 3, 3, 0):
        ask()
        topic = MetadataResponseTopic(name="t", error_code=code)
        answer = MetadataResponse(brokers=brokers, topics=[topic])
        asked[-1][1](SimpleNamespace(error=None, response=answer))
    cluster.invalidate()
    ask()
    assert [node.port for node, _ in asked] == [1, 2, 1, 2, 1]
    client.close()


def test_partitions_that_are_alike_share_one_object():
    """A cluster has a hundred thousand of them, and most do not change between two answers."""
    client = NetworkClient("test")
    cluster = ClusterMetadata(client, parse_bootstrap("127.0.0.1:1"))

    def answer():
        parts = [
            MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1, 2])
        ]
        topics = [MetadataResponseTopic(name=name, partitions=parts) for name in ("a", "b")]
        brokers = [MetadataResponseBroker(node_id=1, host="127.0.0.1", port=1)]
        cluster.update(MetadataResponse(brokers=brokers, topics=topics))
        return [cluster.topics[name].partitions[0] for name in ("a", "b")]

    first, second = answer(), answer()
    assert all(each is first[0] for each in first + second)
    client.close()


def test_all_topics_of_a_large_answer_are_known():
    names = [f"topic-{number:05}" for number in range(4000)]
    part = MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1])
    answer = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="b", port=1)],
        topics=[
            MetadataResponseTopic(name=name, topic_id=name.encode().rjust(16), partitions=[part])
            for name in names
        ],
    )
    frame = memoryview(encode_response(MetadataRequest.api_key, 12, 7, answer))
    assert len(frame) > LARGE_BYTES
    client = NetworkClient("test")
    cluster = ClusterMetadata(client, parse_bootstrap("b:1"))
    cluster.want_all = True
    for _ in range(2):
        cluster.update(decode_response(MetadataRequest, 12, frame))
        assert list(cluster.topics) == names and cluster.leader(names[-1], 0).id == 1
    client.close()
