"""Runs a broker inside this program, for tests, notebooks and tools."""

import asyncio
import atexit
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from bowstring._native.log.partition_log import LogError
from bowstring.clients.arguments import checked_methods
from bowstring.clients.errors import ConfigError
from bowstring.engine import background, event_log
from bowstring.engine.broker.broker import Broker as _Broker
from bowstring.engine.broker.node import NodeLostError
from bowstring.engine.configs import REGISTRY_CONFIG, BrokerConfigs
from bowstring.engine.configs import ConfigError as EngineConfigError
from bowstring.engine.storage.descriptor_reserve import make_room

if TYPE_CHECKING:
    from bowstring.broker_children import HttpPorts

START_TIMEOUT_S = 60.0
_ENDED: Final = "the broker has ended by itself: call stop(), which raises why"


class BrokerConfigError(ConfigError, EngineConfigError):
    """A broker config is unknown or invalid; the message says which and why."""


@checked_methods()
class Broker:
    """A single-node broker on a thread of this process.

    Args:
        port: Port to listen on; 0 uses any free port.
        data_dir: Directory for the data; by default a temporary directory that is deleted when the broker
            stops.
        config: Broker configs by Kafka's names, such as ``{"num.partitions": 3}``.
        host: Address to listen on. One that other machines can reach needs
            ``config={"bowstring.listen.unauthenticated": True}``, because clients are not authenticated.
        registry: Whether a schema registry runs beside it, in a process of its own: see `registry_url`. The
            broker checks with it the schemas of topics with `confluent.value.schema.validation`.
        rest: Whether a REST proxy does: see `rest_url`.

    Raises:
        ConfigError: A config is unknown or invalid, or, from `start`, does not go with others; the message
            says what to do.
        DataDirectoryError: From `start`, likewise.
        OSError: From `start`, likewise. From `stop`, once: the broker has ended by itself, because its data
            directory failed.

    Examples:
        >>> with Broker() as broker:
        ...     broker.bootstrap_servers.startswith("127.0.0.1:")
        True
    """

    def __init__(
        self,
        port: int = 0,
        data_dir: str | Path | None = None,
        config: Mapping[str, object] | None = None,
        *,
        host: str = "127.0.0.1",
        registry: bool = False,
        rest: bool = False,
    ) -> None:
        self._host = host
        self._port = port
        self._given_dir = None if data_dir is None else Path(data_dir)
        self._config = dict(config or {})
        try:
            BrokerConfigs(self._settings(Path("unused") if self._given_dir is None else self._given_dir))
        except EngineConfigError as error:
            raise BrokerConfigError(str(error)) from error
        self._temporary: Path | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._started = threading.Event()
        self._error: BaseException | None = None
        self._broker: _Broker | None = None
        self._owner = os.getpid()
        self._services = (0 if registry else None, 0 if rest else None)
        self._http: HttpPorts | None = None

    # ------------------------------------------------------------ facts

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for clients; the broker must be running."""
        # A broker that listens on all interfaces is reached at its advertised address.
        host = self._running().advertised[0].host if self._host in ("", "0.0.0.0", "::") else self._host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._running().listeners[0].port

    @property
    def data_dir(self) -> Path:
        """The data directory."""
        return self._running().directory.path

    @property
    def cluster_id(self) -> str:
        """The cluster's id, in Kafka's text form."""
        return self._running().cluster_id

    @property
    def registry_url(self) -> str:
        """The URL of the schema registry. It answers as soon as it has started, which takes a second."""
        return self._url("registry")

    @property
    def rest_url(self) -> str:
        """The URL of the REST proxy. It answers as soon as it has started."""
        return self._url("rest")

    def _url(self, service: str) -> str:
        self._running()
        url: str | None = getattr(self._http, f"{service}_url", None)
        if url is None:
            raise RuntimeError(f"the broker has no {service}: make it with Broker({service}=True)")
        return url

    def __repr__(self) -> str:
        broker = vars(self).get("_broker")
        if broker is None or not broker.listeners:
            return "<Broker, not running>"
        return f"<Broker at {self.bootstrap_servers}, data in {self.data_dir}>"

    def _running(self) -> _Broker:
        if self._broker is None:
            if self._thread is not None and not self._thread.is_alive():
                raise RuntimeError(_ENDED)
            raise RuntimeError("the broker is not running: call start(), or use it in a with statement")
        return self._broker

    # ------------------------------------------------------------ life

    def start(self) -> Self:
        """Starts the broker; it accepts clients when this returns."""
        import uvloop  # not with this module

        if self._thread is not None:
            has_ended = not self._thread.is_alive()
            raise RuntimeError(_ENDED if has_ended else "the broker is already running")
        self._owner = os.getpid()
        directory = self._given_dir
        if directory is None:
            directory = self._temporary = _new_temporary()
        self._started.clear()
        self._stopping = asyncio.Event()
        self._loop = uvloop.new_event_loop()  # here, so that a stop at any time reaches it
        self._error = None
        make_room()  # before another thread starts
        # A daemon thread, so that a program without stop() can end; atexit then stops the broker cleanly.
        thread = threading.Thread(
            target=self._main,
            args=(self._loop, self._settings(directory)),
            name="bowstring-control",
            daemon=True,
        )
        thread.start()
        self._thread = thread
        if not self._started.wait(START_TIMEOUT_S):
            self._ask_to_stop()
            raise TimeoutError(f"the broker did not start in {START_TIMEOUT_S} s")
        if self._error is not None:
            error, self._error = self._error, None
            thread.join()
            self._thread = None
            self._remove_temporary()
            if isinstance(error, EngineConfigError):
                raise BrokerConfigError(str(error)) from error
            raise error
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Stops the broker cleanly. Further calls have no effect, nor have calls in a forked child."""
        if self._owner != os.getpid():
            return  # the broker, its thread and its files are the parent's
        thread, self._thread = self._thread, None
        if thread is None:
            return
        atexit.unregister(self.stop)
        self._ask_to_stop()
        thread.join()
        self._broker = None
        self._remove_temporary()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _ask_to_stop(self) -> None:
        """Has the thread stop the broker, unless it has ended by itself."""
        if self._loop is not None and self._stopping is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._stopping.set)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            import shutil  # not with this module

            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def _settings(self, directory: Path) -> dict[str, str]:
        settings = {
            "listeners": f"PLAINTEXT://{f'[{self._host}]' if ':' in self._host else self._host}:{self._port}",
            # Without this, each test with a group would wait three seconds.
            "group.initial.rebalance.delay.ms": "0",
            "log.dirs": str(directory),
        }
        for name, value in self._config.items():
            settings[name] = _text(value)
        return settings

    def _main(self, loop: asyncio.AbstractEventLoop, settings: dict[str, str]) -> None:
        background.log_failures(loop)
        try:
            asyncio.set_event_loop(loop)
            loop.run_until_complete(self._serve(settings))
            loop.run_until_complete(loop.shutdown_default_executor())
        except BaseException as error:
            self._error = error
            self._broker = None
        finally:
            asyncio.set_event_loop(None)
            loop.close()
            self._started.set()

    async def _serve(self, settings: dict[str, str]) -> None:
        self._http = self._bound_ports()
        try:
            if self._http is not None and self._http.registry_url is not None:
                settings.setdefault(REGISTRY_CONFIG, self._http.registry_url)
            await self._serve_broker(_Broker(settings))
        finally:
            if self._http is not None:
                self._http.close()

    async def _serve_broker(self, broker: _Broker) -> None:
        broker.open()
        try:
            await self._until_asked(broker)
        except BaseException:
            with suppress(LogError, OSError):  # of the same cause
                await broker.stop()
            raise
        await broker.stop()

    def _bound_ports(self) -> "HttpPorts | None":
        """Returns the addresses of the HTTP services, if there are any."""
        if self._services == (None, None):
            return None
        from bowstring.broker_children import HttpPorts

        return HttpPorts(*self._services)

    async def _until_asked(self, broker: _Broker) -> None:
        """Serves until `stop` is called.

        Raises:
            NodeLostError: The broker cannot continue, because its directories or its metadata log failed.
        """
        if not await background.run_unless(broker.start(), self._asked()):
            return
        child = None if self._http is None else self._http.start(broker.listeners, broker.configs)
        self._broker = broker
        self._started.set()
        try:
            asked = await background.run_unless(self._asked(), broker.lost.wait(), broker.quorum.failed)
        finally:
            if child is not None:
                await child.stop()
        if not asked:
            lost = NodeLostError(broker.directories)
            event_log.error(
                "the broker ends, because it cannot go on; repair the cause in detail, then start it",
                detail=str(lost),
            )
            raise lost from (broker.quorum.failed.exception() if broker.quorum.has_failed else None)

    async def _asked(self) -> None:
        assert self._stopping is not None, "it is set before the thread starts"
        await self._stopping.wait()


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(_text(item) for item in value)
    return str(value)


def _new_temporary() -> Path:
    """Creates a temporary directory that only this user may read.

    Importing tempfile takes a twentieth of a start, so it does only what is not the usual case.
    """
    if "tempfile" not in sys.modules:
        made = Path(os.environ.get("TMPDIR") or "/tmp") / f"bowstring-{os.urandom(8).hex()}"
        with suppress(OSError):
            made.mkdir(0o700)
            return made.absolute()
    import tempfile

    return Path(tempfile.mkdtemp(prefix="bowstring-"))
