"""Several data planes in this process that replicate one topic, led and followed as the test says."""

import threading
from collections.abc import Callable
from pathlib import Path

from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.server.control_request import ControlRequest
from bowstring._native.server.replicas import Replicas
from bowstring.protocol import decode_request, encode_response
from bowstring.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.support.log_batches import everything
from tests.support.readable import readable
from tests.support.served_plane import TOPIC, Served
from tests.support.tls_contexts import python_context
from tests.support.waiting import wait_until

KEYS = (0, 1, 2, 3, 18)


def offsets_answer(request: ControlRequest, log_of: Callable[[int], PartitionLog]) -> bytes:
    """Answers a follower's ListOffsets for one partition."""
    body = decode_request(2, request.api_version, request.body)
    assert isinstance(body, ListOffsetsRequest)
    wanted = body.topics[0].partitions[0]
    log = log_of(wanted.partition_index)
    offset = log.log_end_offset if wanted.timestamp == -1 else log.log_start_offset
    answer = ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index, offset=offset, leader_epoch=log.leader_epoch
    )
    response = ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse(name=body.topics[0].name, partitions=[answer])]
    )
    return encode_response(2, request.api_version, request.correlation_id, response)


class Planes:
    """Brokers 0, 1, … with a plane each. Partition 0 of TOPIC is replicated on all of them."""

    def __init__(
        self, directory: Path, count: int = 3, reactors: int = 1, log_config=None, tls=None, **settings
    ):
        self.served: list[Served] = []
        self.client_tls = None if tls is None else python_context()
        self.replicas: list[Replicas] = []
        self.events: list[list[tuple]] = [[] for _ in range(count)]
        self.stopping = threading.Event()
        self.threads: list[threading.Thread] = []
        for broker in range(count):
            folder = directory / f"broker-{broker}"
            folder.mkdir()
            served = Served(folder, reactors=reactors, keys=KEYS, log_config=log_config, tls=tls)
            self.served.append(served)
            self.replicas.append(
                Replicas(
                    served.plane, broker_id=broker, broker_epoch=100 + broker, **{"backoff_ms": 20} | settings
                )
            )
            for partition in range(2):
                self.replicas[broker].follow(TOPIC, partition, leader_epoch=0)
            self.threads.append(threading.Thread(target=self._control, args=(broker,)))
            self.threads[-1].start()

    def _control(self, broker: int) -> None:
        """Does what the control thread of a broker does for replication: answers ListOffsets, takes events."""
        plane = self.served[broker].plane
        while not self.stopping.is_set():
            if readable(plane.control_fd, 0.05):
                for request in plane.take_requests():
                    assert isinstance(request, ControlRequest)
                    plane.reply(
                        request.connection_id,
                        request.slot,
                        offsets_answer(request, lambda index: self.log(broker, index)),
                    )
                plane.take_events()
                self.events[broker] += self.replicas[broker].take_events()

    def log(self, broker: int, partition: int = 0):
        return self.served[broker].logs[TOPIC, partition]

    def elect(self, leader: int, epoch: int, isr=None, partition: int = 0, followers=None) -> None:
        """Lets a broker lead in this epoch, and the others follow it."""
        everyone = range(len(self.served))
        self.replicas[leader].lead(
            TOPIC,
            partition,
            leader_epoch=epoch,
            replicas=list(everyone),
            isr=list(everyone if isr is None else isr),
            broker_epochs={broker: 100 + broker for broker in everyone},
        )
        for broker in everyone if followers is None else followers:
            if broker != leader:
                self.follow(broker, leader, epoch, partition)

    def follow(self, broker: int, leader: int, epoch: int, partition: int = 0) -> None:
        port = self.served[leader].port
        self.replicas[broker].follow(
            TOPIC, partition, leader_epoch=epoch, leader_id=leader, host="127.0.0.1", port=port
        )

    def client(self, broker: int):
        return self.served[broker].client(self.client_tls)

    def await_equal(self, partition: int = 0, brokers=None) -> None:
        """Waits until the logs are identical, and everything in them is committed."""
        chosen = range(len(self.served)) if brokers is None else brokers

        def equal():
            ends = {self.log(broker, partition).log_end_offset for broker in chosen}
            marks = {self.log(broker, partition).high_watermark for broker in chosen}
            return len(ends) == 1 and marks == ends

        wait_until(
            equal,
            lambda: [(repr(self.log(b, partition)), self.log(b, partition).high_watermark) for b in chosen],
            hang_s=20,
        )
        contents = {everything(self.log(broker, partition)) for broker in chosen}
        assert len(contents) == 1

    def close(self) -> None:
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        for served in self.served:
            served.close()
