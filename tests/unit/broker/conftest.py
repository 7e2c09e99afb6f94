"""A broker in this process, and a client of it."""

import pytest

from bowstring import Broker
from bowstring.engine.protocol.messages import create_topics as ct
from bowstring.engine.protocol.messages import produce as p
from tests.unit.broker.wire_client import WireClient


class Served:
    """A running broker on a directory of the test's, with clients that are closed at the end."""

    def __init__(self, directory, **config):
        self.directory = directory
        self.config = {key.replace("_", "."): value for key, value in config.items()}
        self._clients = []
        self.start()

    def start(self):
        self.broker = Broker(data_dir=self.directory, config=self.config).start()
        self.client = self.connect()

    def connect(self) -> WireClient:
        client = WireClient(self.broker.port)
        self._clients.append(client)
        return client

    def ask(self, request, version=None):
        return self.client.ask(request, version)

    def restart(self):
        self.stop()
        self.start()

    def stop(self):
        for client in self._clients:
            client.close()
        self._clients.clear()
        self.broker.stop()

    # ------------------------------------------------------------ short cuts

    def create_topic(self, name, partitions=1, **configs):
        topic = ct.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                ct.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        (result,) = self.ask(ct.CreateTopicsRequest(topics=[topic])).topics
        assert result.error_code == 0, result.error_message
        return result.topic_id

    def produce(self, topic, batch, partition=0):
        """Appends one batch with acks=1 and returns the partition's response."""
        data = p.TopicProduceData(
            name=topic, partition_data=[p.PartitionProduceData(index=partition, records=batch)]
        )
        response = self.ask(p.ProduceRequest(acks=1, timeout_ms=10_000, topic_data=[data]), 9)
        return response.responses[0].partition_responses[0]


@pytest.fixture
def serve(tmp_path):
    """Starts a broker with configs (underscores for dots); stopped after the test."""
    running = []

    def start(**config):
        served = Served(tmp_path / "data", **config)
        running.append(served)
        return served

    yield start
    for served in running:
        served.stop()


@pytest.fixture
def served(serve):
    return serve()
