"""Runs `bowstring serve`: a broker in its own process, until a signal stops it."""

import asyncio
import gc
import os
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from signal import Signals
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import uvloop

from bowstring._native.log.partition_log import LogError
from bowstring.engine import background, event_log
from bowstring.engine.broker.broker import Broker
from bowstring.engine.broker.node import NodeLostError
from bowstring.engine.configs import REGISTRY_CONFIG, BrokerConfigs, ConfigError
from bowstring.engine.configs.files import UnknownConfig, load, with_places
from bowstring.engine.configs.listener_configs import listener_protocol
from bowstring.engine.quorum.settings import BROKER
from bowstring.engine.requests.listeners import ALL_INTERFACES, client_listeners, parse_listener
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.serve_options import parser
from bowstring.service_manager import NOTIFY_SOCKET, notify
from bowstring.signals import StopSignals
from bowstring.version import __version__

if TYPE_CHECKING:
    from bowstring.broker_children import HttpPorts
    from bowstring.engine.broker.controller_node import ControllerNode
    from bowstring.supervised_child import SupervisedChild

_STATUS_S: Final = 5.0
"""How often the status for the service manager is checked."""
_WAY_OUT_S: Final = 30.0
"""How long a node that cannot continue may take to end."""


class Settings(NamedTuple):
    """The settings from the file and the command line.

    Attributes:
        configs: Text by config.
        unknown: Unknown entries of the file.
        unused: Sentences about settings of the file that the command line replaces.
    """

    configs: dict[str, str]
    unknown: list[UnknownConfig]
    unused: list[str]


def settings_of(arguments: Namespace) -> Settings:
    """Returns the configs set by the file and the command line; the command line wins.

    Raises:
        ConfigError, OSError: The file or an option is wrong; the message says how.
    """
    unknown: list[UnknownConfig] = []
    unused: list[str] = []
    settings: dict[str, str] = {}
    if arguments.config:
        settings = load(Path(arguments.config), None if arguments.strict_config else unknown)
    # A server must acknowledge from the medium; for an embedded broker or a test the page cache is enough.
    settings.setdefault("bowstring.durability", "commit")
    if arguments.listen_unauthenticated:
        settings["bowstring.listen.unauthenticated"] = "true"
    listens = arguments.host is not None or arguments.port is not None
    kept: list[str] = []
    if listens:
        kept, unused = _leave_listeners_out(settings, arguments.host)
    for item in arguments.set or ():
        name, equals, value = item.partition("=")
        if not equals:
            raise ConfigError(f"--set {item}: write it as KEY=VALUE")
        settings[name.strip()] = value.strip()
    if arguments.data is not None:
        settings["log.dirs"] = ",".join(arguments.data)
    if listens:
        settings["listeners"] = ",".join([_listener(arguments.host, arguments.port, settings), *kept])
    for name, value in (
        ("bowstring.durability", arguments.durability),
        ("bowstring.metrics.port", arguments.metrics_port),
        ("bowstring.log.format", arguments.log_format),
        ("bowstring.log.level", arguments.log_level),
    ):
        if value is not None:
            settings[name] = str(value)
    return Settings(settings, unknown, unused)


def _leave_listeners_out(settings: dict[str, str], host: str | None) -> tuple[list[str], list[str]]:
    """Removes the file's listeners, which --host and --port replace. Returns those of controllers, which
    stay (those on all interfaces get the host), and sentences about other settings that are removed.

    Raises:
        ConfigError: The listeners require TLS or SASL, which must not be lost silently.
    """
    kept: list[str] = []
    if "listeners" in settings:
        controllers = {name.upper() for name in BrokerConfigs(settings).value("controller.listener.names")}
        of_file = [parse_listener(text) for text in settings["listeners"].split(",")]
        kept = [
            f"{name}://{_bracketed(at or host or '')}:{port}"
            for name, at, port in of_file
            if name in controllers
        ]
        # Only the protection of the listeners matters here, not their addresses.
        for each in client_listeners(BrokerConfigs(settings | {"bowstring.listen.unauthenticated": "true"})):
            if each.protocol != "PLAINTEXT":
                raise ConfigError(
                    f"listeners: {each.name} has {each.protocol}; --host and --port would replace it "
                    "by PLAINTEXT; leave them out, and write host and port into the file's listeners"
                )
        del settings["listeners"]
    told = settings.pop("advertised.listeners", None)
    if told is None:
        return kept, []
    return kept, [
        f"--host and --port replace the file's listeners, so its advertised.listeners={told} is ignored; "
        "use --set advertised.listeners=... to advertise another address"
    ]


