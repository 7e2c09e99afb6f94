"""Drives other machines through an agent (bench.kreps.agent), started over SSH or by a printed command.

Nothing is copied: each machine needs a checkout of the same revision, built by `make ext`, and for Apache
Kafka and the Java clients a JDK and Maven. Clocks are never compared: a load measures itself on its own
machine, and a broker's CPU and memory are read on its own.
"""

from __future__ import annotations

import hmac
import itertools
import json
import secrets
import shlex
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import IO, Any

from bench.kreps.agent import revision
from bench.kreps.loads import READY_SECONDS, Client, Done, Load, Order
from bench.kreps.machines import BrokerOrder, Machine
from bench.kreps.replicas import ReplicaFacts
from bench.limits.loops import LoopResult
from bench.peers.install import PeerError

SSH = "ssh -T -o BatchMode=yes -o ServerAliveInterval=15"
HELLO_SECONDS = 60.0
CALL_SECONDS = 60.0
# Limit for calls that may install Kafka, wait for a broker, fill a large memory or read many files.
LONG_CALL_SECONDS = 900.0
CLOSE_SECONDS = 30.0


@dataclass(frozen=True)
class Target:
    """A machine as the command line names it: `DESTINATION[=ADDRESS]`.

    Attributes:
        destination: For ssh: a host, user@host, or a name of ~/.ssh/config.
        address: Under which the other machines reach it.
    """

    destination: str
    address: str

    @classmethod
    def parse(cls, text: str) -> Target:
        """From the command line; the address is the destination's host unless it is given."""
        destination, _, address = text.partition("=")
        return cls(destination, address or destination.rpartition("@")[2])


@dataclass(frozen=True)
class Checkout:
    """Location of the source on the other machines.

    Attributes:
        directory: Of the checkout.
        python: Relative to it.
        work: A directory with room for records; "" for the machine's TMPDIR.
    """

    directory: str
    python: str = ".venv/bin/python"
    work: str = ""

    def command(self, target: Target, *options: str) -> str:
        """Returns the shell command that runs an agent."""
        parts = [self.python, "-m", "bench.kreps.agent", "--address", target.address, *options]
        if self.work:
            parts += ["--work", self.work]
        return f"cd {shlex.quote(self.directory)} && exec {shlex.join(parts)}"


class Channel:
    """Sends requests to an agent and receives its answers.

    Args:
        name: Name of the machine in errors.
        last_words: Returns why the connection may have ended.
    """

    def __init__(self, name: str, answers: IO[str], requests: IO[str], last_words: Callable[[], str]):
        self.name = name
        self._answers = answers
        self._requests = requests
        self._last_words = last_words
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[Future[Any], Callable[[Any], None] | None]] = {}
        self._ended = False
        threading.Thread(target=self._read, name=name, daemon=True).start()

    def ask(self, do: str, told: Callable[[Any], None] | None = None, **what: Any) -> Future[Any]:
        """Sends a request; calls `told` with reports before the answer."""
        future: Future[Any] = Future()
        with self._lock:
            if self._ended:
                raise PeerError(self._gone())
            number = next(self._numbers)
            self._waiting[number] = (future, told)
            try:
                self._requests.write(json.dumps({"id": number, "do": do, "with": what}) + "\n")
                self._requests.flush()
            except OSError:
                raise PeerError(self._gone()) from None
        return future

    def call(self, do: str, timeout_seconds: float = CALL_SECONDS, **what: Any) -> Any:
        """Sends a request and returns its answer.

        Raises:
            PeerError: the request failed there, or the connection ended.
        """
        return self.wait(self.ask(do, **what), timeout_seconds)

    def wait(self, future: Future[Any], timeout_seconds: float) -> Any:
        """Returns the answer to a request; raises like `call`."""
        try:
            return future.result(timeout_seconds)
        except FutureTimeout:
            raise PeerError(f"{self.name} did not answer within {timeout_seconds:.0f} s") from None

    def _read(self) -> None:
        try:
            for line in self._answers:
                self._heard(json.loads(line))
        except (OSError, ValueError):
            pass  # the connection ended in the middle of a line
        with self._lock:
            self._ended = True
            waiting = list(self._waiting.values())
        for future, _ in waiting:
            future.set_exception(PeerError(self._gone()))

    def _heard(self, said: dict[str, Any]) -> None:
        future, told = self._waiting[said["id"]]
        if "so_far" in said:
            if told is not None:
                told(said["so_far"])
            return
        with self._lock:
            del self._waiting[said["id"]]
        if "error" in said:
            future.set_exception(PeerError(f"{self.name}: {said['error']}"))
        else:
            future.set_result(said["answer"])

    def _gone(self) -> str:
        return f"the connection to {self.name} ended: {self._last_words() or 'it said nothing'}"


