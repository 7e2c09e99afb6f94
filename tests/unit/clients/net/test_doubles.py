"""The doubles of brokers that tests of clients use: clients of other tests do not reach or trouble them."""

import threading

import pytest

from bowstring.protocol.messages.describe_cluster import DescribeClusterRequest
from bowstring.protocol.messages.metadata import MetadataRequest
from tests.support.addresses import own_address
from tests.support.fake_broker import FakeBroker
from tests.support.produce_cluster import ProduceCluster, Script
from tests.support.wire_client import WireClient


def test_each_worker_has_an_address(monkeypatch):
    addresses = set()
    for worker in ["gw0", "gw1", "gw7", "gw12"]:
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        with FakeBroker() as broker:
            assert broker.bootstrap == f"{own_address()}:{broker.port}"
            addresses.add(broker.host)
    assert len(addresses) == 4 and "127.0.0.1" not in addresses
    monkeypatch.delenv("PYTEST_XDIST_WORKER")
    with FakeBroker() as broker:
        assert broker.host == own_address()


@pytest.fixture
def broker():
    with FakeBroker() as made:
        yield made


def ask(broker, request):
    client = WireClient(broker.port, host=broker.host)
    try:
        return client.ask(request)
    finally:
        client.close()


def test_a_stranger_is_turned_away(broker, monkeypatch, capsys):
    raised = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    with pytest.raises(ConnectionError):
        ask(broker, DescribeClusterRequest())
    assert ask(broker, MetadataRequest()).cluster_id == "fake", "it serves others"
    assert not raised
    assert "away: DescribeClusterRequest" in capsys.readouterr().out


def test_a_stranger_is_no_bug_of_a_produce_cluster():
    cluster = ProduceCluster(1, brokers=1, partitions=1, script=Script(), produce_version=13, first_epoch=0)
    try:
        with pytest.raises(ConnectionError):
            ask(cluster.nodes[0], DescribeClusterRequest())
        assert ask(cluster.nodes[0], MetadataRequest()).cluster_id == "fake"
        assert not cluster.bugs
    finally:
        cluster.close()
