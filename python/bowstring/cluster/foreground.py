"""Runs a cluster for development until a signal stops it: `bowstring cluster start`."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, Self

from bowstring.cluster import layout, voters
from bowstring.cluster.layout import is_secure
from bowstring.cluster.process import START_TIMEOUT_S, NodeError, NodeProcess

if TYPE_CHECKING:
    from bowstring.cluster.secure_cluster import SecureCluster

# Controllers listen this far above the port of the first broker.
CONTROLLER_PORTS: Final = 100
# A node that was killed can register again when its session has ended.
SHORT_SESSIONS: Final[Mapping[str, str]] = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
}
_STOPS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SIGNAL: Final = "signal"


class _Stops:
    """Signals that request a stop, as something that a selector can wait for. For the main thread."""

    def __init__(self) -> None:
        self.asked = False
        self.reader, self._writer = socket.socketpair()
        self._before: dict[int, signal._HANDLER] = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self._writer.send(b"!")

    def __enter__(self) -> Self:
        for each in _STOPS:
            if signal.getsignal(each) is not signal.SIG_IGN:  # as nohup sets for SIGHUP
                self._before[each] = signal.signal(each, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
        self.reader.close()
        self._writer.close()


def _security_of(directory: Path) -> SecureCluster:
    from bowstring.cluster.secure_cluster import SecureCluster

    return SecureCluster(directory)


class ForegroundCluster:
    """A cluster in a directory, at given ports. Its nodes are formatted at the first start.

    Args:
        directory: Has a directory for each node.
        brokers: Number of brokers; None for those that the directory has, or three.
        controllers: Number of nodes that are only controllers; None likewise, or none.
        port: Port of the first broker; the next one has the next port. Ports of controllers begin 100 above;
            controllers in the metadata log keep theirs.
        config: Settings of all nodes.
        secure: Whether it has TLS, users and an authorizer. A directory with them keeps them.
        tell: Called with each line for people.
        warn: Called with each line about a problem.

    Raises:
        ConfigError, OSError: An argument is wrong, or the directory holds another cluster.
        MissingPackageError: A secure cluster needs a package that is not installed.
    """

    def __init__(
        self,
        directory: Path,
        *,
        brokers: int | None,
        controllers: int | None,
        port: int,
        config: Mapping[str, str],
        secure: bool = False,
        tell: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self._directory = directory.absolute()
        self._config = dict(config)
        self._tell = tell
        self._warn = warn
        roles = layout.roles_in(self._directory)
        if brokers is not None or controllers is not None or not roles:
            roles = layout.roles_of(3 if brokers is None else brokers, controllers or 0)
            layout.check_roles(self._directory, roles)
        self._voters_in_log = voters.VOTERS not in config and voters.are_in_log(self._directory)
        kept = voters.kept_ports(self._directory)
        ports = layout.consecutive_ports(roles, port, port + CONTROLLER_PORTS, kept)
        self._nodes = [layout.node_of(self._directory, id, roles[id], ports[id]) for id in roles]
        self._processes: dict[int, NodeProcess] = {}
        self._security = _security_of(self._directory) if secure or is_secure(self._directory) else None

    def run(self) -> int:
        """Runs the cluster; returns the exit status: 0 after a clean stop, 1 when nodes failed.

        Raises:
            ConfigError, DataDirectoryError, OSError: A node cannot be formatted; the message says why.
        """
        with ExitStack() as undo:
            stops = undo.enter_context(_Stops())
            # Nodes stop when its end is closed, however this process ends.
            lifeline, end = os.pipe()
            undo.callback(os.close, end)
            undo.callback(os.close, lifeline)
            undo.callback(self._kill)
            self._prepare(lifeline)
            try:
                self._start(stops)
                if not stops.asked:
                    self._watch(stops)
                self._tell("stopping all nodes")
                self._stop()
            except NodeError as error:
                self._warn(str(error))
                return 1
        return 0

    def _prepare(self, lifeline: int) -> None:
        cluster_id = layout.cluster_id_in(self._directory)
        brokers = sum(node.is_broker for node in self._nodes)
        first = not voters.have_run(self._directory)
        for node in self._nodes:
            configs = layout.replication_settings(brokers) | dict(SHORT_SESSIONS) | self._config
            settings, options = layout.settings_of(node, self._nodes, {}, configs), None
            if self._voters_in_log:
                settings = voters.settings_without(settings, self._nodes) | self._config
                options = voters.format_options(node, self._nodes, cluster_id, first=first)
            if self._security is not None:
                settings = self._security.settings(settings) | self._config
                options = self._security.format_options(options, cluster_id)
            if layout.prepare(node, settings, cluster_id, options):
                self._tell(f"formatted {node.data_dir} for node {node.id} of cluster {cluster_id}")
                if node.is_controller and self._voters_in_log and not first:
                    self._warn(voters.how_to_vote_again(node))
            self._processes[node.id] = NodeProcess(node, lifeline)

    def _start(self, stops: _Stops) -> None:
        began_s = time.monotonic()
        for process in self._processes.values():
            process.start()
        for process in self._processes.values():
            process.wait_until_ready(began_s + START_TIMEOUT_S, lambda: stops.asked)
        if stops.asked:
            return
        for node in self._nodes:
            at = ", ".join(
                f"{'clients' if name == layout.CLIENTS else 'controllers'} at {layout.HOST}:{port}"
                for name, port in node.ports.items()
            )
            pid = self._process_text(node.id)
            self._tell(f"node {node.id} ({','.join(node.roles)}): {at}; {pid}log {node.log_file}")
        servers = ",".join(
            f"{layout.HOST}:{node.ports[layout.CLIENTS]}" for node in self._nodes if node.is_broker
        )
        if self._security is not None:
            self._security.write_environment(servers)  # whoever waits for `ready` may read it then
        self._tell(f"ready after {time.monotonic() - began_s:.1f} s; bootstrap servers: {servers}")
        if self._security is not None:
            for line in self._security.advice():
                self._tell(line)

    def _process_text(self, id: int) -> str:
        try:
            return f"process {self._processes[id].pid}; "
        except NodeError:
            return ""  # it has ended since it was ready; others report that

    def _watch(self, stops: _Stops) -> None:
        """Waits for a signal, and reports nodes that end.

        Raises:
            NodeError: All have ended.
        """
        with selectors.DefaultSelector() as selector, ExitStack() as files:
            selector.register(stops.reader, selectors.EVENT_READ, _SIGNAL)
            running = 0
            for process in self._processes.values():
                try:
                    file = os.pidfd_open(process.pid)
                except NodeError:
                    self._tell_of_end(process)
                    continue
                files.callback(os.close, file)
                selector.register(file, selectors.EVENT_READ, process)
                running += 1
            while not stops.asked:
                if not running:
                    raise NodeError("no node runs any more; start the cluster again with the same command")
                for key, _ in selector.select():
                    if key.data is _SIGNAL:
                        continue
                    selector.unregister(key.fileobj)
                    running -= 1
                    self._tell_of_end(key.data)

    def _tell_of_end(self, process: NodeProcess) -> None:
        node = process.node
        self._warn(
            f"node {node.id} has ended: {process.how_it_ended()}; the others go on. {process.log_tail()}\n"
            f"Start it again with: bowstring serve --config {node.config_file}"
        )

    def _stop(self) -> None:
        running = [process for process in self._processes.values() if process.is_running]
        for process in running:
            process.ask_to_stop()
        for process in running:
            process.wait_until_stopped()

    def _kill(self) -> None:
        for process in self._processes.values():
            process.kill()