class Remote(Machine):
    """A machine with an agent.

    Args:
        close: Ends the connection, and with it the agent and everything that it started.
    """

    def __init__(self, target: Target, channel: Channel, close: Callable[[], None]):
        self.name = target.destination
        self.address = target.address
        self._channel = channel
        self._close = close
        self._loads = itertools.count(1)

    def facts(self) -> dict[str, str]:
        """See Machine."""
        return dict(self._channel.call("facts"))

    def free_bytes(self) -> int:
        """See Machine."""
        return int(self._channel.call("free_bytes"))

    def free_ports(self, count: int) -> list[int]:
        """See Machine."""
        return list(self._channel.call("free_ports", count=count))

    def prepare(self, order: BrokerOrder) -> int:
        """See Machine."""
        return int(self._channel.call("prepare", LONG_CALL_SECONDS, order=asdict(order)))

    def launch(self, key: str) -> None:
        """See Machine."""
        self._channel.call("launch", key=key)

    def await_ready(self, key: str) -> str:
        """See Machine."""
        return str(self._channel.call("await_ready", LONG_CALL_SECONDS, key=key))

    def kill(self, key: str) -> None:
        """See Machine."""
        self._channel.call("kill", key=key)

    def usage(self, key: str) -> tuple[float, int]:
        """See Machine."""
        used, resident = self._channel.call("usage", key=key)
        return used, resident

    def evict(self, key: str, topic: str) -> None:
        """See Machine."""
        self._channel.call("evict", LONG_CALL_SECONDS, key=key, topic=topic)

    def replicas(self, key: str, topic: str) -> dict[int, ReplicaFacts]:
        """See Machine."""
        found = self._channel.call("replicas", LONG_CALL_SECONDS, key=key, topic=topic)
        return {int(partition): ReplicaFacts(*facts) for partition, facts in found.items()}

    def settle(self, *, fill_memory: bool) -> None:
        """See Machine."""
        self._channel.call("settle", LONG_CALL_SECONDS, fill_memory=fill_memory)

    def begin(self, client: Client, order: Order) -> Load:
        """See Machine."""
        return RemoteLoad(self._channel, next(self._loads), client, order)

    def run_loop(self, loop: str, options: Mapping[str, int]) -> LoopResult:
        """See Machine."""
        return LoopResult(
            **self._channel.call("run_loop", LONG_CALL_SECONDS, loop=loop, options=dict(options))
        )

    def stored_step(self, key: str, options: Mapping[str, int], mib: int) -> LoopResult:
        """See Machine."""
        found = self._channel.call("stored_step", LONG_CALL_SECONDS, key=key, options=dict(options), mib=mib)
        return LoopResult(**found)

    def stored_end(self, key: str) -> None:
        """See Machine."""
        self._channel.call("stored_end", LONG_CALL_SECONDS, key=key)

    def close(self) -> None:
        """See Machine."""
        self._close()


class RemoteLoad(Load):
    """A load that an agent runs."""

    def __init__(self, channel: Channel, number: int, client: Client, order: Order):
        self._channel = channel
        self._number = number
        self._made = channel.ask("begin", load=number, client=client, order=asdict(order))

    def await_ready(self) -> None:
        """See Load."""
        self._channel.wait(self._made, READY_SECONDS + CALL_SECONDS)

    def go(self) -> None:
        """See Load."""
        self._channel.call("go", load=self._number)

    def finish(self, timeout_seconds: float) -> Done:
        """See Load."""
        asked = self._channel.ask("finish", self._told, load=self._number, timeout_seconds=timeout_seconds)
        done = self._channel.wait(asked, timeout_seconds + CALL_SECONDS)
        return Done(**done | {"timeline": [(at, records) for at, records in done["timeline"]]})

    def kill(self) -> None:
        """See Load."""
        self._channel.call("kill_load", load=self._number)

    def _told(self, so_far: tuple[int, float | None]) -> None:
        self.records_so_far, self.latency_ms = so_far


