"""Many connections that all work, played by one thread."""

import pytest

import bowstring
from bench.kreps import many_connections
from bench.kreps.loads import Order, Progress
from bench.peers.wire import WireError


def load(broker, topic, records, connections):
    settings = {"acks": "1", many_connections.CONNECTIONS: str(connections), many_connections.PARTITIONS: "2"}
    order = Order("produce", broker.bootstrap_servers, topic, records, 100, settings)
    progress = Progress()
    for _ in many_connections.produce(order, progress):
        pass
    return progress


def test_all_records_are_there_and_timed():
    with bowstring.Broker() as broker, bowstring.Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 2)
        progress = load(broker, "t", 1000, 30)
        assert progress.records == 1000 and len(progress.latencies_ms) == 100
        found = bowstring.read("t", bootstrap_servers=broker.bootstrap_servers)
        assert found.num_rows == 1000 and set(found["partition"].to_pylist()) == {0, 1}


def test_a_broker_that_refuses():
    with bowstring.Broker() as broker, pytest.raises(WireError, match="error 3"):
        load(broker, "none", 10, 1)


def test_a_broker_that_leaves():
    with bowstring.Broker() as broker, bowstring.Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("t", 2)
        settings = {"acks": "1", many_connections.CONNECTIONS: "2", many_connections.PARTITIONS: "2"}
        order = Order("produce", broker.bootstrap_servers, "t", 100, 100, settings)
        steps = many_connections.produce(order, Progress())
        next(steps)
    with pytest.raises(ConnectionError):
        next(steps)