def _listener(host: str | None, port: int | None, settings: Mapping[str, str]) -> str:
    if host is None:
        default = BrokerConfigs(settings)
        open_to_all = default.value("bowstring.listen.unauthenticated")
        _, host, _ = parse_listener(ALL_INTERFACES if open_to_all else default.value("listeners")[0])
    return f"PLAINTEXT://{_bracketed(host)}:{9092 if port is None else port}"


def _bracketed(host: str) -> str:
    """Returns a host as it stands in a listener."""
    return f"[{host}]" if ":" in host else host


def main(argv: Sequence[str], *, may_dump_core: bool = False) -> int:
    """Runs a broker; returns the exit status: 0 after a clean shutdown, 1 when it could not start.

    Args:
        may_dump_core: Also with keys or passwords in memory, so that its user may look into the process.
    """
    arguments = parser().parse_args(argv)
    with StopSignals() as signals:
        try:
            settings = settings_of(arguments)
            configs = BrokerConfigs(settings.configs)
            event_log.log_to_stderr(
                configs.value("bowstring.log.format"), configs.value("bowstring.log.level")
            )
            if not may_dump_core:
                _protect(configs)
            children = Children(
                arguments.console,
                arguments.registry_port,
                arguments.rest_port,
                arguments.http_allow_origin or "",
            )
            if children.registry_url is not None:
                settings.configs.setdefault(REGISTRY_CONFIG, children.registry_url)
            broker = node_of(settings.configs)
            notify(STATUS="opening the logs")
            broker.open()
        except (ConfigError, DataDirectoryError, LogError, OSError) as error:
            print(f"bowstring: {with_places(str(error), arguments.config)}", file=sys.stderr)
            return 1
        _warn(settings)
        loop = uvloop.new_event_loop()
        asyncio.set_event_loop(loop)
        background.log_failures(loop)
        try:
            loop.run_until_complete(run(broker, signals, children))
        except (ConfigError, DataDirectoryError) as error:
            print(f"bowstring: {with_places(str(error), arguments.config)}", file=sys.stderr)
            return 1
        except (LogError, OSError) as error:
            event_log.error(
                "the broker stopped, but not cleanly; the next start recovers the logs. Check the errors "
                "above",
                detail=str(error),
            )
            return 1
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
        return 0


def _protect(configs: BrokerConfigs) -> None:
    """With keys or passwords, the process has secrets in memory."""
    names = (parse_listener(each)[0] for each in configs.value("listeners"))
    if any(listener_protocol(configs, name) != "PLAINTEXT" for name in names):
        from bowstring.engine.broker.core_dumps import forbid_core_dumps

        forbid_core_dumps()


def _warn(settings: Settings) -> None:
    for sentence in settings.unused:
        event_log.warning(sentence)
    for each in settings.unknown:
        nearest = {} if each.nearest is None else {"nearest": each.nearest}
        event_log.warning(
            "a config is unknown and has no effect; check its name. --strict-config refuses unknown configs",
            config=each.name,
            where=each.where,
            **nearest,
        )


def node_of(settings: Mapping[str, str]) -> "Broker | ControllerNode":
    """Returns the node of the roles that the settings give it."""
    if BROKER in BrokerConfigs(settings).value("process.roles"):
        return Broker(settings)
    from bowstring.engine.broker.controller_node import ControllerNode

    return ControllerNode(settings)


class Children:
    """What a broker runs beside itself, in processes of their own.

    Args:
        console: port of the console; None for none.
        registry: port of the schema registry; None for none.
        rest: port of the REST proxy; None for none.
        allowed_origins: of pages that may call registry and proxy.

    Raises:
        ConfigError: a port is in use, a package is missing, or an origin is none.
    """

    def __init__(
        self,
        console: int | None = None,
        registry: int | None = None,
        rest: int | None = None,
        allowed_origins: str = "",
    ) -> None:
        self._console = console
        self._running: list[SupervisedChild] = []
        has_http = registry is not None or rest is not None
        if allowed_origins and not has_http:
            raise ConfigError("--http-allow-origin has no effect: add --registry-port or --rest-port")
        self._ports = _bound_ports(registry, rest, allowed_origins) if has_http else None

    @property
    def registry_url(self) -> str | None:
        """The address of the registry; None for none."""
        return None if self._ports is None else self._ports.registry_url

    def start(self, broker: "Broker | ControllerNode") -> None:
        """Starts them. A node without listeners for clients has none."""
        ports = self._ports
        if self._console is None and ports is None:
            return
        if BROKER not in broker.configs.value("process.roles"):
            event_log.warning(
                "--console, --registry-port and --rest-port have no effect on a controller alone; use them "
                "on a broker"
            )
            return
        from bowstring.broker_children import start_console

        if self._console is not None:
            self._running.append(
                start_console(broker.listeners, broker.configs, self._console, self.registry_url)
            )
        if ports is not None:
            self._running.append(ports.start(broker.listeners, broker.configs))
            event_log.info(
                "serving HTTP", registry=ports.registry_url or "none", rest=ports.rest_url or "none"
            )

    async def stop(self) -> None:
        """Ends them, and waits for that."""
        if self._ports is not None:
            self._ports.close()
        await asyncio.gather(*(each.stop() for each in self._running))


