"""Seeded fuzzing of the broker's handlers: well-formed requests of every API and version with hostile values.

By hand: `python -m tests.fuzz.test_value_fuzz --seconds 600 [--seed N]`. The same seed sends the same requests.
"""

import argparse
import os
import random
import tempfile
import time
from pathlib import Path

from bowstring.engine.api.table import BY_BROKER
from bowstring.protocol.messages import create_topics as ct
from bowstring.protocol.messages import metadata as md
from tests.support.hostile_values import TOPICS, HostileRequests
from tests.support.target import target_class
from tests.support.wire import Wire, frame
from tests.support.wire_client import WireClient

SEED = int(os.environ.get("BOWSTRING_FUZZ_SEED", "20240519"))
SECONDS = float(os.environ.get("BOWSTRING_FUZZ_SECONDS", "5"))
LEAST = 600
MIB = 1 << 20
# Few partitions of internal topics, so that they are ready at once.
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
CHECKED_EVERY = 50
ANSWER_TIMEOUT_S = 0.3


def created(client: WireClient) -> tuple[bytes, ...]:
    """Creates the topics; returns their ids."""
    topics = [ct.CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in TOPICS]
    answer = client.ask(ct.CreateTopicsRequest(topics=topics))
    assert not any(topic.error_code for topic in answer.topics), answer
    return tuple(topic.topic_id for topic in answer.topics)


def fuzz(directory: Path, seed: int, seconds: float) -> int:
    """Sends requests for that long, and LEAST of them; returns how many."""
    broker = target_class()(directory, SETTINGS)
    broker.start()
    sent, deadline = 0, time.monotonic() + seconds
    keys = [key for key in BY_BROKER.offered if key != 0]
    try:
        other = WireClient(broker.port)
        requests = HostileRequests(seed, created(other))
        wire = Wire(broker.host, broker.port, timeout_s=ANSWER_TIMEOUT_S)
        while time.monotonic() < deadline or sent < LEAST:
            key = keys[sent % len(keys)]
            version, payload = requests.payload(key)
            sent += 1
            try:
                wire.send(frame(payload))
                answered = wire.receive() is not None
            except (ConnectionError, TimeoutError):
                answered = False
            if not answered:
                # It was closed for a value that no answer can hold, or the request waits, as it may.
                wire.sock.close()
                wire = Wire(broker.host, broker.port, timeout_s=ANSWER_TIMEOUT_S)
            if sent % CHECKED_EVERY == 0:
                assert broker.alive(), f"API {key} version {version}: {broker.tail()}"
                assert other.ask(md.MetadataRequest(topics=[])).error_code == 0
        wire.sock.close()
        assert broker.rss_bytes() < 512 * MIB
        lines = broker.log_lines()
        faults = [at for at, line in enumerate(lines) if "Traceback" in line]
        assert not faults, lines[max(0, faults[0] - 2) : faults[0] + 40]
        assert broker.stop() in (0, 143)
    finally:
        if broker.alive():
            broker.kill()
    return sent


def test_values(tmp_path: Path) -> None:
    assert fuzz(tmp_path, SEED, SECONDS) >= LEAST


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz a broker's handlers through a socket.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory() as directory:
        print(f"{fuzz(Path(directory), arguments.seed, arguments.seconds)} requests")


if __name__ == "__main__":
    main()
