"""The plan of a run, drawn from a seed."""

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple


class Action(NamedTuple):
    """Trouble at a time: its kind, with numbers that choose among the targets that exist then."""

    at_ms: int
    kind: str
    number: int
    numbers: tuple[int, ...] = ()


@dataclass
class NodesPlan:
    """A run.

    Attributes:
        commit_mode: Whether acknowledged records are on the medium.
        stall: How often a node's code takes milliseconds.
        names: The number of topic names that clients use: few, so that they collide.
        clients: The number of clients, each with one request at a time.
        voters_in_log: Whether the voters of the quorum are in its log, so that they change (KIP-853).
        without: Kinds of trouble to leave out.
        disks: How often a seed has failing disks.
        directories: The directories of a node then: one for all, two, or one for the metadata log alone.
        mostly: The main work of most clients: everything, administration, producers or members.
    """

    seed: int
    nodes: int = 3
    voters: int = 3
    voters_in_log: bool = False
    commit_mode: bool = False
    trouble_ms: int = 3000
    delay_ms: tuple[float, float] = (0.05, 1.0)
    thread_ms: tuple[float, float] = (0.1, 1.0)
    sync_ms: tuple[float, float] = (0.1, 2.0)
    stall: float = 0.002
    lag_max_ms: int = 500
    session_ms: int = 1000
    names: int = 4
    clients: int = 6
    settings: int = 2  # more clients, which change users and quotas
    think_ms: int = 30
    mostly: str = "everything"
    without: tuple[str, ...] = ()
    disks: float = 0.25
    directories: str = "one"
    actions: list[Action] = field(default_factory=list)

    @property
    def configs(self):
        return {
            "bowstring.durability": "commit" if self.commit_mode else "os",
            "controller.quorum.election.timeout.ms": "300",
            "controller.quorum.fetch.timeout.ms": "600",
            "controller.quorum.election.backoff.max.ms": "100",
            "controller.quorum.request.timeout.ms": "1000",
            "broker.session.timeout.ms": str(self.session_ms),
            "broker.heartbeat.interval.ms": "150",
            "request.timeout.ms": "2000",
            "replica.lag.time.max.ms": str(self.lag_max_ms),
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "unclean.leader.election.enable": "false",
            "log.segment.delete.delay.ms": "300",
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": "2",
            "share.coordinator.state.topic.num.partitions": "2",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "share.coordinator.state.topic.replication.factor": "3",
            "group.initial.rebalance.delay.ms": "0",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
            "offsets.commit.timeout.ms": "1500",
            "producer.id.expiration.check.interval.ms": "500",
        }


TROUBLES = {
    "kill": 4,
    "stop": 3,
    "pause": 3,
    "isolate": 4,
    "one_way": 3,
    "heal": 6,
    "resign": 3,
    "no_descriptors": 3,
    "break_connections": 3,
    "clock": 3,
}
# Trouble of disks: from its own source of randomness.
DISK_TROUBLES = {"full": 3, "broken": 2, "no_memory": 2}
# The purpose of commit mode: nothing acknowledged is lost when all nodes lose their power at once.
POWER = {"power": 2, "blackout": 2}


def draw(seed, **forced):
    """Returns the plan of a seed; `forced` overrides its fields, not its events."""
    random = Random(seed)
    plan = NodesPlan(
        seed=seed,
        commit_mode=seed % 2 == 0,
        trouble_ms=random.choice([1500, 2500]),
        delay_ms=random.choice([(0.02, 0.2), (0.05, 1.0), (0.2, 8.0)]),
        thread_ms=random.choice([(0.02, 0.2), (0.1, 2.0), (1.0, 15.0)]),
        sync_ms=random.choice([(0.05, 0.5), (0.2, 5.0), (1.0, 25.0)]),
        stall=random.choice([0.0005, 0.003, 0.01, 0.03]),
        names=random.choice([2, 4, 8]),
        clients=random.choice([4, 6, 8]),
        think_ms=random.choice([5, 20, 60]),
        mostly=random.choice(["everything", "everything", "administration", "producers", "members"]),
    )
    if random.random() < 0.3:
        plan.voters_in_log = True
        plan.nodes, plan.voters = random.choice([(3, 1), (3, 3), (4, 3)])
    for name, value in forced.items():
        setattr(plan, name, value)
    if random.random() < 0.75 and set(plan.without) != set(TROUBLES):
        _draw_actions(plan, random)
    _draw_disks(plan, Random(f"{seed} disks"))
    return plan


def _draw_actions(plan, random):
    troubles = TROUBLES | POWER if plan.commit_mode else TROUBLES
    kinds = [each for each in troubles if each not in plan.without]
    weights = [troubles[each] for each in kinds]
    at, every_ms = 100, random.choice([150, 300, 600])
    while at < plan.trouble_ms:
        kind = random.choices(kinds, weights)[0]
        plan.actions.append(
            Action(at, kind, random.randrange(100), tuple(random.randrange(1 << 20) for _ in range(3)))
        )
        at += 1 + int(random.expovariate(1 / every_ms))


def _draw_disks(plan, random):
    kinds = [each for each in DISK_TROUBLES if each not in plan.without]
    if random.random() >= plan.disks or not kinds:
        return
    plan.directories = random.choice(["one", "two", "two", "apart"])
    weights = [DISK_TROUBLES[each] for each in kinds]
    for _ in range(random.choice([1, 1, 2, 3])):
        at_ms = random.randrange(100, plan.trouble_ms)
        kind = random.choices(kinds, weights)[0]
        plan.actions.append(
            Action(at_ms, kind, random.randrange(100), tuple(random.randrange(1 << 20) for _ in range(4)))
        )
