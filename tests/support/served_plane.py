"""A data plane in this process without a broker, on the test's directory."""

import uuid

from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.server.data_plane import DataPlane
from bowstring.protocol import API_VERSIONS
from tests.support.log_batches import CONFIG
from tests.support.plane_client import PlaneClient
from tests.support.waiting import wait_until

TOPIC = "flights"
TOPIC_ID = uuid.uuid5(uuid.NAMESPACE_DNS, TOPIC).bytes
LOG_CONFIG = CONFIG | {"segment_bytes": 1 << 20}


class Served:
    """A running plane with one topic of two partitions, and helpers for tests.

    `health` is of the log directory; `log_config` is for all its logs.
    """

    def __init__(
        self,
        directory,
        reactors: int = 1,
        health=None,
        log_config=None,
        keys=(0, 1, 3, 18),
        tls=None,
        authenticates: bool = False,
        *,
        accepts: bool = True,
        **settings,
    ):
        apis = {
            key: (API_VERSIONS[key].lowest, API_VERSIONS[key].highest, API_VERSIONS[key].flexible_from)
            for key in keys
        }
        self.directory = directory
        self.health, self.log_config = health, LOG_CONFIG | (log_config or {})
        self.plane = DataPlane(apis=apis, reactors=reactors, **settings)
        self.port = self.plane.listen("127.0.0.1", 0, tls=tls, authenticates=authenticates)
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        self.clients: list[PlaneClient] = []
        self.add_topic(TOPIC, TOPIC_ID, 2)
        if accepts:
            self.plane.start()

    def add_topic(self, name, topic_id, partitions, serve=None, folder=None, **config):
        for index in range(partitions):
            path = self.directory / f"{folder or name}-{index}"
            path.mkdir(exist_ok=True)
            log = PartitionLog(
                str(path), self.log_config | config, recovery_point=0, clean_shutdown=True, health=self.health
            )
            self.logs[name, index] = log
            self.plane.add_partition(name, topic_id, index, log, **(serve or {}))

    def client(self, tls=None, session=None) -> PlaneClient:
        client = PlaneClient(self.port, tls, session)
        self.clients.append(client)
        return client

    def await_waiting(self, count: int = 1) -> None:
        """Waits until that many fetches or acks wait: each has a timer."""
        wait_until(lambda: self.plane.counters()["timers"] >= count, f"{count} requests that wait")

    def close(self):
        for client in self.clients:
            client.close()
        self.plane.stop()
        for log in self.logs.values():
            log.close()
