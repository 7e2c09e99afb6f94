"""Sends small requests to brokers each millisecond, from its own process, and notes the answers' times."""

from __future__ import annotations

import multiprocessing
import struct
import time
from multiprocessing.connection import Connection as Pipe
from types import TracebackType
from typing import Final, NamedTuple

from bench.peers.wire import API_METADATA, API_VERSIONS, Connection

PAUSE_S: Final = 0.001
QUESTIONS: Final = {
    "ApiVersions": (API_VERSIONS, 0, b""),
    "Metadata": (API_METADATA, 1, struct.pack(">i", 0)),  # of no topic
}
"""By name: API, version and body. Both are answered by the control thread."""


class Answers(NamedTuple):
    """The times of one broker's answers, in ms."""

    answers: int
    median_ms: float
    longest_ms: float


def _ask(port: int, question: str, pipe: Pipe) -> None:
    """Sends requests until the pipe has something to read, and then sends the times of all answers."""
    took_s: list[float] = []
    with Connection("127.0.0.1", port) as connection:
        connection.call(*QUESTIONS[question])
        pipe.send(None)
        while not pipe.poll():
            begin = time.perf_counter()
            connection.call(*QUESTIONS[question])
            took_s.append(time.perf_counter() - begin)
            time.sleep(PAUSE_S)
    pipe.send(took_s)


class Probe:
    """Probes one broker while the `with` block runs; then `answers` has the times."""

    def __init__(self, port: int, question: str = "ApiVersions") -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_ask, args=(port, question, other), daemon=True)
        self.answers = Answers(0, 0.0, 0.0)

    def __enter__(self) -> Probe:
        self._process.start()
        self._pipe.recv()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.send(None)
        took_ms = sorted(1000 * each for each in self._pipe.recv())
        self._process.join()
        if took_ms:
            self.answers = Answers(len(took_ms), took_ms[len(took_ms) // 2], took_ms[-1])
