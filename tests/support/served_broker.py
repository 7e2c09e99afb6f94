"""A broker in this process, and a client of it."""

from bowstring import Broker
from bowstring.engine.broker.broker import Broker as Engine
from bowstring.protocol.messages import create_topics as ct
from bowstring.protocol.messages import produce as p
from tests.support.embedded import engine_of
from tests.support.waiting import FOR_EVER_MS, wait_until
from tests.support.wire_client import WireClient


class Served:
    """A running broker on the test's directory, with clients that are closed at the end."""

    def __init__(self, directory, **config):
        self.directory = directory
        self.config = {key.replace("_", "."): value for key, value in config.items()}
        self._clients = []
        self.start()

    def start(self):
        self.broker = Broker(data_dir=self.directory, config=self.config).start()
        self.client = self.connect()
        wait_until(lambda: not self._is_loading())  # clients retry meanwhile

    def _is_loading(self) -> bool:
        coordinators = self.engine.coordination.coordinators
        begun = [coordinators.get(topic) for topic in coordinators.topics]
        return any(each is not None and each.is_loading for each in begun)

    @property
    def engine(self) -> Engine:
        """The parts of the broker, such as `engine.logs`."""
        return engine_of(self.broker)

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

    # ------------------------------------------------------------ shortcuts

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
        response = self.ask(p.ProduceRequest(acks=1, timeout_ms=FOR_EVER_MS, topic_data=[data]), 9)
        return response.responses[0].partition_responses[0]
