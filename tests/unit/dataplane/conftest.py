import uuid

import pytest

from bowstring._native.dataplane import DataPlane
from bowstring._native.log import PartitionLog
from bowstring.engine.protocol import API_VERSIONS
from tests.unit.dataplane.plane_client import PlaneClient
from tests.unit.log.batches import CONFIG

TOPIC = "flights"
TOPIC_ID = uuid.uuid5(uuid.NAMESPACE_DNS, TOPIC).bytes
LOG_CONFIG = CONFIG | {"segment_bytes": 1 << 20}


class Served:
    """A running plane with one topic of two partitions, and what the tests need of it."""

    def __init__(self, directory, reactors: int = 1, **settings):
        keys = (0, 1, 3, 18)
        apis = {
            key: (API_VERSIONS[key].lowest, API_VERSIONS[key].highest, API_VERSIONS[key].flexible_from)
            for key in keys
        }
        self.directory = directory
        self.plane = DataPlane(apis=apis, reactors=reactors, **settings)
        self.port = self.plane.listen("127.0.0.1", 0)
        self.logs = {}
        self.clients = []
        self.add_topic(TOPIC, TOPIC_ID, 2)
        self.plane.start()

    def add_topic(self, name, topic_id, partitions, serve=None, **config):
        for index in range(partitions):
            path = self.directory / f"{name}-{index}"
            path.mkdir(exist_ok=True)
            log = PartitionLog(str(path), LOG_CONFIG | config, recovery_point=0, clean_shutdown=True)
            self.logs[name, index] = log
            self.plane.add_partition(name, topic_id, index, log, **(serve or {}))

    def client(self) -> PlaneClient:
        client = PlaneClient(self.port)
        self.clients.append(client)
        return client

    def close(self):
        for client in self.clients:
            client.close()
        self.plane.stop()
        for log in self.logs.values():
            log.close()


@pytest.fixture(params=[1, 3], ids=["one-reactor", "three-reactors"])
def served(tmp_path, request):
    served = Served(tmp_path, reactors=request.param)
    yield served
    served.close()


@pytest.fixture
def client(served):
    return served.client()
