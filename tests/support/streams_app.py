"""Instances of the Kafka Streams application that counts words (tests/conformance/streams/Counts.java)."""

import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

import confluent_kafka

from tests.support import peers
from tests.support.waiting import HANG_S, wait_until


class StreamsApp:
    """One process. It runs an instance of each application.

    Args:
        bootstrap: host:port of a broker.
        stores: Directory for the state, of this process alone.
        applications: Settings by application id.
    """

    def __init__(self, bootstrap: str, stores: Path, applications: dict[str, dict[str, str]]) -> None:
        given = [
            ",".join([name, *(f"{key}={value}" for key, value in settings.items())])
            for name, settings in applications.items()
        ]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self._process = subprocess.Popen(
            [*peers.streams_app(), bootstrap, str(stores), *given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.lines.extend(line.rstrip() for line in self._process.stdout)

    def state(self, application: str) -> str:
        """Returns the last state of an application's instance."""
        said = [line.split()[1] for line in list(self.lines) if line.startswith(f"{application} ")]
        return said[-1] if said else ""

    def wait_for(self, state: str, *applications: str) -> None:
        """Waits until these applications' instances are in a state."""
        wait_until(lambda: all(self.state(name) == state for name in applications), self.tail)

    def tail(self) -> str:
        """Returns what the process said last."""
        self._errors.seek(0)
        return "\n".join([*self.lines[-10:], self._errors.read()[-4000:].decode(errors="replace")])

    def kill(self) -> None:
        """Ends the process with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Lets the instances leave and the process end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(HANG_S)


class Counts:
    """Reads committed counts of words, in order by word."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.by_word: dict[str, list[int]] = {}
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "unused",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        partitions = self._consumer.list_topics(topic, HANG_S).topics[topic].partitions
        self._consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in partitions])

    @property
    def total(self) -> int:
        """Number of counts so far."""
        return sum(map(len, self.by_word.values()))

    def read(self) -> int:
        """Reads the existing records, and returns `total`."""
        for message in self._consumer.consume(1000, 0.1):
            assert message.error() is None, message.error()
            word = (message.key() or b"").decode()
            self.by_word.setdefault(word, []).append(int(message.value() or b""))
        return self.total

    def wait_for(self, total: int, why: Any) -> None:
        """Waits until there are that many counts."""
        wait_until(lambda: self.read() >= total, lambda: f"{self.total} of {total} counts\n{why()}")

    def close(self) -> None:
        """Closes the consumer."""
        self._consumer.close()


def produce_words(bootstrap: str, topic: str, words: list[str]) -> None:
    """Writes words, each confirmed by the broker."""
    failed: list[Any] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for index, word in enumerate(words):
        producer.produce(
            topic,
            word.encode(),
            key=str(index).encode(),
            on_delivery=lambda error, message: failed.append(error) if error else None,
        )
    assert producer.flush(HANG_S) == 0 and not failed, failed
