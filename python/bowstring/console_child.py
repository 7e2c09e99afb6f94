"""Runs the console of `bowstring serve --console` as a child process of the broker.

A child, not a thread: rendering pages takes Python's lock, which the broker's control thread needs within
milliseconds, and its packages and caches must not be in the broker's memory. It is a program over the
clients, so it sees what its users may see and no more; if it fails, the broker goes on.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from bowstring.engine import background, event_log
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.configs.listener_configs import listener_value
from bowstring.engine.requests.listeners import Listener

MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_STOP_S: Final = 4.0
_STEADY_S: Final = 30.0
"""A console that ran this long may be restarted at once."""
_PAUSES_S: Final = (1.0, 5.0, 30.0)
"""Before the next starts of one that keeps failing; then it is given up."""
_LINE_BYTES: Final = 8192


class ConsoleChild:
    """Keeps the console running until `stop`. Belongs to the event loop of the broker.

    Args:
        listeners: the broker's, with their ports; the console connects to the first one, those without TLS
            and SASL preferred.
        configs: the broker's, for the mechanism that users sign in with.
        port: of the pages, on loopback; 0 for a free one.
    """

    def __init__(self, listeners: Sequence[Listener], configs: BrokerConfigs, port: int) -> None:
        listener = min(listeners, key=lambda each: each.has_tls + each.has_sasl)
        host = listener.host if listener.host not in ("", "0.0.0.0", "::") else "127.0.0.1"
        address = f"[{host}]:{listener.port}" if ":" in host else f"{host}:{listener.port}"
        # "until-stdin-ends": the pipe breaks however the broker ends, and the console ends with it.
        self._command = [
            *(sys.executable, "-m", "bowstring", "console", "--until-stdin-ends"),
            *("--bootstrap-server", address, "--port", str(port)),
        ]
        self._environment = os.environ | _security(listener, configs)
        self._process: asyncio.subprocess.Process | None = None
        self._task = background.spawn(self._supervise(), "console")

    async def _supervise(self) -> None:
        failures = 0
        while True:
            began = asyncio.get_running_loop().time()
            status = await self._run_once()
            if asyncio.get_running_loop().time() - began > _STEADY_S:
                failures = 0
            if failures == len(_PAUSES_S):
                break
            event_log.warning("the console ended; it starts again", status=status)
            await asyncio.sleep(_PAUSES_S[failures])
            failures += 1
        event_log.error(
            "the console cannot run, the broker goes on without it; mend the cause in the lines above, then "
            "run `bowstring console` or restart the broker",
            status=status,
        )

    async def _run_once(self) -> int:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            env=self._environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
            # Ctrl+C in a terminal is for the broker, which ends the console.
            start_new_session=True,
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
            event_log.info("console", line=line.decode("utf-8", "replace").rstrip())

    async def stop(self) -> None:
        """Ends the console, and waits for that."""
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


def _security(listener: Listener, configs: BrokerConfigs) -> dict[str, str]:
    """Returns settings of the console's clients, as variables of the environment; users give their passwords
    to the console. Certificates to trust are for the environment of the broker to name, as for every command.
    """
    if listener.protocol == "PLAINTEXT":
        return {}
    found = {"BOWSTRING_SECURITY_PROTOCOL": listener.protocol}
    if listener.has_sasl:
        enabled = {each.upper() for each in listener_value(configs, listener.name, "sasl.enabled.mechanisms")}
        found["BOWSTRING_SASL_MECHANISM"] = next((each for each in MECHANISMS if each in enabled), "")
    return found
