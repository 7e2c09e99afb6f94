"""A million bad frames leave the broker's memory and files where they were."""

import struct
import threading

from tests.support.wire import (
    API_VERSIONS,
    Wire,
    batch,
    frame,
    produce,
    produce_answer,
    record,
    request,
    string,
)
from tests.system.bad_input.victim import Victim

MIB = 1 << 20
ANSWERED, CLOSING = 990_000, 10_000
WINDOW = 500
V = record(b"v")


def answered_frames(topic: str) -> list[bytes]:
    """Bad frames that are answered with an error, so that the connection lives on."""
    unknown = frame(struct.pack(">hhi", API_VERSIONS, 127, 1) + string("wire") + b"\0\x05wire\x051.00\0")
    bad = [
        batch(V, 1, crc=0),
        batch(V, 2),
        batch(b"\xff" * 12, 1),
        batch(V, 1, length=5000),
        batch(V, 1, magic=3),
    ]
    return [unknown, *(produce(topic, each) for each in bad), produce(topic, bad[0], partition=9)]


def pump(wire: Wire, frames: list[bytes], count: int) -> int:
    """Sends `count` frames in windows and reads an answer to each; returns the answers read."""
    window = b"".join(frames[i % len(frames)] for i in range(WINDOW))
    stream = wire.sock.makefile("rb", 1 << 20)
    answers = 0
    while answers < count:
        sender = threading.Thread(target=wire.send, args=(window,))
        sender.start()
        for _ in range(WINDOW):
            (length,) = struct.unpack(">i", stream.read(4))
            assert len(stream.read(length)) == length
        sender.join()
        answers += WINDOW
    return answers


def close_by_bad_frames(victim: Victim, count: int) -> None:
    """Connections that are each closed for a bad frame."""
    bad = [struct.pack(">i", -1), request(9999, 0), frame(b"\0"), request(API_VERSIONS, 0)[:-1] + b"\xff\xff"]
    for number in range(count):
        with victim.connect() as wire:
            wire.send(bad[number % 3])
            assert wire.closed()


def test_a_million_bad_frames_leave_memory_flat(victim: Victim) -> None:
    frames = answered_frames(victim.topic)
    with victim.connect() as wire:
        pump(wire, frames, ANSWERED // 10)
        close_by_bad_frames(victim, CLOSING // 10)
        files, warm = victim.broker.open_files(), victim.broker.rss_bytes()
        sent = pump(wire, frames, ANSWERED * 9 // 10)
        close_by_bad_frames(victim, CLOSING * 9 // 10)
        assert sent >= ANSWERED * 9 // 10
        grown = victim.broker.rss_bytes() - warm
        assert grown < 4 * MIB or not victim.terse, f"{grown / MIB:.1f} MiB more after a million bad frames"
        assert victim.broker.open_files() <= files + 10
        answer = wire.ask(produce(victim.topic, batch(V, 1, crc=0)))
        assert answer is not None
        assert produce_answer(answer, victim.topic)[0] == 2
