"""What may remain of requests and of a broker's state once all is over."""

import asyncio
import os
from collections import Counter

from bowstring.engine.metadata.names import TRANSACTIONS_TOPIC
from bowstring.engine.quorum.forwards import CONNECTIONS
from tests.simulation.nodes.invariants import Rule

# The transaction coordinator repeats two kinds of work; a leader of the quorum has a fetch of each other node waiting.
TASKS_OF_A_NAME = 2


class NothingIsLeft(Rule):
    """Once everything is answered and the clients have left, a broker keeps nothing of them.

    No task, no connection, no entry of a waiting request, no log that moved to another broker, no open file
    without a name.
    """

    def why_not_healthy(self):
        most = max(TASKS_OF_A_NAME, len(self.world.nodes) - 1)
        for node, broker in self.brokers():
            left = {what: count for what, count in what_waits(broker) if count}
            left |= {what: count for what, count in tasks(node).items() if count > most}
            clients = [each for each in node.planes[0].connections.values() if each.end.other == "clients"]
            if clients:
                left["connections of clients"] = len(clients)
            if node.life == 1 and (files := nameless_files(node)):
                left[f"files such as {files[0]}"] = len(files)
            image = broker.quorum.image
            for topic, index, _ in broker.logs:
                if node.id not in replicas(image, topic, index):
                    left[f"a log of {topic}-{index}"] = 1
            if left:
                return f"{node.name} still has {left}"
        return None


def replicas(image, topic, index):
    """The brokers of a partition; none if it does not exist."""
    partitions = image.topics[topic].partitions if topic in image.topics else []
    return partitions[index].replicas if index < len(partitions) else ()


def tasks(node):
    """How many tasks of a name there are, or of a coroutine when they have no name of their own."""
    names = Counter()
    for each in asyncio.all_tasks(node.loop):
        has_name = not each.get_name().startswith("Task-")
        names[each.get_name() if has_name else each.get_coro().__qualname__] += 1
    return names


def what_waits(broker):
    """Yields what may wait in a broker, and how much of it does."""
    dispatcher, forwards, follower = broker.dispatcher, broker.quorum.to_leader.forwards, broker.follower
    yield "requests", len(dispatcher._running)
    if (checks := dispatcher._checks) is not None:
        yield "batches that are checked", len(checks._queues) + len(checks._asked)
    yield "requests to the controller", forwards._count + len(forwards._waiting) + len(forwards._on_their_way)
    yield "connections in use", CONNECTIONS - len(forwards._free)
    yield (
        "changes of the cluster",
        len(follower._waiting) + len(follower._missing_since_s) + any(follower._left),
    )
    yield "directory assignments", len(broker._assignments._waiting)
    turns = broker.server.controller._turns if broker.server is not None else None
    if turns is not None:
        yield "turns", len(turns._urgent) + len(turns._others) + (turns.holder is not None)
    for runtime in broker.coordination.coordinators:
        hosted = list(runtime._hosted.values())
        yield (
            f"appends to {runtime.topic.name}",
            sum(len(each.waiting) + len(each.effects) for each in hosted),
        )
        yield f"logs of {runtime.topic.name}", len(runtime._to_load) + len(runtime._failed_loads)
    if (transactions := broker.coordination.coordinators.get(TRANSACTIONS_TOPIC)) is not None:
        verifier, sender = transactions.verifier, transactions._sender
        yield "ends of transactions", len(transactions._ends)
        yield "markers that are written", len(transactions.writer._appends._waiting)
        yield "markers that are sent", len(sender._queues) + len(sender._busy) + len(sender._tasks)
        yield "questions about transactions", len(verifier._queues) + len(verifier._serving)


def nameless_files(node):
    """The files of a node that are open and deleted, or about to be."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if name.startswith(f"{node.path}/") and (name.endswith(" (deleted)") or "-delete/" in name):
            found.append(name.removeprefix(f"{node.path}/"))
    return found
