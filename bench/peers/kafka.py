"""Runs Apache Kafka as a single-node KRaft broker, with the settings and JVM options that Kafka ships."""

from __future__ import annotations

import subprocess
import uuid
from base64 import urlsafe_b64encode
from pathlib import Path

from bench.peers.install import JVM_PERFORMANCE_OPTIONS, PeerError, kafka_classpath, kafka_version
from bench.peers.peer import COMMON_SETTINGS, Peer, free_ports, write_properties

# config/server.properties of Kafka's distribution.
SHIPPED_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "2",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}

LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = stdout
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = [%d] %p %m (%c)%n
"""

HEAP_AS_SHIPPED = ["-Xmx1G", "-Xms1G"]


class Kafka(Peer):
    """Apache Kafka from Maven Central.

    Args:
        work: directory for its data, configuration and log.
        heap: JVM heap options; by default those of kafka-server-start.sh.
    """

    name = "kafka"

    def __init__(self, work: Path, heap: list[str] | None = None):
        super().__init__(work)
        self._heap = HEAP_AS_SHIPPED if heap is None else heap
        self._settings = work / "server.properties"

    def version(self) -> str:
        """E.g. `Apache Kafka 4.4.0`."""
        return f"Apache Kafka {kafka_version()}"

    def prepare(self) -> None:
        """Installs Kafka when needed, writes its configuration and formats `data`."""
        listeners = self.listeners()
        (controller_port,) = free_ports(1, self.host)
        (self.work / "log4j2.properties").write_text(LOG4J)
        settings = SHIPPED_SETTINGS | COMMON_SETTINGS
        settings |= {
            "listeners": f"{listeners},CONTROLLER://{self.host}:{controller_port}",
            "advertised.listeners": listeners,
            "controller.quorum.bootstrap.servers": f"{self.host}:{controller_port}",
            "log.dirs": str(self.data),
        }
        write_properties(self._settings, settings | self.tls_settings() | self.settings)
        # An id that begins with a dash would be parsed as an option.
        cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "_")
        options = ["--config", str(self._settings), "--cluster-id", cluster_id, "--standalone"]
        done = subprocess.run(
            [*self._java(["-Xmx256M"]), "kafka.tools.StorageTool", "format", *options],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            self.port = 0
            raise PeerError(f"formatting Kafka's directory failed:\n{done.stdout}{done.stderr}")

    def command(self) -> list[str]:
        """Returns what kafka-server-start.sh runs, with its log on standard output."""
        return [*self._java(self._heap), "kafka.Kafka", str(self._settings)]

    def _java(self, heap: list[str]) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={self.work / 'log4j2.properties'}"
        return ["java", *heap, *JVM_PERFORMANCE_OPTIONS, logging, "-cp", kafka_classpath()]
