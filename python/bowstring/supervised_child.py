"""Runs a program over the clients as a child process of the broker, and starts it again when it ends.

A child, not a thread: its work takes Python's lock, which the broker's control thread needs within
milliseconds, and its packages and caches must not be in the broker's memory. It is a program over the
clients, so it sees what its users may see and no more; if it fails, the broker goes on.
"""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from bowstring.engine import background, event_log
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.configs.listener_configs import listener_value
from bowstring.engine.requests.listeners import Listener

MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_STOP_S: Final = 8.0
_STEADY_S: Final = 30.0
"""A child that ran this long may be restarted at once."""
_PAUSES_S: Final = (1.0, 5.0, 30.0)
"""Before the next starts of one that keeps failing; then it is given up."""
_LINE_BYTES: Final = 8192


@dataclass(frozen=True, slots=True)
class ChildProgram:
    """A program to run.

    Attributes:
        name: of its lines in the log.
        arguments: of Python; the program must end when its standard input ends.
        advice: what to do when it cannot run.
        environment: what it gets besides the broker's.
        sockets: file descriptors that it inherits.
    """

    name: str
    arguments: Sequence[str]
    advice: str
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    sockets: Sequence[int] = ()


class SupervisedChild:
    """Keeps a program running until `stop`. Belongs to the event loop of the broker.

    Args:
        program: what to run.
    """

    def __init__(self, program: ChildProgram) -> None:
        self._program = program
        self._process: asyncio.subprocess.Process | None = None
        self._last_line = ""
        self._task = background.spawn(self._supervise(), program.name)

    async def _supervise(self) -> None:
        failures, name = 0, self._program.name
        while True:
            began = asyncio.get_running_loop().time()
            status = await self._run_once()
            if asyncio.get_running_loop().time() - began > _STEADY_S:
                failures = 0
            if failures == len(_PAUSES_S):
                break
            event_log.warning(f"the {name} ended; it starts again", status=status, last_line=self._last_line)
            await asyncio.sleep(_PAUSES_S[failures])
            failures += 1
        event_log.error(
            f"the {name} cannot run, the broker goes on without it; mend the cause in the lines above, then "
            f"{self._program.advice}",
            status=status,
            last_line=self._last_line,
        )

    async def _run_once(self) -> int:
        program = self._program
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *program.arguments,
            env={**os.environ, **program.environment},
            # The pipe breaks however the broker ends, and the program ends with it.
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
            # Ctrl+C in a terminal is for the broker, which ends the program.
            start_new_session=True,
            pass_fds=tuple(program.sockets),
        )
        self._process = process
        assert process.stderr is not None
        while True:
            try:
                line = await process.stderr.readline()
            except ValueError:  # longer than the limit
                continue
            if not line:
                return await process.wait()
            self._last_line = line.decode("utf-8", "replace").rstrip()
            event_log.info(program.name, line=self._last_line)

    async def stop(self) -> None:
        """Ends the program, and waits for that."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        process = self._process
        if process is None or process.returncode is not None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def nearest_listener(listeners: Sequence[Listener]) -> Listener:
    """Returns the listener that a child connects to: those without TLS and SASL are preferred."""
    return min(listeners, key=lambda each: each.has_tls + each.has_sasl)


def address_of(listener: Listener) -> str:
    """Returns `host:port` of a listener, for clients on this machine."""
    host = listener.host if listener.host not in ("", "0.0.0.0", "::") else "127.0.0.1"
    return f"[{host}]:{listener.port}" if ":" in host else f"{host}:{listener.port}"


def security_of(listener: Listener, configs: BrokerConfigs) -> dict[str, str]:
    """Returns settings of a child's clients, as variables of the environment.

    Users give their passwords to the child. Certificates to trust, and a user of the child itself, are for
    the environment of the broker to name, as for every command.
    """
    if listener.protocol == "PLAINTEXT":
        return {}
    found = {"BOWSTRING_SECURITY_PROTOCOL": listener.protocol}
    if listener.has_sasl:
        enabled = {each.upper() for each in listener_value(configs, listener.name, "sasl.enabled.mechanisms")}
        found["BOWSTRING_SASL_MECHANISM"] = next((each for each in MECHANISMS if each in enabled), "")
    return found
