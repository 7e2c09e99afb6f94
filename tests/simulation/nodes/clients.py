"""Clients that send random requests of every kind to random nodes, with so few names that they collide."""

from inspect import iscoroutinefunction
from itertools import count

from bowstring.engine.api.table import BY_CONTROLLER
from bowstring.engine.network.connection import NoAnswerError, PeerConnection, UnsupportedByPeerError
from bowstring.protocol import API_VERSIONS
from tests.simulation.nodes.access import ACCESS
from tests.simulation.nodes.administration import ADMINISTRATION
from tests.simulation.nodes.credentials import CREDENTIALS
from tests.simulation.nodes.group_administration import GROUP_ADMINISTRATION
from tests.simulation.nodes.groups import MEMBERS
from tests.simulation.nodes.kernel import MS
from tests.simulation.nodes.loop import NodeLoop
from tests.simulation.nodes.node import CONTROLLER_PORT, LISTENER_PORT
from tests.simulation.nodes.pace import Instant
from tests.simulation.nodes.replicas import REPLICAS
from tests.simulation.nodes.settings import SETTINGS
from tests.simulation.nodes.transactions import PRODUCERS
from tests.simulation.nodes.voters import VOTERS
from tests.support.waiting import pause_async

# A request that lasts this long gets no answer: longer than any timeout of a node.
FOREVER_S = 600.0
ANSWERED_WITHIN_MS = 12_000
UNKNOWN_SERVER_ERROR = -1
# ShareFetch and ShareAcknowledge: Kafka's answer for a share partition that is not initialized yet.
MAY_BE_UNKNOWN = (78, 79)

KINDS = {"administration": ADMINISTRATION, "producers": PRODUCERS, "members": MEMBERS}
RARE, TO_CONTROLLER = 0.1, 0.15
# Requests of no other kind of client; all clients send some now and then.
RARELY = VOTERS + REPLICAS + GROUP_ADMINISTRATION + ACCESS + CREDENTIALS


class Clients:
    """All clients, on a loop of their own.

    Attributes:
        waiting: By client: its request, where, and since when.
        numbers: No two changes of settings have the same.
    """

    def __init__(self, world):
        self.world = world
        self.kernel = world.kernel
        self.loop = NodeLoop(world.kernel, "clients", 1, world.network, Instant())
        self.loop.owner = None
        self.waiting: dict[int, tuple[str, str, int]] = {}
        self.answers: dict[str, int] = {}
        self.numbers = count(1)
        self.is_calm = False
        self.calm_at = 0
        self._running = 0
        self._all: list[Client] = []

    def start(self):
        """Starts the clients; each has one request at a time."""
        plan = self.world.plan
        for number in range(plan.clients + plan.settings):
            self._running += 1
            self._all.append(Client(self, number, only=SETTINGS if number >= plan.clients else None))
            self.loop.call_soon(self._begin, self._all[-1])

    def _begin(self, client):
        self.loop.create_task(client.run()).add_done_callback(self._ended)

    def _ended(self, task):
        self._running -= 1
        if not task.cancelled() and task.exception() is not None:
            raise task.exception()

    def calm(self):
        """Stops new requests: earlier ones must be answered now."""
        self.is_calm = True
        self.calm_at = self.kernel.now

    def are_done(self):
        """Whether all requests have been answered."""
        for text, where, since in self.waiting.values():
            if self.kernel.now - max(since, self.calm_at) > ANSWERED_WITHIN_MS * MS:
                self.kernel.violated("EveryRequestIsAnswered", f"{text} to {where}")
        return self._running == 0

    def leave(self):
        """Closes the connections of clients that are done."""
        self.loop.call_soon(self._leave)

    def _leave(self):
        for client in self._all:
            for connection in client.connections.values():
                connection.close()
            client.connections.clear()

    def unanswered(self):
        return [f"{text} to {where}" for text, where, _ in self.waiting.values()]

    def end(self):
        self.loop.end()


