"""A broker is killed while the pool of its staged tails is used up: it starts quickly, and has all it acknowledged.

Producing goes on until the metrics say that all chunks are taken; the kill comes while the next request is under way.
"""

import re
import signal
import struct
import threading
import time
import urllib.request
from dataclasses import dataclass, field

import pytest

import bowstring
from bowstring._native.record.encode import encode_batch
from bowstring.engine.storage.staged_tails import POOL_BYTES, TAILS_FILE
from bowstring.protocol.messages import create_topics as ct
from bowstring.protocol.messages import produce as p
from tests.support.serving import Process
from tests.support.waiting import HANG_S, pause
from tests.support.wire_client import WireClient

TOPIC, PARTITIONS = "events", 300
# Larger than half of a chunk of 16 KiB, so each partition takes one of 64 KiB: 256 of them are the pool.
VALUE_BYTES = 20_000
START_S_MAX = 30.0
HEADERS_AT, HEADER_BYTES = 4096, 512
NUMBER = struct.Struct(">II")  # partition, round


@dataclass
class Rounds:
    """Requests with a batch for each partition, one after the other, until the broker is gone.

    Attributes:
        acked: How many were acknowledged.
        sent: One more, if the last had no answer.
    """

    port: int
    acked: int = 0
    sent: int = 0
    problems: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Produces until the connection ends."""
        client = WireClient(self.port)
        filler = b"x" * (VALUE_BYTES - NUMBER.size)
        while True:
            batches = [
                p.PartitionProduceData(
                    index=i,
                    records=encode_batch(
                        [(None, NUMBER.pack(i, self.sent) + filler, time.time_ns() // 1_000_000, [])]
                    ),
                )
                for i in range(PARTITIONS)
            ]
            request = p.ProduceRequest(
                acks=-1,
                timeout_ms=60_000,
                topic_data=[p.TopicProduceData(name=TOPIC, partition_data=batches)],
            )
            self.sent += 1
            try:
                answer = client.ask(request, 9)
            except (OSError, AssertionError, EOFError):
                return  # the kill
            errors = {each.error_code for each in answer.responses[0].partition_responses}
            if errors != {0}:
                self.problems.append(f"errors {errors}")
                return
            self.acked += 1


def pool_taken(metrics_port: int, mode: str) -> int:
    """Bytes of the pool that are taken, by the broker's metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=HANG_S) as answer:
        text = answer.read().decode()
    found = re.findall(rf'^bowstring_staged_tails_bytes{{.*mode="{mode}".*}} (\S+)$', text, re.MULTILINE)
    return int(float(found[0]))


def staged_in(data) -> tuple[int, int]:
    """(chunks, bytes) that a pool's file has staged."""
    pool = (data / TAILS_FILE).read_bytes()
    units = POOL_BYTES // (16 << 10)
    lengths = [struct.unpack_from("<q", pool, HEADERS_AT + i * HEADER_BYTES)[0] for i in range(units)]
    return sum(length > 0 for length in lengths), sum(lengths)


def produce_until_full_and_kill(process: Process, mode: str) -> Rounds:
    """Kills the broker when the pool is used up."""
    topic = ct.CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    client = WireClient(process.port)
    assert client.ask(ct.CreateTopicsRequest(topics=[topic], timeout_ms=60_000)).topics[0].error_code == 0
    rounds = Rounds(process.port)
    producing = threading.Thread(target=rounds.run, daemon=True)
    producing.start()
    deadline = time.monotonic() + HANG_S
    while pool_taken(process.facts["metrics_port"], mode) < POOL_BYTES or rounds.acked < 3:
        assert time.monotonic() < deadline and not rounds.problems, f"the pool is not used up: {rounds}"
        pause(0.002, "between two looks")
    process.stop(signal.SIGKILL)
    producing.join(HANG_S)
    assert not rounds.problems, rounds.problems
    return rounds


def check(port: int, rounds: Rounds) -> None:
    """Every partition has its acknowledged records, once and in order; perhaps also unanswered ones."""
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    deadline = time.monotonic() + HANG_S
    with bowstring.Consumer(f"127.0.0.1:{port}", auto_offset_reset="earliest") as consumer:
        consumer.assign([(TOPIC, i) for i in range(PARTITIONS)])
        while min(map(len, found)) < rounds.acked:
            assert time.monotonic() < deadline, f"{min(map(len, found))} of {rounds.acked} rounds are there"
            for record in consumer.poll(timeout=1):
                partition, number = NUMBER.unpack_from(record.value)
                assert partition == record.partition and len(record.value) == VALUE_BYTES
                assert record.offset == len(found[partition])
                found[partition].append(number)
    for partition, numbers in enumerate(found):
        assert numbers == list(range(len(numbers))) and rounds.acked <= len(numbers) <= rounds.sent, partition


@pytest.mark.timeout(400)
@pytest.mark.parametrize("mode", ["os", "commit"])
def test_killed_with_a_full_pool(tmp_path, mode):
    data = tmp_path / "data"
    settings = {
        "bowstring.tail.from.bytes": 0,  # segments are small here
        "bowstring.durability": mode,
    }
    arguments = ["--data", str(data), "--host", "127.0.0.1", "--port", "0", "--metrics-port", "0"]
    arguments += [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    rounds = produce_until_full_and_kill(Process(*arguments), mode)
    chunks, staged_bytes = staged_in(data)
    if mode == "os":
        assert chunks >= 64 and staged_bytes > POOL_BYTES // 8
    begin = time.monotonic()
    process = Process(*arguments)
    took = time.monotonic() - begin
    try:
        check(process.port, rounds)
    finally:
        process.stop(signal.SIGTERM)
    begin = time.monotonic()
    process = Process(*arguments)
    clean = time.monotonic() - begin
    process.stop(signal.SIGTERM)
    print(
        f"\n{mode}: killed with {chunks} chunks and {staged_bytes / 1e6:.1f} MB in the pool's file after"
        f" {rounds.acked} rounds; start {took:.2f} s, after a clean stop {clean:.2f} s"
    )
    assert took <= START_S_MAX
