"""Draws a run's conditions and events from a seed before it begins."""

from dataclasses import dataclass
from random import Random

from tests.simulation.quorum.plan import Action, Plan

CALM_MS = 25_000
"""How long a run may take, after all trouble, until the cluster is healthy."""


@dataclass
class ClusterPlan(Plan):
    """The conditions of a run; the fields of `Plan` are those of the quorum and of the network."""

    nodes: int = 3
    # what counts as written: data on the medium, or in the page cache
    commit_mode: bool = False
    eligible_leaders: bool = True
    min_in_sync: int = 2
    replicas: int = 3
    partitions: int = 2
    session_ms: int = 1500
    heartbeat_ms: int = 400
    lag_max_ms: int = 1000
    balance_ms: int = 2000
    restart_ms: int = 500
    producers: int = 3
    think_ms: int = 40
    # transactional clients, and the shipped shells of the coordinators
    transactions: bool = False
    transaction_version: int = 2
    # consumers of a group of KIP-848, and how often a request of theirs arrives twice
    groups: bool = False
    group_session_ms: int = 1500
    assignment_interval_ms: int = 0
    repeat: float = 0.0
    # consumers of a share group
    shares: bool = False
    lock_ms: int = 1000
    delivery_limit: int = 5
    updates_per_snapshot: int = 500

    @property
    def shells(self):
        """Whether the shipped shells of coordinators run."""
        return self.transactions or self.groups or self.shares


TROUBLES = {
    "kill": 8,
    "power_off": 8,
    "stop": 4,
    "replace_disk": 2,
    "pause": 5,
    "isolate": 6,
    "split": 4,
    "one_way": 5,
    "slow_one": 6,
    "heal": 10,
    "resign": 3,
    "power_off_all": 1,
    "reassign": 3,
    "flush": 6,
}


def draw(seed, **forced):
    """Returns the plan of a seed; `forced` overrides its fields, not its events."""
    random = Random(seed)
    nodes = random.choice([3, 3, 3, 4, 5])
    lossy = random.random() < 0.5
    commit_mode = random.random() < 0.5
    plan = ClusterPlan(
        seed=seed,
        voters=random.choice([1, 1, 3]),
        observers=0,
        dynamic=False,
        auto_join=False,
        trouble_ms=random.choice([5_000, 7_000, 10_000]),
        drop=random.choice([0.0, 0.01, 0.05]) if lossy else 0.0,
        duplicate=random.choice([0.0, 0.02, 0.1]) if lossy else 0.0,
        flip=0.0,
        delay_ms=random.choice([(1, 2), (1, 10), (2, 40)]),
        slow=random.choice([0.0, 0.0, 0.03]),
        sync_ms=random.choice([(0, 1), (1, 5), (1, 40)]),
        drift=random.choice([0.0, 0.02]),
        linger_ms=random.choice([0, 5]),
        retry_ms=50,
        fetch_max_bytes=1 << 20,
        snapshot_max_bytes=1 << 20,
        vote_versions=(2,) * 8,
        fetch_versions=(18,) * 8,
        nodes=nodes,
        commit_mode=commit_mode,
        eligible_leaders=random.random() < 0.8,
        min_in_sync=random.choice([1, 2, 2, 2, 2]),
        partitions=random.choice([1, 2]),
        lag_max_ms=random.choice([400, 1000]),
        restart_ms=random.choice([50, 500, 1500]),
        think_ms=random.choice([20, 60, 150]),
    )
    _draw_transactions(plan, Random(f"{seed} transactions"))
    _draw_groups(plan, Random(f"{seed} groups"))
    _draw_shares(plan, Random(f"{seed} shares"))
    for name, value in forced.items():
        setattr(plan, name, value)
    plan.observers = plan.nodes - plan.voters
    _draw_actions(plan, random)
    return plan


def _draw_transactions(plan, random):
    """Draws apart, so that the rest of a seed stays as it is."""
    plan.transactions = random.random() < 0.5
    plan.transaction_version = random.choice([2, 2, 2, 1])


def _draw_groups(plan, random):
    plan.groups = random.random() < 0.25
    plan.group_session_ms = random.choice([1000, 2500])
    plan.assignment_interval_ms = random.choice([0, 0, 300])
    plan.repeat = random.choice([0.0, 0.05, 0.2])


def _draw_shares(plan, random):
    plan.shares = random.random() < 0.2
    plan.lock_ms = random.choice([1000, 1000, 2500])
    plan.delivery_limit = random.choice([2, 3, 5])
    plan.updates_per_snapshot = random.choice([0, 3, 20])


def _draw_actions(plan, random):
    kinds, weights = list(TROUBLES), list(TROUBLES.values())
    at = 1500
    every_ms = random.choice([200, 400, 800])
    while at < plan.trouble_ms:
        kind = random.choices(kinds, weights)[0]
        numbers = tuple(random.randrange(1 << 30) for _ in range(4))
        plan.actions.append(Action(at, kind, random.randrange(100), numbers))
        at += 1 + int(random.expovariate(1 / every_ms))