class Client:
    """One client; `only` has its requests, if it sends no others."""

    def __init__(self, clients, number, only=None):
        self.clients = clients
        self.only = only
        self.world = clients.world
        self.number = number
        self.random = clients.kernel.random(f"client {number}")
        self.connections: dict[tuple[int, int], PeerConnection] = {}
        names = self.world.plan.names
        self.topics = [f"t{each}" for each in range(names)]
        self.groups = [
            f"{kind}{each}" for kind in ("classic", "consumer", "share", "streams") for each in "ab"
        ]

    async def run(self):
        plan = self.world.plan
        await pause_async(self.random.uniform(0, plan.think_ms) / 1000, "clients begin at random")
        # Mostly one kind of work: clients of one kind keep changing what the others need.
        kinds = [ADMINISTRATION, PRODUCERS, MEMBERS]
        usual = KINDS.get(plan.mostly, kinds[self.number % len(kinds)])
        while not self.clients.is_calm:
            kind = usual if self.random.random() < 0.8 else self.random.choice(kinds)
            if self.random.random() < RARE:
                kind = VOTERS if plan.voters_in_log and self.random.random() < 0.5 else RARELY
            kind = self.only or kind
            ((_, work),) = self.random.choices(kind, [weight for weight, _ in kind])
            if iscoroutinefunction(work):
                await work(self)
            else:
                request = work(self)
                await self.ask(request, port=self.a_port(request))
            await pause_async(self.random.expovariate(1 / plan.think_ms) / 1000, "the pace of a client")

    def image(self):
        """Some node's image of the cluster; None if none serves."""
        nodes = [
            each for each in self.world.nodes.values() if each.broker is not None and not each.is_starting
        ]
        return self.random.choice(nodes).broker.quorum.image if nodes else None

    def a_node(self):
        """The node for the next request."""
        return self.random.choice(list(self.world.nodes.values()))

    def a_port(self, request):
        """The port for an administrator's request: now and then a controller's, perhaps an inactive one's."""
        to_controller = request.api_key in BY_CONTROLLER.handlers and self.random.random() < TO_CONTROLLER
        return CONTROLLER_PORT if to_controller else LISTENER_PORT

    async def ask(self, request, node=None, version=None, port=LISTENER_PORT):
        """Sends a request; returns its answer, or None if the connection ends first."""
        node = node or self.a_node()
        api = API_VERSIONS[request.api_key]
        versions = (api.lowest, api.highest) if version is None else (version, version)
        text = brief(request).replace(self.world.path, "")
        clients = self.clients
        clients.kernel.say(f"client{self.number}", f"asks {node.name} {text}")
        clients.waiting[self.number] = (text, node.name, clients.kernel.now)
        connection = self.connections.get((node.id, port))
        if connection is None:
            connection = PeerConnection(node.host, port, f"client{self.number}")
            self.connections[node.id, port] = connection
        try:
            answer, _ = await connection.exchange(request, versions, FOREVER_S)
        except (NoAnswerError, UnsupportedByPeerError) as error:
            clients.kernel.say(f"client{self.number}", f"gets no answer: {error!r}")
            return None
        finally:
            clients.waiting.pop(self.number, None)
        errors = sorted(set(error_codes(answer)))
        clients.kernel.say(f"client{self.number}", f"gets {type(answer).__name__} {errors}")
        key = f"{type(request).__name__.removesuffix('Request')} {errors}"
        clients.answers[key] = clients.answers.get(key, 0) + 1
        if UNKNOWN_SERVER_ERROR in errors and request.api_key not in MAY_BE_UNKNOWN:
            clients.kernel.violated("NoUnknownServerError", f"{text} to {node.name}: {answer}")
        return answer


def brief(request):
    """A request in a few words."""
    parts = [f"{name}={short(getattr(request, name))}" for name in request.__slots__]
    return f"{type(request).__name__.removesuffix('Request')} {' '.join(parts)}"[:300]


def short(value):
    if isinstance(value, list):
        return "[" + ",".join(short(each) for each in value) + "]"
    if hasattr(value, "__slots__") and not isinstance(value, (str, bytes)):
        return "(" + " ".join(short(getattr(value, name)) for name in value.__slots__) + ")"
    return value.hex()[:8] if isinstance(value, bytes) else str(value)


def error_codes(message):
    """Yields every error code in an answer."""
    for name in getattr(message, "__slots__", ()):
        value = getattr(message, name)
        if name.endswith("error_code"):
            if value:
                yield value
        elif isinstance(value, list):
            for each in value:
                yield from error_codes(each)
