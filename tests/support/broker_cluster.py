"""Brokers and controllers of one cluster in this process, which talk over sockets."""

import asyncio

from bowstring.engine.broker.broker import Broker
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.quorum_nodes import FAST, Controllers, format_directory
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S, pause_async

BROKERS = (10, 11)
QUICK = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "100"}


class Cluster:
    """Controllers and brokers; `brokers` has those that run."""

    def __init__(self, directory, **configs):
        self.directory = directory
        self.controllers = Controllers(directory, **(QUICK | configs))
        self.brokers = {}
        for id in BROKERS:
            format_directory(directory / str(id), id)

    async def start(self):
        await self.controllers.start()
        await asyncio.gather(*map(self.start_broker, BROKERS))

    async def start_broker(self, id):
        broker = Broker(
            self.controllers.settings(1)
            | FAST
            | QUICK
            | {
                "node.id": str(id),
                "process.roles": "broker",
                "log.dirs": str(self.directory / str(id)),
                "listeners": f"PLAINTEXT://127.0.0.1:{steady_port()}",
                "bowstring.local.socket": "off",
            }
        )
        broker.open()
        self.brokers[id] = broker
        await broker.start()

    async def ask(self, request):
        """Sends a request to the active controller, and again without an answer, as a broker forwards it."""
        quorum = next(iter(self.brokers.values())).quorum
        until_s = asyncio.get_running_loop().time() + HANG_S
        while True:
            try:
                return await quorum.ask_leader(request, 20_000)
            except KafkaError as error:
                if error.error is not Errors.NOT_CONTROLLER or asyncio.get_running_loop().time() >= until_s:
                    raise
            await pause_async(0.05, "no event says that a controller is active")

    async def create(self, name, partitions, replication_factor=1):
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication_factor)
        answer = await self.ask(CreateTopicsRequest(topics=[topic]))
        return Errors.of(answer.topics[0].error_code)

    def image(self):
        return next(iter(self.brokers.values())).metadata.image

    async def stop(self):
        for broker in list(self.brokers.values()):
            await broker.stop()
        await self.controllers.stop()


def run(tmp_path, scenario, **configs):
    async def all_of_it():
        cluster = Cluster(tmp_path, **configs)
        try:
            await cluster.start()
            await scenario(cluster)
        finally:
            await cluster.stop()

    asyncio.run(all_of_it())