def over_ssh(target: Target, checkout: Checkout, ssh: str = SSH) -> Remote:
    """Starts an agent over SSH.

    Args:
        ssh: The command and its options; destination and remote command are added.

    Raises:
        PeerError: it does not start; the message has ssh's output.
    """
    command = [*shlex.split(ssh), target.destination, checkout.command(target)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for the bench, which ends its agents itself
    )
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    stderr, said = process.stderr, deque[str](maxlen=20)
    listener = threading.Thread(target=lambda: said.extend(stderr), daemon=True)
    listener.start()

    def close() -> None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # it has already ended
            process.stdin.close()
        try:
            process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def last_words() -> str:
        listener.join(2)
        return "".join(said).strip()

    timer = threading.Timer(HELLO_SECONDS, process.kill)
    timer.start()
    try:
        hello = _hello(process.stdout)
    finally:
        timer.cancel()
    if hello is None:
        close()
        raise PeerError(
            f"no agent on {target.destination}: {last_words() or 'ssh printed nothing'}\nCommand: "
            f"{shlex.join(command)}\nIt needs a login without a password and, in {checkout.directory}, a "
            "checkout built by `make ext` (--remote-directory, --remote-python)"
        )
    _check(hello, target, close)
    return Remote(target, Channel(target.destination, process.stdout, process.stdin, last_words), close)


class Switchboard:
    """Waits for agents that people start by hand with the printed commands.

    Args:
        listen: `HOST:PORT` of this machine that the others reach; port 0 for any.
    """

    def __init__(self, listen: str):
        host, _, port = listen.rpartition(":")
        self._host = host or socket.gethostname()
        try:
            self._socket = socket.create_server((self._host, int(port or 0)))
        except OSError as error:
            raise PeerError(f"cannot listen on {listen}: {error}; give --listen HOST:PORT") from error
        # Not token_urlsafe: one that begins with "-" would be taken for an option.
        self._token = secrets.token_hex(16)

    def command(self, target: Target, checkout: Checkout) -> str:
        """Returns the command to run on a machine."""
        port = self._socket.getsockname()[1]
        return checkout.command(target, "--connect", f"{self._host}:{port}", "--token", self._token)

    def wait(self, targets: list[Target], timeout_seconds: float) -> list[Remote]:
        """Returns when all agents have connected.

        Raises:
            PeerError: some did not in time, or have a different checkout.
        """
        came: dict[str, Remote] = {}
        end = time.monotonic() + timeout_seconds
        try:
            while missing := [each for each in targets if each.address not in came]:
                self._socket.settimeout(max(0.01, end - time.monotonic()))
                try:
                    connection, _ = self._socket.accept()
                except TimeoutError:
                    names = ", ".join(each.destination for each in missing)
                    raise PeerError(f"no connection within {timeout_seconds:.0f} s from: {names}") from None
                if remote := self._admit(connection, missing):
                    came[remote.address] = remote
        except BaseException:
            for remote in came.values():
                remote.close()
            raise
        finally:
            self._socket.close()
        return [came[each.address] for each in targets]

    def _admit(self, connection: socket.socket, missing: list[Target]) -> Remote | None:
        connection.settimeout(10)
        answers, requests = connection.makefile("r"), connection.makefile("w")
        hello = _hello(answers) or {}
        target = next((each for each in missing if each.address == hello.get("address")), None)
        if target is None or not hmac.compare_digest(str(hello.get("token")), self._token):
            connection.close()
            return None
        connection.settimeout(None)

        def close() -> None:
            with suppress(OSError):  # it has already ended
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

        _check(hello, target, close)
        return Remote(target, Channel(target.destination, answers, requests, lambda: ""), close)


def _hello(answers: IO[str]) -> dict[str, Any] | None:
    """Reads an agent's first line; skips what a login prints before it."""
    try:
        for line in answers:
            if line.startswith('{"agent"'):
                found = json.loads(line)
                return found if isinstance(found, dict) else None
    except (OSError, ValueError):
        return None
    return None


def _check(hello: dict[str, Any], target: Target, close: Callable[[], None]) -> None:
    if hello["agent"] != revision():
        close()
        raise PeerError(
            f"the checkout on {target.destination} is another revision: update it to the revision here"
        )
