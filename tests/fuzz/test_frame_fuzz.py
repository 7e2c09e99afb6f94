"""Seeded fuzzing of the broker's frame parser, through a socket: damaged requests of every API and version.

By hand: `python -m tests.fuzz.test_frame_fuzz --seconds 600 [--seed N]`. Each round is one connection and prints its
seed when it fails; the same seed sends the same bytes.
"""

import argparse
import contextlib
import os
import random
import struct
import tempfile
import time
from pathlib import Path

from bowstring.protocol.messages import ApiKeys
from tests.support.example_messages import request_seeds
from tests.support.target import Broker, target_class
from tests.support.wire import (
    Wire,
    batch,
    create_topic,
    fetch,
    frame,
    list_offsets,
    list_offsets_answer,
    metadata,
    produce,
    produce_answer,
    record,
    wait_for_leaders,
)

SEED = int(os.environ.get("BOWSTRING_FUZZ_SEED", "20240519"))
SECONDS = float(os.environ.get("BOWSTRING_FUZZ_SECONDS", "10"))
LEAST = 1_000
MIB = 1 << 20
TOPIC = "fuzzed"
SENTINEL = "sentinel"
SOUND = batch(record(b"sound"), 1)
# Housekeeping runs all the time; nothing is deleted, since the records are from 2023.
SETTINGS = {"log.retention.check.interval.ms": "1000", "log.retention.ms": "-1"}
# Lengths and counts that have broken parsers before.
EDGES = [-(1 << 31), -2, -1, 0, 1, 127, 128, 255, 32767, 32768, 65535, (1 << 31) - 1]
FRAMES_PER_ROUND = 20


def seeds() -> list[bytes]:
    """Sound requests: every declared API and version, and data requests that reach the log.

    UnregisterBroker is left out: with the id of the broker it has effect, as in Kafka, and the broker leads nothing more.
    """
    requests = request_seeds(random.Random(SEED))
    known = [payload for key, _, payload in requests if key != ApiKeys.UNREGISTER_BROKER]
    hot = [produce(TOPIC, SOUND), fetch(TOPIC, 0), list_offsets(TOPIC, 0, -1), metadata(), metadata([TOPIC])]
    hot += [produce(TOPIC, batch(record(b"v" * 300, b"key"), 1, producer=(7, 0, 0)))]
    return known + [each[4:] for each in hot] * (len(known) // 20)


def damage(rng: random.Random, payload: bytes) -> bytes:
    """One payload with a few wounds."""
    data = bytearray(payload)
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        at = rng.randrange(len(data)) if data else 0
        wound = rng.randrange(7)
        if wound == 0 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif wound == 1 and data:
            data[at] = rng.choice((0x00, 0x7F, 0x80, 0xFF))
        elif wound == 2:
            data[at : at + 4] = struct.pack(">i", rng.choice(EDGES))
        elif wound == 3:
            data[at : at + 2] = struct.pack(">H", rng.choice(EDGES) & 0xFFFF)
        elif wound == 4:
            del data[at:]
        elif wound == 5:
            data[at:at] = rng.randbytes(rng.randrange(1, 20))
        elif wound == 6:
            del data[at : at + rng.randrange(1, 9)]
    return bytes(data)


def envelope(rng: random.Random, payload: bytes) -> bytes:
    """A payload behind its length, which is now and then a lie."""
    if rng.random() < 0.97:
        return frame(payload)
    return (
        struct.pack(">i", len(payload) + rng.choice((-5, -1, 1, 100, 1 << 20, 1 << 30, -(1 << 30)))) + payload
    )


class Target:
    """The broker that is fuzzed, with a topic that must come through untouched."""

    def __init__(self, directory: Path) -> None:
        self.broker: Broker = target_class()(directory, SETTINGS)
        self.broker.start()
        with Wire(self.broker.host, self.broker.port) as wire:
            for topic in (TOPIC, SENTINEL):
                wire.ask(create_topic(topic))
                wait_for_leaders(self.broker.bootstrap, topic, 1)
        self.check()

    def round(self, seed: int, known: list[bytes]) -> int:
        """One connection with a burst of damaged frames; returns how many were sent."""
        rng = random.Random(seed)
        frames = [envelope(rng, damage(rng, rng.choice(known))) for _ in range(FRAMES_PER_ROUND)]
        # Closed for a bad frame, or waiting for the rest of one: both are right answers.
        with (
            contextlib.suppress(ConnectionError, TimeoutError),
            Wire(self.broker.host, self.broker.port, timeout_s=0.2) as wire,
        ):
            if rng.random() < 0.3:
                data = b"".join(frames)
                cut = rng.randrange(len(data))
                wire.send(data[:cut])
                wire.send(data[cut:])
            else:
                for each in frames:
                    wire.send(each)
            wire.end()
        return len(frames)

    def check(self) -> None:
        """The sentinel topic takes a record, at the offset that must be its next."""
        with Wire(self.broker.host, self.broker.port) as wire:
            answer = wire.ask(list_offsets(SENTINEL, 0, -1))
            assert answer is not None
            code, end = list_offsets_answer(answer, SENTINEL)
            assert code == 0
            written = wire.ask(produce(SENTINEL, SOUND))
            assert written is not None
            assert produce_answer(written, SENTINEL) == (0, end)
            read = wire.ask(fetch(SENTINEL, end))
            assert read is not None
            assert read.endswith(SOUND[17:])


def fuzz(directory: Path, seed: int, seconds: float) -> int:
    """Sends damaged frames for that long, and LEAST of them; returns how many."""
    target, known = Target(directory), seeds()
    deadline, sent, rounds, warm = time.monotonic() + seconds, 0, 0, 0
    try:
        while time.monotonic() < deadline or sent < LEAST:
            try:
                sent += target.round(seed + rounds, known)
                if rounds % 20 == 0:
                    target.check()
                assert target.broker.alive()
            except BaseException as error:
                error.add_note(f"round seed {seed + rounds}; the broker's log ends:\n{target.broker.tail()}")
                raise
            rounds += 1
            if rounds == 200:
                warm = target.broker.rss_bytes()
        grown = target.broker.rss_bytes() - warm if warm else 0
        assert grown < 64 * MIB, f"{grown / MIB:.0f} MiB more after {sent} frames"
        faults = [line for line in target.broker.log_lines() if "Traceback" in line or "Error:" in line]
        assert not faults or "kafka.Kafka" in " ".join(target.broker.command()), faults[:5]
        assert target.broker.stop() in (0, 143)
    finally:
        if target.broker.alive():
            target.broker.kill()
    return sent


def test_frames(tmp_path: Path) -> None:
    assert fuzz(tmp_path, SEED, SECONDS) >= LEAST


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz a broker's frame parser through a socket.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    with tempfile.TemporaryDirectory() as directory:
        print(f"{fuzz(Path(directory), arguments.seed, arguments.seconds)} frames")


if __name__ == "__main__":
    main()
