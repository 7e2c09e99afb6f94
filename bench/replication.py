"""Measures replication: `python -m bench.replication` starts brokers whose leader is given.

There is no quorum. One process for each broker: a data plane, its replicas, and a small control thread that
answers clients' requests. The first leads every partition. A producer of this process sends 100-byte
records; the report has records/s, and CPU seconds per GB of records for leader, follower and client.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import select
import shutil
import tempfile
import time
import uuid
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.procfs import cpu_seconds

if TYPE_CHECKING:
    from bowstring.clients.choices import Acks

TOPIC = "replicated"
TOPIC_ID = uuid.uuid5(uuid.NAMESPACE_DNS, TOPIC).bytes
KEYS = (0, 1, 2, 3, 18)
VALUE = b"x" * 100
GB = 1e9
METADATA_KEY = 3
HOST = "127.0.0.1"


class _Broker:
    """One broker, driven by its parent."""

    def __init__(self, broker_id: int, directory: Path, partitions: int) -> None:
        from bowstring._native.disk.directory_health import DirectoryHealth
        from bowstring._native.log.partition_log import PartitionLog
        from bowstring._native.server.data_plane import DataPlane
        from bowstring._native.server.replicas import Replicas
        from bowstring.engine.configs import BrokerConfigs
        from bowstring.engine.storage.staged_tails import StagedTails
        from bowstring.protocol import API_VERSIONS

        self.id = broker_id
        self.partitions = partitions
        self.health = DirectoryHealth(str(directory))
        self.tails = StagedTails(directory, self.health)
        self.tails.open()
        self.versions = {key: API_VERSIONS[key] for key in KEYS}
        apis = {key: (row.lowest, row.highest, row.flexible_from) for key, row in self.versions.items()}
        self.plane = DataPlane(apis=apis)
        self.port = self.plane.listen(HOST, 0)
        config = BrokerConfigs().log_config({})
        self.logs = []
        for index in range(partitions):
            folder = directory / f"{TOPIC}-{index}"
            folder.mkdir()
            log = PartitionLog(str(folder), config, recovery_point=0, clean_shutdown=True, health=self.health)
            self.logs.append(log)
            self.plane.add_partition(TOPIC, TOPIC_ID, index, log)
        self.replicas = Replicas(self.plane, broker_id=broker_id)
        self.plane.start()

    def serve(self, parent: Connection) -> None:
        """Answers clients and the parent until the parent sends a stop."""
        while True:
            for readable in select.select([self.plane.control_fd, parent.fileno()], [], [])[0]:
                if readable != parent.fileno():
                    self._answer()
                    continue
                what, *arguments = parent.recv()
                if what == "stop":
                    self.plane.stop()
                    return
                parent.send(getattr(self, what)(*arguments))

    def lead(self, brokers: list[int]) -> None:
        """Leads every partition."""
        for index in range(self.partitions):
            self.replicas.lead(TOPIC, index, leader_epoch=1, replicas=brokers, isr=brokers)

    def follow(self, leader: int, port: int) -> None:
        """Follows in every partition."""
        for index in range(self.partitions):
            self.replicas.follow(TOPIC, index, leader_epoch=1, leader_id=leader, host=HOST, port=port)

    def ends(self) -> list[int]:
        """Log ends of the partitions."""
        return [log.log_end_offset for log in self.logs]

    def counters(self) -> dict[str, Any]:
        """Counters of the data plane."""
        return dict(self.plane.counters())

    def _answer(self) -> None:
        from bowstring._native.server.control_request import ControlRequest
        from bowstring.protocol import encode_response

        for request in self.plane.take_requests():
            assert isinstance(request, ControlRequest)
            body = self._metadata() if request.api_key == METADATA_KEY else self._versions()
            self.plane.reply(
                request.connection_id,
                request.slot,
                encode_response(request.api_key, request.api_version, request.correlation_id, body),
            )
        self.plane.take_events()
        self.replicas.take_events()

    def _versions(self) -> Any:
        from bowstring.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

        rows = [
            ApiVersion(api_key=key, min_version=row.lowest, max_version=row.highest)
            for key, row in self.versions.items()
        ]
        return ApiVersionsResponse(api_keys=rows)

    def _metadata(self) -> Any:
        from bowstring.protocol.messages import metadata

        partitions = [
            metadata.MetadataResponsePartition(partition_index=index, leader_id=self.id, leader_epoch=1)
            for index in range(self.partitions)
        ]
        topic = metadata.MetadataResponseTopic(name=TOPIC, topic_id=TOPIC_ID, partitions=partitions)
        broker = metadata.MetadataResponseBroker(node_id=self.id, host=HOST, port=self.port)
        return metadata.MetadataResponse(brokers=[broker], controller_id=self.id, topics=[topic])


def _run_broker(broker_id: int, directory: str, partitions: int, parent: Connection) -> None:
    broker = _Broker(broker_id, Path(directory), partitions)
    parent.send(broker.port)
    broker.serve(parent)


def _produce(port: int, records: int, batch_size: int, acks: Acks) -> None:
    import pyarrow as pa

    import bowstring

    rows = 100_000
    batch = pa.record_batch({"value": pa.array([VALUE] * rows, pa.binary())})
    with bowstring.Producer(f"{HOST}:{port}", acks=acks, batch_size=batch_size, idempotent=False) as producer:
        producer.partitions_for(TOPIC)
        left = records
        while left > 0:
            producer.send_arrow(TOPIC, batch.slice(0, min(rows, left)))
            left -= rows
        producer.flush()


def measure(
    records: int,
    *,
    replicas: int = 3,
    partitions: int = 6,
    batch_size: int = 8192,
    acks: Acks = "all",
    directory: str | None = None,
) -> dict[str, float]:
    """Returns records/s, and CPU seconds per GB of records: `leader`, `follower` (the mean), `client`."""
    base = Path(tempfile.mkdtemp(prefix="bowstring-replication-", dir=directory))
    context = multiprocessing.get_context("spawn")
    brokers = []
    try:
        for broker_id in range(replicas):
            folder = base / str(broker_id)
            folder.mkdir()
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_run_broker, args=(broker_id, str(folder), partitions, theirs), daemon=True
            )
            process.start()
            brokers.append((process, ours))
        ports = [pipe.recv() for _, pipe in brokers]

        def ask(broker: int, *what: Any) -> Any:
            brokers[broker][1].send(what)
            return brokers[broker][1].recv()

        ask(0, "lead", list(range(replicas)))
        for broker_id in range(1, replicas):
            ask(broker_id, "follow", 0, ports[0])
        _produce(ports[0], min(records, 200_000), batch_size, acks)
        pids = [process.pid or 0 for process, _ in brokers]
        before = [cpu_seconds(pid) for pid in pids]
        begun, own = time.perf_counter(), time.process_time()
        _produce(ports[0], records, batch_size, acks)
        wall, client = time.perf_counter() - begun, time.process_time() - own
        ends = ask(0, "ends")
        while any(ask(broker_id, "ends") != ends for broker_id in range(1, replicas)):
            time.sleep(0.01)
        used = [cpu_seconds(pid) - spent for pid, spent in zip(pids, before, strict=True)]
        size_gb = records * len(VALUE) / GB
        return {
            "records_per_s": records / wall,
            "leader_cpu_s_per_gb": used[0] / size_gb,
            "follower_cpu_s_per_gb": sum(used[1:]) / max(1, replicas - 1) / size_gb,
            "client_cpu_s_per_gb": client / size_gb,
            "fetches": float(ask(0, "counters")["fetch"]["requests"]),
            "produces": float(ask(0, "counters")["produce"]["requests"]),
        }
    finally:
        for process, pipe in brokers:
            pipe.send(("stop",))
            process.join(10)
            process.kill()
        shutil.rmtree(base, ignore_errors=True)


def main() -> None:
    """Prints one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=8192)
    parser.add_argument("--acks", default="all")
    parser.add_argument("--directory")
    chosen = parser.parse_args()
    found = measure(
        chosen.records,
        replicas=chosen.replicas,
        partitions=chosen.partitions,
        batch_size=chosen.batch_size,
        acks=chosen.acks,
        directory=chosen.directory,
    )
    print(json.dumps({name: round(value, 3) for name, value in found.items()}))


if __name__ == "__main__":
    main()
