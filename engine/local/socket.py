"""Serves the Unix domain socket through which readers on this machine get segment files
(docs/internals/local-reads.md).

Each broker has one. It runs on the control loop; reading a log, which may wait for the disk, runs on an
executor thread. Reactors are not involved, and without readers it costs nothing: what answers them is
imported when the first one connects.
"""

import asyncio
import errno
import os
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bowstring.engine import background, event_log
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.protocol.ids import format_uuid, random_uuid
from bowstring.protocol.local_read_configs import INSTANCE_CONFIG, SOCKET_CONFIG, TOKEN_CONFIG

if TYPE_CHECKING:
    from bowstring._native.server.data_plane import DataPlane
    from bowstring.engine.local.requests import Access, LocalRequests
    from bowstring.engine.local.tokens import LocalTokens
    from bowstring.engine.metadata.image import Metadata
    from bowstring.engine.requests.led_logs import LedLogs

SOCKET_FILE: Final = "bowstring.local.sock"
# sizeof(sockaddr_un.sun_path) without the NUL
ADDRESS_BYTES_MAX: Final = 107

_BACKLOG: Final = 64
CONNECTIONS_MAX: Final = 256
_REST_S: Final = 0.1


class LocalSocket:
    """Listens, and answers requests one after another on each connection.

    Args:
        directory: Where the socket is if the config names no other path.
        led_logs: The logs that can be read.
        access: Decides who may read them; None: whoever may connect.

    Attributes:
        tokens: What clients log in with; None without `access`.
        path: the socket's path; None before `bind` and after `stop`.
        connections: number of open connections.
        connections_max: more readers are refused.
    """

    def __init__(
        self,
        configs: BrokerConfigs,
        plane: "DataPlane",
        *,
        directory: Path,
        cluster_id: str,
        node_id: int,
        metadata: "Metadata",
        led_logs: "LedLogs",
        access: "Access | None" = None,
    ) -> None:
        self._configs = configs
        self._plane = plane
        self._directory = directory
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._metadata = metadata
        self._led_logs = led_logs
        self._access = access
        self.tokens: LocalTokens | None = None
        if access is not None:
            from bowstring.engine.local import tokens

            self.tokens = tokens.LocalTokens(configs)
        self._setting: str = configs.value(SOCKET_CONFIG)
        self._listener: socket.socket | None = None
        self._is_told = False
        self._identity = (-1, -1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._instance = ""
        self._requests: LocalRequests | None = None
        self.connections_max = CONNECTIONS_MAX
        self.path: Path | None = None

    @property
    def connections(self) -> int:
        """Number of connected readers."""
        return len(self._tasks)

    @property
    def waiting(self) -> int:
        """Number of readers that wait for records."""
        return len(self._requests.waiters) if self._requests is not None else 0

    @property
    def answered(self) -> int:
        """Number of SEGMENTS requests answered since start."""
        return self._requests.answered if self._requests is not None else 0

    def admission(self, principal: str, peer: str, listener: str) -> dict[str, str]:
        """Returns what a logged-in client needs for the socket, by name: the instance, and a token for
        one connection. Empty where no token is needed, or none can be given now.

        Args:
            peer: Its address.
            listener: Name of the listener that its request came through.
        """
        if self.tokens is None or not self._instance:
            return {}
        token = self.tokens.give(principal, peer, listener)
        return {} if token is None else {INSTANCE_CONFIG: self._instance, TOKEN_CONFIG: token}

    # ------------------------------------------------------------ life

    def bind(self) -> None:
        """Binds the socket's path before anything is served, so that a wrong path fails the start.

        If the default path in the log directory cannot be bound, logs a warning and the broker runs without
        the socket.

        Raises:
            ConfigError: The config does not name an absolute path, or names one that is in use.
            OSError: The configured path cannot be bound.
        """
        chosen = self._setting != "on"
        path = Path(self._setting) if chosen else self._directory / SOCKET_FILE
        if not path.is_absolute():
            raise ConfigError(
                f'{SOCKET_CONFIG} is "{self._setting}"; it must be on, off, or an absolute path'
            )
        try:
            self._listener = bind(path, int(self._configs.value(f"{SOCKET_CONFIG}.permissions"), 8))
        except OSError as error:
            if chosen:
                raise OSError(error.errno, f"cannot listen on {path}: {error.strerror or error}") from error
            event_log.warning(
                "local reads are unavailable because the socket could not be created; clients read over "
                "TCP. Set bowstring.local.socket to another path, or to off",
                path=str(path),
                detail=str(error),
            )
            return
        facts = path.lstat()
        self._identity = (facts.st_dev, facts.st_ino)
        self.path = path

    def start(self) -> None:
        """Starts listening if the socket is bound. Call on the control loop."""
        if self._listener is None:
            return
        self._listener.listen(_BACKLOG)
        self._instance = format_uuid(random_uuid())
        # Clients read these from DescribeConfigs, to find the socket and to verify that it belongs to this
        # broker. With access control they get the instance with a token.
        self._configs.static[SOCKET_CONFIG] = str(self.path)
        if self.tokens is None:
            self._configs.static[INSTANCE_CONFIG] = self._instance
        asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept)

    async def stop(self) -> None:
        """Closes every connection and removes the socket."""
        if self._listener is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._listener.fileno())
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._requests is not None:
            loop.remove_reader(self._requests.waiters.fd)
            self._requests.waiters.close()
        self.close()

    def close(self) -> None:
        """Closes and removes the socket. Connections stay: `stop` ends them."""
        if self._listener is None or self.path is None:
            return
        self._listener.close()
        self._listener = None
        try:
            facts = self.path.lstat()
            if (facts.st_dev, facts.st_ino) == self._identity:
                self.path.unlink()
        except OSError as error:
            if error.errno != errno.ENOENT:
                event_log.warning(
                    "the socket for local reads could not be removed; the next start replaces it",
                    path=str(self.path),
                    detail=str(error),
                )
        self.path = None

    def _requests_opened(self) -> "LocalRequests":
        """Returns what answers readers; opens it for the first one.

        Raises:
            OSError: There is no file descriptor for it.
        """
        if self._requests is None:
            from bowstring._native.server.log_waiters import LogWaiters
            from bowstring.engine.local.requests import LocalRequests
            from bowstring.protocol.local_reads import Hello

            waiters = LogWaiters(self._plane)
            hello = Hello(self._instance, self._cluster_id, self._node_id)
            self._requests = LocalRequests(
                *(hello, self._metadata, self._led_logs, waiters),
                access=self._access,
                tokens=self.tokens,
            )
            asyncio.get_running_loop().add_reader(waiters.fd, self._requests.wake)
        return self._requests

    def _accept(self) -> None:
        from bowstring.engine.local.connection import serve

        assert self._listener is not None
        loop = asyncio.get_running_loop()
        try:
            requests = self._requests_opened()
            accepted, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # Out of descriptors: stop accepting for a while instead of spinning.
            if not self._is_told:
                self._is_told = True
                event_log.warning(
                    "local readers cannot be accepted; accepting pauses again and again. If detail says that "
                    "too many files are open, raise the limit (ulimit -n)",
                    detail=str(error),
                )
            loop.remove_reader(self._listener.fileno())
            loop.call_later(_REST_S, self._listen_again)
            return
        self._is_told = False
        accepted.setblocking(False)
        if len(self._tasks) >= self.connections_max:
            event_log.warning(
                "a local reader was refused because too many are connected; close unused readers",
                connections=len(self._tasks),
            )
            accepted.close()
            return
        background.spawn(serve(accepted, requests), "local reader", among=self._tasks)

    def _listen_again(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener.fileno(), self._accept)


def bind(path: Path, permissions: int) -> socket.socket:
    """Binds a socket at `path` without listening; replaces the socket of a broker that no longer runs.

    Raises:
        ConfigError: The path is not a socket, or another process listens on it.
        OSError: The kernel refuses.
    """
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        address = str(path)
        if len(os.fsencode(address)) > ADDRESS_BYTES_MAX:
            address = f"/proc/self/fd/{directory}/{path.name}"
        _clear(path, address)
        listener.bind(address)
        os.chmod(path, permissions)  # no client can connect before listen()
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(directory)
    return listener


def _clear(path: Path, address: str) -> None:
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(facts.st_mode):
        raise ConfigError(f"{path} is not a socket; remove it, or set {SOCKET_CONFIG} to another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(address)
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
    raise ConfigError(f"another process listens on {path}; set {SOCKET_CONFIG} to another path")
