"""Talks to a cluster of Kafka Connect by its REST API; bounds how long it waits and what it reads."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit

import h11

from bowstring.clients.errors import ClientError, ConfigError
from bowstring.clients.http_login import HttpLogin
from bowstring.console.connect.http_exchange import Address, TooLargeError, exchange

T = TypeVar("T")

READ_S = 2.5
"""Less than live pages wait before they call the cluster away."""
CHANGE_S = 20.0
"""A validation may contact other systems."""
ANSWER_BYTES_MAX = 2 << 20
LARGE_BYTES = 256 << 10
"""Larger JSON is parsed in a thread."""
AT_ONCE = 6
AWAY_S = 3.0
"""A cluster that could not be reached is not asked again for so long."""
FAILED_S = 3.0
"""A refusal is not kept longer."""
ANSWERS_MAX = 32
_WRONG = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class ConnectError(ClientError):
    """A cluster of Kafka Connect does not answer, or refuses. `status`: HTTP's; 0 without an answer. What it
    says may be long, and repeat secrets.
    """

    def __init__(self, message: str, status: int = 0):
        super().__init__(message)
        self.status = status


class _Kept:
    """An answer on its way, or one that is fresh for a while."""

    __slots__ = ("at", "task")

    def __init__(self, task: asyncio.Task[Any]):
        self.task, self.at = task, time.monotonic()
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    def is_older(self, seconds: float) -> bool:
        """Whether it is there and older; a failure is soon too old."""
        if not self.task.done():
            return False
        has_failed = self.task.cancelled() or self.task.exception() is not None
        return time.monotonic() - self.at > (min(seconds, FAILED_S) if has_failed else seconds)


class ConnectCluster:
    """One cluster of Kafka Connect. Belongs to the event loop of the console.

    Args:
        url: such as http://connect:8083 or http://user:password@connect:8083.
        login: how to log in, where the address has no user.

    Attributes:
        address: without user and password; names the cluster in addresses of pages.

    Raises:
        ConfigError: the address is not one of HTTP, or a certificate cannot be read.
    """

    def __init__(self, url: str, login: HttpLogin = HttpLogin()):  # noqa: B008
        self._place, user, password = _parsed(url)
        self.address = str(self._place)
        self._headers = {"accept": "application/json", "user-agent": "bowstring-console"}
        if user:
            login = login._replace(user=user, password=password)
        if said := login.authorization():
            self._headers["authorization"] = said
        self._tls = login.tls("Kafka Connect") if self._place.scheme == "https" else None
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._away: tuple[float, ConnectError] | None = None
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def __repr__(self) -> str:
        return f"<ConnectCluster {self.address}>"

    async def get(
        self,
        path: str,
        seconds: float,
        read: Callable[[Any], T],
        *,
        bytes_max: int = ANSWER_BYTES_MAX,
    ) -> T:
        """Returns an answer to GET that is at most `seconds` old; all who ask meanwhile share one.

        Args:
            path: with its query; segments are quoted.
            seconds: how old the answer may be.
            read: makes something of the JSON; what it raises means that the answer is none of Connect's.
            bytes_max: of the answer.

        Raises:
            ConnectError: no answer, a refusal, or something else than Connect answers.
        """
        kept = self._kept.get(path)
        if kept is None or kept.is_older(seconds):
            kept = self._kept[path] = _Kept(asyncio.ensure_future(self._asked(path, read, bytes_max)))
            self._kept.move_to_end(path)
            while len(self._kept) > ANSWERS_MAX:
                self._kept.popitem(last=False)
        # Shielded: a page that is left does not cancel the answer for the others.
        return await asyncio.shield(kept.task)

    async def _asked(self, path: str, read: Callable[[Any], T], bytes_max: int) -> T:
        if self._away is not None and time.monotonic() - self._away[0] < AWAY_S:
            raise self._away[1].with_traceback(None)
        return self._read(await self._call("GET", path, None, READ_S, bytes_max), read)

    async def change(
        self, method: str, path: str, body: Any = None, read: Callable[[Any], T] | None = None
    ) -> T | None:
        """Sends a request that changes something, or that checks a config; all kept answers end.

        Raises:
            ConnectError: no answer, a refusal, or something else than Connect answers.
        """
        try:
            answer = await self._call(method, path, body, CHANGE_S, ANSWER_BYTES_MAX)
        finally:
            self._kept.clear()
        return None if read is None else self._read(answer, read)

    def _read(self, answer: Any, read: Callable[[Any], T]) -> T:
        try:
            return read(answer)
        except _WRONG as error:
            raise self._garbled(error) from None

    async def _call(self, method: str, path: str, body: Any, timeout_s: float, bytes_max: int) -> Any:
        headers, data = self._headers, b""
        if body is not None:
            headers, data = headers | {"content-type": "application/json"}, json.dumps(body).encode()
        began = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s), self._slots:
                status, found = await exchange(
                    self._place,
                    method,
                    path,
                    headers,
                    data,
                    tls=self._tls,
                    timeout_s=timeout_s,
                    bytes_max=bytes_max,
                )
        except TimeoutError:
            took = time.monotonic() - began
            raise self._silent(f"it has not answered for {took:.1f} s") from None
        except (OSError, h11.RemoteProtocolError, h11.LocalProtocolError) as error:
            failure = self._silent(str(error) or type(error).__name__)
            self._away = (time.monotonic(), failure)
            raise failure from None
        except TooLargeError as error:
            raise self._garbled(error) from None
        self._away = None
        if status == 0 or status >= 300:
            raise self._refusal(status, found)
        return await self._json(found)

    async def _json(self, data: bytes) -> Any:
        try:
            if not data:
                return None
            return await asyncio.to_thread(json.loads, data) if len(data) > LARGE_BYTES else json.loads(data)
        except _WRONG as error:
            raise self._garbled(error) from None

    def _silent(self, reason: str) -> ConnectError:
        return ConnectError(
            f"Kafka Connect at {self.address} does not answer ({reason}): check its address and that it runs."
        )

    def _garbled(self, error: Exception) -> ConnectError:
        # Not its repr: that of a UnicodeDecodeError has the answer, with its secrets.
        said = f"{type(error).__name__}: {error}"
        return ConnectError(
            f"{self.address} answers something else than Kafka Connect ({said:.200}): check that the "
            "address is that of a Connect worker.",
            502,
        )

    def _refusal(self, status: int, data: bytes) -> ConnectError:
        said = ""
        with contextlib.suppress(*_WRONG):
            said = " ".join(str(json.loads(data[:LARGE_BYTES])["message"]).split())
        advice = {
            401: "it refuses the user or the password: check those of --connect-url or --connect-config",
            403: "the console's user may not do this: grant access in Connect",
            404: f"it has no such thing. {said}",
            409: f"it is not ready for this: {said}",
        }.get(status, f"it answered HTTP {status}: {said}" if said else f"it answered HTTP {status}")
        return ConnectError(f"Kafka Connect at {self.address}: {advice.strip()}", status)


def segment(name: str) -> str:
    """Returns a name as one segment of a path."""
    return quote(name.encode("utf-8", "surrogatepass"), safe="")


def _parsed(url: str) -> tuple[Address, str, str]:
    """Returns where an address leads, and its user and password."""
    try:
        parts = urlsplit(url.strip())
        if parts.scheme in ("http", "https") and parts.hostname and not (parts.query or parts.fragment):
            port = parts.port or {"http": 80, "https": 443}[parts.scheme]
            place = Address(parts.scheme, parts.hostname, port, quote(parts.path.rstrip("/"), safe="/%"))
            return place, unquote(parts.username or ""), unquote(parts.password or "")
    except ValueError:
        pass
    named = url.rpartition("@")[2]
    raise ConfigError(f"--connect-url is {named!r}; it must be an address such as http://connect:8083")


_FILE_NAMES: Mapping[str, str] = {
    "ssl.ca.location": "ca_file",
    "ssl.certificate.location": "cert_file",
    "ssl.key.location": "key_file",
}
_USER_INFO = "basic.auth.user.info"


def login_of(path: str) -> HttpLogin:
    """Returns the log-in in a properties file: `basic.auth.user.info=user:password`, `ssl.ca.location`,
    `ssl.certificate.location`, `ssl.key.location`.

    Raises:
        ConfigError: the file cannot be read, or has another key.
    """
    from pathlib import Path

    from bowstring.security.properties_file import parse_properties

    try:
        entries = parse_properties(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"--connect-config: cannot read {path}: {error}") from error
    found: dict[str, str] = {}
    for name, value, line in entries:
        if name == _USER_INFO:
            found["user"], _, found["password"] = value.partition(":")
        elif name in _FILE_NAMES:
            found[_FILE_NAMES[name]] = value
        else:
            known = ", ".join([_USER_INFO, *_FILE_NAMES])
            raise ConfigError(f"--connect-config: line {line} of {path} sets {name!r}; known are {known}")
    return HttpLogin(**found)
