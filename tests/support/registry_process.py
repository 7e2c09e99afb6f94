"""A registry in a process of its own, spoken to in lines of JSON: what kill -9 needs.

`python -m tests.support.registry_process BOOTSTRAP URL SESSION_S` answers each line [number, subject, schema] with
[number, kind, answer]: "id" the id, "elsewhere" the URL of the leader or null, "error" the code; and tells with
[0, "leader", is_leader] who leads.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import threading
from typing import Any

from bowstring.registry.operations.registration import decide_register
from bowstring.registry.registry_error import RegistryError
from bowstring.registry.registry_node import NodeSettings, NotLeader, RegistryNode
from bowstring.registry.store.elector import GroupTimes
from bowstring.registry.store.store_target import StoreTarget

# Failures are noticed sooner than by default; the broker's group.min.session.timeout.ms allows it.
TIMES = GroupTimes(session_timeout_s=2.0, rebalance_timeout_s=10.0, heartbeat_interval_s=0.2)
LOOK_S = 0.05


def settings_of(bootstrap_servers: str, url: str, **more: Any) -> NodeSettings:
    """Settings that notice failures soon."""
    return NodeSettings(StoreTarget(bootstrap_servers), url, times=TIMES, takeover_wait_s=2.0, **more)


async def _serve(bootstrap_servers: str, url: str, session_s: str) -> None:
    settings = settings_of(bootstrap_servers, url)
    times = settings.times._replace(session_timeout_s=float(session_s))
    node = RegistryNode(settings._replace(times=times))
    await node.start()
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    watching = asyncio.ensure_future(_tell_leader(node))
    tasks = set()
    while line := await lines.readline():
        number, subject, schema = json.loads(line)
        task = asyncio.ensure_future(_register(node, number, subject, schema))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    watching.cancel()
    await node.stop()


async def _register(node: RegistryNode, number: int, subject: str, schema: str) -> None:
    try:
        answer = await node.write(lambda image: decide_register(image, subject, {"schema": schema}))
    except NotLeader as error:
        _say(number, "elsewhere", error.leader_url)
    except RegistryError as error:
        _say(number, "error", error.code)
    else:
        _say(number, "id", answer["id"])


async def _tell_leader(node: RegistryNode) -> None:
    while True:
        _say(0, "leader", node.is_leader)
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(LOOK_S, over.set_result, None)
        await over


def _say(number: int, kind: str, answer: Any) -> None:
    sys.stdout.write(json.dumps([number, kind, answer]) + "\n")
    sys.stdout.flush()


class RegistryProcess:
    """The process, as its parent sees it.

    Attributes:
        leads: what it said last of itself.
    """

    def __init__(self, bootstrap_servers: str, url: str, session_s: float = TIMES.session_timeout_s):
        self.url = url
        self.leads = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, bootstrap_servers, url, str(session_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._waiting: dict[int, tuple[threading.Event, list[Any]]] = {}
        self._number = 0
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def register(self, subject: str, schema: str, timeout_s: float) -> tuple[str, Any]:
        """Registers a schema; the kind is "gone" when the process ended, or did not answer."""
        answered = threading.Event()
        answer: list[Any] = []
        with self._lock:
            self._number += 1
            number = self._number
            self._waiting[number] = answered, answer
            try:
                assert self._process.stdin is not None
                self._process.stdin.write(json.dumps([number, subject, schema]) + "\n")
            except (BrokenPipeError, ValueError):
                return "gone", None
        answered.wait(timeout_s)
        return answer[0] if answer else ("gone", None)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, kind, told = json.loads(line)
            if not number:
                self.leads = told
                continue
            answered, answer = self._waiting.pop(number)
            answer.append((kind, told))
            answered.set()
        self.leads = False
        for answered, _ in list(self._waiting.values()):
            answered.set()

    def kill(self) -> None:
        """kill -9."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def freeze(self) -> None:
        """Stops it until `thaw`."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets it go on."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ends it in good order."""
        assert self._process.stdin is not None
        self._process.send_signal(signal.SIGCONT)
        with self._lock:
            if not self._process.stdin.closed:
                with contextlib.suppress(BrokenPipeError):
                    self._process.stdin.close()
        self._process.wait()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:4]))
