"""Runs an agent that executes requests of a bench elsewhere on this machine: `python -m bench.kreps.agent`.

It reads requests, {"id", "do", "with"} in a line of JSON, and answers {"id", "answer"} or {"id", "error"}; a
load also sends {"id", "so_far"}. Over SSH it uses standard input and output; with --connect it connects to
the bench itself. When the connection ends, everything that it started ends, and its records are removed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from bench.kreps.loads import TELL_SECONDS, Load, Order
from bench.kreps.machines import BrokerOrder, Here
from bench.lab import EXPECTED_FAILURES


def revision() -> str:
    """Returns a digest that is equal if two checkouts have the same bench."""
    found = hashlib.sha256()
    here = Path(__file__).parent
    for path in sorted([*here.glob("*.py"), *here.with_name("limits").glob("*.[pch]*")]):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


class Agent:
    """Answers requests, each on its own thread.

    Args:
        here: The machine it drives.
        lines: Where answers go.
    """

    def __init__(self, here: Here, lines: TextIO):
        self._here = here
        self._lines = lines
        self._writing = threading.Lock()
        self._loads: dict[int, Load] = {}
        self._does: dict[str, Callable[..., Any]] = {
            "facts": here.facts,
            "free_bytes": here.free_bytes,
            "free_ports": here.free_ports,
            "prepare": lambda order: here.prepare(_broker_order(order)),
            "launch": here.launch,
            "await_ready": here.await_ready,
            "kill": here.kill,
            "usage": here.usage,
            "evict": here.evict,
            "replicas": here.replicas,
            "settle": here.settle,
            "run_loop": lambda **what: asdict(here.run_loop(**what)),
            "stored_step": lambda **what: asdict(here.stored_step(**what)),
            "stored_end": here.stored_end,
            "begin": self._begin,
            "go": lambda load: self._loads[load].go(),
            "kill_load": lambda load: self._loads[load].kill(),
        }

    def serve(self, requests: TextIO) -> None:
        """Serves requests until they end."""
        for line in requests:
            request = json.loads(line)
            if request["do"] == "close":
                return
            threading.Thread(target=self._answer, args=(request,), daemon=True).start()

    def say(self, what: dict[str, Any]) -> None:
        """Sends one line to the bench."""
        with self._writing:
            self._lines.write(json.dumps(what) + "\n")
            self._lines.flush()

    def _answer(self, request: dict[str, Any]) -> None:
        number = request["id"]
        try:
            if request["do"] == "finish":
                answer = self._finish(number, **request["with"])
            else:
                answer = self._does[request["do"]](**request["with"])
        except EXPECTED_FAILURES as error:
            self.say({"id": number, "error": str(error)})
        except Exception as error:  # a bug, which must be reported to the waiting bench
            self.say({"id": number, "error": f"{type(error).__name__}: {error}"})
            raise
        else:
            self.say({"id": number, "answer": answer})

    def _begin(self, load: int, client: Any, order: dict[str, Any]) -> None:
        self._loads[load] = self._here.begin(client, Order(**order))
        self._loads[load].await_ready()

    def _finish(self, number: int, load: int, timeout_seconds: float) -> dict[str, Any]:
        running = self._loads[load]
        ended = threading.Event()

        def tell() -> None:
            while not ended.wait(TELL_SECONDS):
                self.say({"id": number, "so_far": [running.records_so_far, running.latency_ms]})

        teller = threading.Thread(target=tell, daemon=True)
        teller.start()
        try:
            return asdict(running.finish(timeout_seconds))
        finally:
            ended.set()
            teller.join()
            del self._loads[load]


def _broker_order(order: dict[str, Any]) -> BrokerOrder:
    return BrokerOrder(**order | {"quorum": tuple(tuple(each) for each in order["quorum"])})


def _called(bench: str) -> tuple[TextIO, TextIO]:
    host, _, port = bench.rpartition(":")
    connection = socket.create_connection((host, int(port)))
    return connection.makefile("r"), connection.makefile("w")


def _standard() -> tuple[TextIO, TextIO]:
    # Other output must not be taken for an answer.
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return sys.stdin, lines


def main() -> None:
    """Serves one bench."""
    parser = argparse.ArgumentParser(prog="python -m bench.kreps.agent", description=__doc__)
    parser.add_argument("--work", type=Path, help="where brokers keep records; default: TMPDIR")
    parser.add_argument(
        "--address", required=True, help="of this machine, for brokers and the other machines"
    )
    parser.add_argument("--connect", metavar="HOST:PORT", help="of the bench that printed this command")
    parser.add_argument("--token", default="", help="as printed")
    asked = parser.parse_args()
    requests, lines = _called(asked.connect) if asked.connect else _standard()
    with tempfile.TemporaryDirectory(prefix="bowstring-kreps-", dir=asked.work) as work:
        here = Here(Path(work), asked.address)
        agent = Agent(here, lines)
        try:
            agent.say({"agent": revision(), "address": asked.address, "token": asked.token})
            agent.serve(requests)
        except (ConnectionError, BrokenPipeError):
            print("the bench has gone; ending what it had started here", file=sys.stderr)
        finally:
            here.close()
    # Threads may still wait for processes that have just been ended.
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
