"""The broker under test, as a process: Bowstring, or Apache Kafka to validate the suite itself.

BOWSTRING_TEST_TARGET     "bowstring" (default) or "kafka": what the fixtures start.
BOWSTRING_TEST_BOOTSTRAP  host:port of a running broker for every test that does not stop its broker.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests.support import peers
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S, wait_until

START_TIMEOUT_S = HANG_S

# ApiVersions v0, correlation id 1, null client id: the smallest request every broker answers.
_API_VERSIONS_V0 = bytes.fromhex("0000000a 0012 0000 00000001 ffff")


def answers(host: str, port: int, timeout_s: float = 1.0) -> bool:
    """Whether a broker answers ApiVersions at this address."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as sock:
            sock.sendall(_API_VERSIONS_V0)
            sock.settimeout(timeout_s)
            return len(sock.recv(4)) == 4
    except OSError:
        return False


class Broker:
    """A broker process that tests may stop, kill, restart and inspect.

    `settings` are Kafka's server.properties keys; both targets take them. `listeners` are more than PLAINTEXT: the
    protocols by name. `ports` has their ports.
    """

    def __init__(
        self,
        directory: Path,
        settings: dict[str, str] | None = None,
        *,
        listeners: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.log_path = directory / "broker.log"
        self.host = "127.0.0.1"
        self.port = steady_port()
        self.ports = {name: steady_port() for name in listeners}
        self._protocols = {"PLAINTEXT": "PLAINTEXT", **listeners}
        self.settings = {
            "group.initial.rebalance.delay.ms": "0",
            "group.consumer.min.heartbeat.interval.ms": "300",
            "group.consumer.heartbeat.interval.ms": "300",
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap(self) -> str:
        """host:port for the clients."""
        return f"{self.host}:{self.port}"

    def listener_settings(self) -> dict[str, str]:
        """Settings with the listeners of clients."""
        addresses = {"PLAINTEXT": self.port, **self.ports}
        where = ",".join(f"{name}://{self.host}:{port}" for name, port in addresses.items())
        protocols = {**self._protocols, "CONTROLLER": "PLAINTEXT"}
        return {
            "listeners": where,
            "advertised.listeners": where,
            "listener.security.protocol.map": ",".join(f"{each}:{protocols[each]}" for each in protocols),
            "inter.broker.listener.name": "PLAINTEXT",
        }

    @property
    def pid(self) -> int:
        """The process id; the broker must be running."""
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    def command(self) -> list[str]:
        """The command line that starts this broker."""
        raise NotImplementedError

    def start(self) -> None:
        """Starts the process and waits until it answers ApiVersions."""
        command = self.command()
        log = self.log_path.open("ab")
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.directory
        )
        log.close()
        process = self._process

        def has_begun() -> bool:
            if process.poll() is not None:
                raise RuntimeError(f"`{' '.join(command)}` exited {process.returncode}:\n{self.tail()}")
            return answers(self.host, self.port)

        try:
            wait_until(has_begun, lambda: f"no answer on {self.bootstrap}:\n{self.tail()}")
        except AssertionError:
            self.kill()
            raise

    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process is not None and self._process.poll() is None

    def stop(self) -> int:
        """Clean shutdown by SIGTERM; returns the exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """kill -9; returns the exit status."""
        return self._end(signal.SIGKILL)

    def _end(self, number: int) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            return process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(
                f"the broker did not stop in 30 s after signal {number}:\n{self.tail()}"
            ) from None

    def tail(self, size: int = 4000) -> str:
        """Returns the end of the broker's output."""
        return self.log_path.read_text(errors="replace")[-size:] if self.log_path.exists() else ""

    def log_lines(self) -> list[str]:
        """Returns the broker's output so far, by line."""
        return self.log_path.read_text(errors="replace").splitlines()

    def rss_bytes(self) -> int:
        """Resident memory of the process."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS in /proc")

    def open_files(self) -> int:
        """Open file descriptors of the process."""
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


class BowstringBroker(Broker):
    """`python -m bowstring serve` on its own directory."""

    def command(self) -> list[str]:
        config = self.directory / "server.properties"
        settings, where = self.settings, ["--data", str(self.data)]
        if self.ports:
            settings = {**self.listener_settings(), **settings}
        else:
            # The machine's own name may not resolve, so use the loopback address.
            where += ["--host", self.host, "--port", str(self.port)]
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return [sys.executable, "-m", "bowstring", "serve", *where, "--config", str(config)]


def kafka_java() -> list[str]:
    """Returns `java` for Kafka's brokers and controllers, with an archive of the classes that one of them loads.

    The first call runs a broker for a moment, which leaves the archive: the others start with less than two thirds of
    the work.
    """
    if not peers.archive_of("broker").exists():
        with peers.class_archive("broker") as options, tempfile.TemporaryDirectory() as folder:
            broker = KafkaBroker(Path(folder), java=peers.java_command())
            broker.command()  # formats its directory
            broker.java = [*peers.java_command(), *options]
            broker.start()
            broker.stop()
    with peers.class_archive("broker") as options:
        return [*peers.java_command(), *options]


class KafkaBroker(Broker):
    """Apache Kafka in KRaft's combined mode, which validates the suite itself.

    `java` is the command of its JVM, without the class path: by default `kafka_java()`.
    """

    def __init__(
        self,
        directory: Path,
        settings: dict[str, str] | None = None,
        java: list[str] | None = None,
        *,
        listeners: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(directory, settings, listeners=listeners)
        self.java = java

    def command(self) -> list[str]:
        java = [*(self.java or kafka_java()), "-Xmx768m", "-cp", peers.kafka_classpath()]
        config = self.directory / "server.properties"
        if not config.exists():
            controller = steady_port()
            settings = {
                "process.roles": "broker,controller",
                "node.id": "1",
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": str(self.data),
                "offsets.topic.replication.factor": "1",
                "offsets.topic.num.partitions": "4",
                "transaction.state.log.replication.factor": "1",
                "transaction.state.log.min.isr": "1",
                **self.settings,
            }
            if self.ports:
                more = self.listener_settings()
                more["listeners"] += f",CONTROLLER://127.0.0.1:{controller}"
                settings = {**settings, **more}
            config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            storage = [*java, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg"]
            done = subprocess.run([*storage, "-c", str(config)], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"kafka.tools.StorageTool failed:\n{done.stdout}{done.stderr}")
        return [*java, "kafka.Kafka", str(config)]


def target_class() -> type[Broker]:
    """Returns the class that BOWSTRING_TEST_TARGET selects."""
    name = os.environ.get("BOWSTRING_TEST_TARGET", "bowstring")
    classes: dict[str, type[Broker]] = {"bowstring": BowstringBroker, "kafka": KafkaBroker}
    if name not in classes:
        raise ValueError(f"BOWSTRING_TEST_TARGET={name}: choose one of {', '.join(classes)}")
    return classes[name]
