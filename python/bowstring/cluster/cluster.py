"""Runs a cluster of processes for tests: nodes can be killed, paused and cut off from one another."""

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bowstring.clients.arguments import checked_methods
from bowstring.cluster import layout, voters
from bowstring.cluster.layout import Node
from bowstring.cluster.links import Links
from bowstring.cluster.ports import ClaimedPorts
from bowstring.cluster.process import START_TIMEOUT_S, NodeProcess
from bowstring.engine.configs import ConfigError

# What differs from a server's defaults: failures are noticed within two seconds, and nothing waits for the
# medium.
FAST: Final[Mapping[str, str]] = {
    "bowstring.durability": "os",
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "2000",
    "controller.quorum.append.linger.ms": "0",
    "controller.quorum.election.backoff.max.ms": "100",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "600",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "replica.fetch.backoff.ms": "100",
    "replica.lag.time.max.ms": "2000",
}


@checked_methods()
class Cluster:
    """A cluster of processes on this machine.

    Nodes 1, 2, 3 … are brokers. The largest odd number of them up to five are controllers, too; two brokers
    get a controller of their own. When the program ends, however it does, so do the nodes.

    Settings other than a server's: failures are noticed sooner (`broker.session.timeout.ms=2000`,
    `controller.quorum.fetch.timeout.ms=600`, `replica.lag.time.max.ms=2000`), records are acknowledged from
    the page cache (`bowstring.durability=os`), groups do not wait for members
    (`group.initial.rebalance.delay.ms=0`), and topics have three replicas if there are three brokers
    (`default.replication.factor`). ``config={"bowstring.durability": "commit"}`` is a server's default.

    Everything is in plain text unless settings say otherwise. The listeners are called PLAINTEXT (clients),
    INTERNAL (brokers to brokers; with ``linked=False`` they use PLAINTEXT) and CONTROLLER, so
    ``{"listener.security.protocol.map": "PLAINTEXT:SASL_SSL,INTERNAL:SASL_SSL,CONTROLLER:SASL_SSL"}`` secures
    all, with key and trust stores and JAAS lines as a server has them.

    Args:
        brokers: Number of brokers.
        controllers: Number of nodes that are only controllers, with ids 101, 102 …; then no broker is one.
        data_dir: Directory for the nodes: data, server.properties and node.log of each. One that holds a
            cluster is used again. By default a temporary one, which is deleted at the end.
        config: Settings of all nodes by Kafka's names, such as ``{"num.partitions": 3}``.
        node_config: Settings of one node, by node id, such as ``{1: {"broker.rack": "a"}}``.
        ports: Ports of brokers, in the order of their ids; free ones by default.
        linked: Whether connections between nodes go through this process, as `cut` and `delay` need. Give
            False where throughput counts.
        start_timeout_s: Seconds within which nodes must serve.

    Raises:
        ConfigError: A setting or argument is wrong.
        NodeError: From `start`: a node does not serve; the message has the end of its log.

    Examples:
        >>> with Cluster(3) as cluster, Producer(cluster.bootstrap_servers) as producer:
        ...     cluster.kill(2)
        ...     print(producer.send("greetings", b"hello").result().offset)
        ...     cluster.restart(2)
        0
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        controllers: int = 0,
        data_dir: str | Path | None = None,
        config: Mapping[str, object] | None = None,
        node_config: Mapping[int, Mapping[str, object]] | None = None,
        ports: Iterable[int] = (),
        linked: bool = True,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self._roles = layout.roles_of(brokers, controllers)
        self._given_dir = None if data_dir is None else Path(data_dir).absolute()
        self._config = _texts(config or {})
        self._node_config = {id: _texts(each) for id, each in (node_config or {}).items()}
        self._given_ports = list(ports)
        self._linked = linked
        self._start_timeout_s = start_timeout_s
        self._directory: Path | None = None
        self._nodes: dict[int, Node] = {}
        self._processes: dict[int, NodeProcess] = {}
        self._links: Links | None = None
        self._free_ports = ClaimedPorts()
        self._advertised: dict[tuple[int, str], int] = {}
        self._cluster_id = ""
        self._owner = os.getpid()
        self._lifeline: tuple[int, int] | None = None
        unknown = set(self._node_config) - set(self._roles)
        if unknown:
            raise ConfigError(
                f"node_config: there is no node {min(unknown)}; nodes are {layout.listed(self._roles)}"
            )
        if self._given_ports and len(self._given_ports) != brokers:
            raise ConfigError(f"ports: give one for each of {brokers} brokers, or none")

    # ------------------------------------------------------------ facts

    @property
    def bootstrap_servers(self) -> str:
        """``host:port,…`` of all brokers, for clients."""
        return ",".join(self.address(id) for id in self.broker_ids)

    @property
    def bootstrap_controllers(self) -> str:
        """``host:port,…`` of all controllers, for tools that take `--bootstrap-controller`."""
        found = (node for node in self._started().values() if node.is_controller)
        return ",".join(f"{layout.HOST}:{node.ports[layout.CONTROLLERS]}" for node in found)

    @property
    def broker_ids(self) -> list[int]:
        """The ids of brokers."""
        return [id for id, node in self._started().items() if node.is_broker]

    @property
    def controller_ids(self) -> list[int]:
        """The ids of controllers."""
        return [id for id, node in self._started().items() if node.is_controller]

    @property
    def node_ids(self) -> list[int]:
        """The ids of all nodes."""
        return list(self._started())

    @property
    def running_ids(self) -> list[int]:
        """The ids of nodes whose process runs; a paused one counts."""
        return [id for id, process in self._processes.items() if process.is_running]

    @property
    def cluster_id(self) -> str:
        """The cluster's id, in Kafka's text form."""
        self._started()
        return self._cluster_id

    @property
    def data_dir(self) -> Path:
        """The directory with a directory for each node."""
        self._started()
        assert self._directory is not None
        return self._directory

    def address(self, node_id: int) -> str:
        """``host:port`` for clients of a broker.

        Args:
            node_id: The broker.
        """
        node = self._node(node_id)
        if not node.is_broker:
            raise ConfigError(
                f"node {node_id} is only a controller; brokers are {layout.listed(self.broker_ids)}"
            )
        return f"{layout.HOST}:{node.ports[layout.CLIENTS]}"

    def pid(self, node_id: int) -> int:
        """The process id of a node that runs.

        Args:
            node_id: The node.
        """
        return self._process(node_id).pid

    def log_dir(self, node_id: int) -> Path:
        """The directory with a node's partitions.

        Args:
            node_id: The node.
        """
        return self._node(node_id).data_dir

    def log_text(self, node_id: int) -> str:
        """What a node has logged, over all its starts.

        Args:
            node_id: The node.
        """
        return self._node(node_id).log_file.read_text(encoding="utf-8", errors="replace")

    def __repr__(self) -> str:
        nodes = layout.listed(vars(self).get("_roles", ()))
        if not vars(self).get("_nodes"):
            return f"<Cluster of nodes {nodes}, not running>"
        running = layout.listed(self.running_ids) or "none"
        return f"<Cluster of nodes {nodes}, running {running}, brokers at {self.bootstrap_servers}>"

    def _started(self) -> dict[int, Node]:
        if not self._nodes:
            raise RuntimeError("the cluster is not running: call start(), or use it in a with statement")
        return self._nodes

    def _node(self, node_id: int) -> Node:
        nodes = self._started()
        if node_id not in nodes:
            raise ConfigError(f"there is no node {node_id}; nodes are {layout.listed(nodes)}")
        return nodes[node_id]

    def _process(self, node_id: int) -> NodeProcess:
        return self._processes[self._node(node_id).id]

    # ------------------------------------------------------------ life

    def start(self) -> Self:
        """Starts all nodes at the same time; brokers accept clients when this returns."""
        if self._nodes:
            raise RuntimeError("the cluster is already running")
        self._owner = os.getpid()
        try:
            self._directory = self._given_dir or Path(tempfile.mkdtemp(prefix="bowstring-cluster-"))
            voters.check_in_settings(self._directory)
            layout.check_roles(self._directory, self._roles)
            self._cluster_id = layout.cluster_id_in(self._directory)
            self._lifeline = os.pipe()
            self._links = Links(self._pids) if self._linked else None
            self._add_nodes(self._roles)
            atexit.register(self._end)
            self._run(self._nodes)
        except BaseException:
            self._end()
            raise
        return self

    def stop(self, *node_ids: int) -> None:
        """Stops nodes cleanly, at the same time; all without ids, and then the cluster has ended.

        Args:
            node_ids: The nodes; those that do not run may be among them.

        Raises:
            NodeError: A node did not stop cleanly.
        """
        chosen = [self._process(id) for id in node_ids or self._started()]
        try:
            chosen = [process for process in chosen if process.is_running]
            for process in chosen:
                process.ask_to_stop()
            for process in chosen:
                process.wait_until_stopped()
        finally:
            if not node_ids:
                self._end()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._given_dir is None or error is not None:
            self._end()  # the files of a clean stop are not needed
        else:
            self.stop()

    def _end(self) -> None:
        """Ends all processes and forgets the nodes. Further calls have no effect."""
        if self._owner != os.getpid():
            return  # a forked child ends; the nodes are its parent's
        atexit.unregister(self._end)
        for process in self._processes.values():
            process.kill()
        if self._links is not None:
            self._links.close()
            self._links = None
        self._free_ports.close()
        for end in self._lifeline or ():
            os.close(end)
        self._lifeline = None
        if self._directory is not None and self._given_dir is None:
            shutil.rmtree(self._directory, ignore_errors=True)
        self._directory = None
        self._nodes, self._processes, self._advertised = {}, {}, {}

    # ------------------------------------------------------------ nodes

    def _add_nodes(self, roles: Mapping[int, tuple[str, ...]]) -> None:
        """Chooses ports, makes links, writes settings and formats the directories."""
        assert self._directory is not None
        listeners = {id: layout.listeners_of(each, linked=self._linked) for id, each in roles.items()}
        free = iter(self._free_ports.take(sum(map(len, listeners.values()))))
        given = iter(self._given_ports)
        for id, names in listeners.items():
            ports = {name: next(free) for name in names}
            if layout.CLIENTS in ports:
                ports[layout.CLIENTS] = next(given, ports[layout.CLIENTS])
            self._nodes[id] = layout.node_of(self._directory, id, roles[id], ports)
        for id in roles:
            self._link(self._nodes[id])
        brokers = len(self.broker_ids)
        for id in roles:
            node = self._nodes[id]
            configs = layout.replication_settings(brokers) | dict(FAST) | self._config
            configs |= self._node_config.get(id, {})
            settings = layout.settings_of(node, self._nodes.values(), self._advertised, configs)
            layout.prepare(node, settings, self._cluster_id)
            assert self._lifeline is not None
            self._processes[id] = NodeProcess(node, self._lifeline[0])

    def _link(self, node: Node) -> None:
        if self._links is None:
            return
        for name in (layout.BETWEEN_BROKERS, layout.CONTROLLERS):
            if name in node.ports:
                proxy = self._links.add(node.id, layout.HOST, node.ports[name])
                self._advertised[node.id, name] = proxy

    def _pids(self) -> dict[int, int]:
        """The processes by node id, for the thread of the links."""
        return {id: each.pid for id, each in list(self._processes.items()) if each.is_running}

    def _run(self, node_ids: Iterable[int], *, wait: bool = True) -> None:
        chosen = [self._process(id) for id in node_ids]
        for process in chosen:
            process.start()
        if wait:
            self.wait_until_ready(*node_ids)

    def wait_until_ready(self, *node_ids: int) -> None:
        """Waits until nodes serve; all without ids. A broker needs a majority of the controllers.

        Args:
            node_ids: The nodes.

        Raises:
            NodeError: One has ended, or does not serve in time; with the end of its log.
        """
        deadline_s = time.monotonic() + self._start_timeout_s
        for id in node_ids or self._started():
            self._process(id).wait_until_ready(deadline_s)

    def add_broker(self, config: Mapping[str, object] | None = None) -> int:
        """Starts one more broker; returns its id.

        Args:
            config: Settings of this node.

        Raises:
            ConfigError: The cluster is a node alone, which none can join.
        """
        if len(self._started()) == 1:
            raise ConfigError("a node alone cannot be joined; make the cluster with controllers=1")
        id = max(self.broker_ids) + 1
        self._node_config[id] = _texts(config or {})
        self._add_nodes({id: (layout.BROKER,)})
        self._run([id])
        return id

    # ------------------------------------------------------------ trouble

    def kill(self, *node_ids: int) -> None:
        """Ends nodes with SIGKILL; all without ids.

        Args:
            node_ids: The nodes; those that do not run may be among them.
        """
        for id in node_ids or self._started():
            self._process(id).kill()

    def restart(self, *node_ids: int, wait: bool = True) -> None:
        """Starts nodes again, at the same time; those that run are stopped cleanly before. All without ids.

        Args:
            node_ids: The nodes.
            wait: Wait until they serve, which takes a majority of the controllers.
        """
        chosen = list(node_ids or self._started())
        self.stop(*chosen)
        self._run(chosen, wait=wait)

    def pause(self, *node_ids: int) -> None:
        """Holds nodes with SIGSTOP; their connections stay open. All without ids.

        Args:
            node_ids: The nodes.

        Raises:
            NodeError: A node does not run.
        """
        for id in node_ids or self._started():
            self._process(id).pause()

    def resume(self, *node_ids: int) -> None:
        """Continues paused nodes with SIGCONT; all without ids.

        Args:
            node_ids: The nodes.

        Raises:
            NodeError: A node does not run.
        """
        for id in node_ids or self._started():
            self._process(id).resume()

    def cut(self, node_id: int, other_id: int | None = None, *, one_way: bool = False) -> None:
        """Cuts the link between two nodes: what they send arrives only after `heal`. Clients reach both.

        Args:
            node_id: One node.
            other_id: The other node; by default all others.
            one_way: Only what `node_id` sends does not arrive.
        """
        self._cuttable().cut(self._pairs(node_id, other_id, one_way))

    def delay(
        self, delay_ms: float, node_id: int, other_id: int | None = None, *, one_way: bool = False
    ) -> None:
        """Slows the link between two nodes.

        Args:
            delay_ms: Milliseconds by which each piece of up to 128 KiB is held.
            node_id: One node.
            other_id: The other node; by default all others.
            one_way: Only what `node_id` sends.
        """
        self._cuttable().delay(self._pairs(node_id, other_id, one_way), delay_ms / 1000)

    def heal(self, node_id: int | None = None, other_id: int | None = None) -> None:
        """Heals links, including slowed ones: delayed bytes arrive.

        Args:
            node_id: One node; by default all links are healed.
            other_id: The other node; by default all others.
        """
        pairs = None if node_id is None else self._pairs(node_id, other_id, one_way=False)
        self._cuttable().heal(pairs)

    def repair(self) -> None:
        """Heals all links, continues paused nodes, and starts those that do not run."""
        if self._links is not None:
            self._links.heal()
        for process in self._processes.values():
            if process.is_paused:
                process.resume()
        if ended := [id for id, process in self._processes.items() if not process.is_running]:
            self._run(ended)

    def _cuttable(self) -> Links:
        self._started()
        if self._links is None:
            raise ConfigError("links cannot be cut, because the cluster was made with linked=False")
        return self._links

    def _pairs(self, node_id: int, other_id: int | None, one_way: bool) -> list[tuple[int, int]]:
        self._node(node_id)
        others = (
            [id for id in self._nodes if id != node_id] if other_id is None else [self._node(other_id).id]
        )
        there = [(node_id, other) for other in others]
        return there if one_way else there + [(other, node_id) for other in others]


def _texts(config: Mapping[str, object]) -> dict[str, str]:
    return {name: layout.text_of(value) for name, value in config.items()}
