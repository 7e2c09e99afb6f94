"""A client names the broker that it means to reach (KIP-1242), and starts again when it reached another."""

import pytest

from bowstring import Admin, Consumer, Producer, ShareConsumer
from bowstring.clients.errors import MisroutedError
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.metadata import ClusterMetadata, parse_bootstrap
from bowstring.clients.net.purposes import Purpose
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from bowstring.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from tests.support.fake_broker import FakeBroker
from tests.support.waiting import HANG_S


class Checking(FakeBroker):
    """Checks for whom it is taken, as Kafka 4.4 does; its metadata names one broker."""

    def __init__(self, cluster_id, node_id, port=0, **options):
        super().__init__(port=port, **options)
        self.cluster_id, self.node_id = cluster_id, node_id
        self.leads = (node_id, self.port)  # the broker that metadata names
        self.answers_versions = self.handlers[ApiVersionsRequest]
        self.handlers[ApiVersionsRequest] = self.check
        self.handlers[MetadataRequest] = self.describe

    def check(self, version, request):
        meant = (request.cluster_id, request.node_id)
        if version >= 5 and request.cluster_id is not None and meant != (self.cluster_id, self.node_id):
            return ApiVersionsResponse(error_code=Errors.REBOOTSTRAP_REQUIRED.code)
        return self.answers_versions(version, request)

    def describe(self, version, request):
        node, port = self.leads
        broker = MetadataResponseBroker(node_id=node, host=self.host, port=port, rack=None)
        return MetadataResponse(brokers=[broker], controller_id=node, cluster_id=self.cluster_id, topics=[])

    def named(self):
        return [(each.cluster_id, each.node_id) for each in self.seen(ApiVersionsRequest)]


@pytest.fixture
def client():
    made = NetworkClient("test", request_timeout_ms=int(HANG_S * 1000))
    yield made
    made.close()


def test_a_connection_names_the_broker_that_metadata_has_there(client):
    with Checking("c", 7) as broker:
        cluster = ClusterMetadata(client, parse_bootstrap(broker.bootstrap))
        cluster.refresh(HANG_S)
        assert broker.named() == [(None, -1)], "nobody knows yet who a bootstrap server is"
        client.hang_up(cluster.brokers[7], Purpose.GENERAL)
        cluster.refresh(HANG_S)
        assert broker.named() == [(None, -1), ("c", 7)]


@pytest.mark.parametrize("checks", [True, False])
def test_a_broker_of_another_cluster_is_left_for_the_bootstrap_servers(client, checks):
    with Checking("c", 1) as first, Checking("another", 1) as wrong:
        first.leads = (1, wrong.port)  # as if its address belongs to another broker by now
        cluster = ClusterMetadata(client, parse_bootstrap(first.bootstrap), check_cluster=checks)
        cluster.refresh(HANG_S)
        first.leads = (1, first.port)
        cluster.refresh(HANG_S)
        there = cluster.cluster_id, cluster.brokers[1].port
        assert there == (("c", first.port) if checks else ("another", wrong.port))
        assert wrong.named()[0] == (("c", 1) if checks else (None, -1))


def test_requests_to_a_misrouted_broker_fail_so_that_they_are_repeated(client):
    with Checking("c", 1) as first, Checking("another", 1) as wrong:
        first.leads = (1, wrong.port)
        cluster = ClusterMetadata(client, parse_bootstrap(first.bootstrap))
        cluster.refresh(HANG_S)
        sent = [client.send(cluster.brokers[1], MetadataRequest, MetadataRequest()) for _ in range(3)]
        for each in sent:
            with pytest.raises(MisroutedError, match="leads to another one") as caught:
                client.wait(each)
            assert caught.value.retriable
        assert wrong.seen(MetadataRequest) == []
        assert cluster.nodes() == cluster.bootstrap


@pytest.mark.parametrize(
    "make",
    [Producer, Consumer, lambda **options: ShareConsumer(group_id="g", **options), Admin],
    ids=["Producer", "Consumer", "ShareConsumer", "Admin"],
)
def test_every_client_has_the_setting(monkeypatch, make):
    found = []
    init = ClusterMetadata.__init__

    def cluster(self, *args, **options):
        found.append(options["check_cluster"])
        init(self, *args, **options)

    monkeypatch.setattr(ClusterMetadata, "__init__", cluster)
    make().close()
    make(metadata_cluster_check_enable=False).close()
    assert found == [True, False]


def test_who_still_has_a_forgotten_broker_does_not_reach_another_in_its_place(client):
    with Checking("c", 1) as broker:
        cluster = ClusterMetadata(client, parse_bootstrap(broker.bootstrap))
        cluster.refresh(HANG_S)
        known = cluster.brokers[1]
        cluster.rebootstrap()
        assert cluster.nodes() == cluster.bootstrap
        assert client.meant(known) == ("c", 1)
        assert client.meant(cluster.bootstrap[0]) is None


def test_brokers_before_kafka_4_4_are_not_asked_twice(client):
    with Checking("c", 1, api_versions_max=4) as broker:
        cluster = ClusterMetadata(client, parse_bootstrap(broker.bootstrap))
        cluster.refresh(HANG_S)
        client.hang_up(cluster.brokers[1], Purpose.GENERAL)
        cluster.refresh(HANG_S)
        assert broker.named() == [(None, -1)] * 2