def _bound_ports(registry: int | None, rest: int | None, allowed_origins: str) -> "HttpPorts":
    from bowstring.broker_children import HttpPorts

    return HttpPorts(registry, rest, allowed_origins)


async def run(
    broker: "Broker | ControllerNode", signals: StopSignals, children: Children | None = None
) -> None:
    """Serves until a signal requests a stop, or the node's replica of the quorum has failed.

    Args:
        broker: The node; it is open.
        signals: Requests for a stop.
        children: What runs beside it; None for nothing.

    Raises:
        OSError: The node cannot continue.
    """
    notify(STATUS="joining the cluster")
    if not await _start(broker, signals):
        return
    event_log.info(
        "ready",
        version=__version__,
        listeners=",".join(f"{each.name}://{each.host}:{each.port}" for each in broker.listeners),
        advertised=",".join(f"{each.name}://{each.host}:{each.port}" for each in broker.advertised),
        metrics_port=broker.metrics_port,
        directory=",".join(str(directory.path) for directory in broker.directories),
        cluster_id=broker.cluster_id,
        node_id=broker.node_id,
        topics=len(broker.metadata.image.topics),
        partitions=broker.metadata.image.partition_count,
        clean=all(directory.was_clean for directory in broker.directories.opened),
        ready_ms=round(since_process_start_ms()),
    )
    notify(READY="1", STATUS=_status(broker))
    telling = asyncio.ensure_future(_tell_status(broker))
    if children is not None:
        children.start(broker)
    gc.freeze()
    gc.enable()
    asked = await _asked_or_failed(broker, signals)
    telling.cancel()
    if children is not None:
        await children.stop()
    event_log.info("stopping", signal=asked.name if asked is not None else "none")
    if asked is None:
        why = NodeLostError(broker.directories)
        _tell_lost(why)
        await broker.stop()
        raise why
    notify(STOPPING="1", STATUS="stopping")
    await broker.stop()


def _status(broker: "Broker | ControllerNode") -> str:
    why_not = broker.why_not_ready()
    return f"not ready: {why_not}" if why_not is not None else f"serving as node {broker.node_id}"


async def _tell_status(broker: "Broker | ControllerNode") -> None:
    """Reports to the service manager when the node gets ready and when it is no longer ready."""
    if NOTIFY_SOCKET not in os.environ:
        return
    told = _status(broker)
    while True:
        await asyncio.sleep(_STATUS_S)
        if (status := _status(broker)) != told:
            notify(STATUS=status)
            told = status


async def _start(broker: "Broker | ControllerNode", signals: StopSignals) -> bool:
    """Starts the node; returns whether it serves. One that waits for its cluster can be stopped meanwhile."""
    starting = asyncio.ensure_future(broker.start())
    waiting = asyncio.ensure_future(signals.wait())
    both: set[asyncio.Future[Any]] = {starting, waiting}
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    asked = not starting.done()
    if asked:
        starting.cancel()
        await asyncio.wait({starting})
    waiting.cancel()
    if asked:
        await broker.stop()
    elif (failed := starting.exception()) is not None:
        if isinstance(failed, NodeLostError):
            _tell_lost(failed)
        await broker.stop()
        raise failed
    return not asked


async def _asked_or_failed(broker: "Broker | ControllerNode", signals: StopSignals) -> Signals | None:
    waiting = asyncio.ensure_future(signals.wait())
    lost = asyncio.ensure_future(broker.lost.wait())
    ends: set[asyncio.Future[Any]] = {waiting, lost}
    if broker.quorum is not None:
        ends.add(broker.quorum.failed)
    done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    lost.cancel()
    if waiting in done:
        return waiting.result()
    waiting.cancel()
    return None


def _tell_lost(why: OSError) -> None:
    """Logs why the node ends; the process ends even if a broken disk delays its orderly end."""
    event_log.error(
        "the node ends, because it cannot go on; repair the cause in detail, then start it", detail=str(why)
    )
    notify(STOPPING="1", STATUS=f"stopping: {why}")
    watchdog = threading.Timer(_WAY_OUT_S, os._exit, (1,))
    watchdog.daemon = True
    watchdog.start()


def since_process_start_ms() -> float:
    """Returns the time since the kernel started this process in ms, with a resolution of 10 ms."""
    with open("/proc/self/stat", "rb") as file:
        started_ticks = int(file.read().rpartition(b")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) * 1000 - started_ticks * 10
