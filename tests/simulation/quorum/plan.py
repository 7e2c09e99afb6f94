"""Draws a run's conditions and events from a seed before it begins.

The actions are a list, so that a failing run can be tried again without some of them (`shrink`).
"""

from dataclasses import dataclass, field
from random import Random

CALM_MS = 25_000
"""How long a run may take, after all trouble, to commit everything everywhere."""


@dataclass(frozen=True)
class Action:
    """Something that happens at a time: to a node (modulo their number), with random numbers of its own."""

    at_ms: int
    kind: str
    node: int
    numbers: tuple[int, ...] = ()

    def __str__(self):
        return f"{self.at_ms} ms: {self.kind} {self.node} {self.numbers}"


@dataclass
class Plan:
    seed: int
    voters: int
    observers: int
    dynamic: bool
    auto_join: bool
    trouble_ms: int
    # per message
    drop: float
    duplicate: float
    flip: float
    delay_ms: tuple[int, int]
    slow: float
    sync_ms: tuple[int, int]
    drift: float
    linger_ms: int
    retry_ms: int
    fetch_max_bytes: int
    snapshot_max_bytes: int
    # highest version of Vote by node; 1 has no pre-vote
    vote_versions: tuple[int, ...]
    fetch_versions: tuple[int, ...]
    actions: list[Action] = field(default_factory=list)


TROUBLES = {
    "crash": 10,
    "stop": 3,
    "pause": 4,
    "isolate": 6,
    "split": 5,
    "one_way": 5,
    "heal": 8,
    "crash_all": 1,
    "resign": 4,
    "snapshot": 10,
    "corrupt": 2,
    "add_voter": 6,
    "remove_voter": 5,
    "move": 2,
    "describe": 2,
}


def draw(seed, **forced):
    """Returns the plan of a seed; `forced` overrides its fields, not its events."""
    random = Random(seed)
    voters = random.choice([1, 2, 3, 3, 3, 3, 4, 5, 5])
    dynamic = random.random() < 0.6
    observers = random.choice([0, 0, 1, 2]) if not dynamic else random.choice([0, 1, 1, 2])
    lossy = random.random() < 0.7
    plan = Plan(
        seed=seed,
        voters=voters,
        observers=observers,
        dynamic=dynamic,
        auto_join=dynamic and random.random() < 0.4,
        trouble_ms=random.choice([8_000, 12_000, 20_000]),
        drop=random.choice([0.0, 0.01, 0.05, 0.15]) if lossy else 0.0,
        duplicate=random.choice([0.0, 0.02, 0.1]) if lossy else 0.0,
        flip=random.choice([0.0, 0.0, 0.02]) if lossy else 0.0,
        delay_ms=random.choice([(1, 2), (1, 10), (5, 50), (1, 200)]),
        slow=random.choice([0.0, 0.0, 0.02]),
        sync_ms=random.choice([(0, 1), (1, 5), (1, 30), (5, 300)]),
        drift=random.choice([0.0, 0.02, 0.1]),
        linger_ms=random.choice([0, 5, 25]),
        retry_ms=random.choice([20, 100, 200]),
        fetch_max_bytes=random.choice([100, 500, 1 << 20]),
        snapshot_max_bytes=random.choice([50, 100, 1 << 20]),
        vote_versions=tuple(2 if random.random() < 0.85 else 1 for _ in range(8))
        if random.random() < 0.2
        else (2,) * 8,
        fetch_versions=tuple(random.choice([17, 18, 18]) for _ in range(8)),
    )
    for name, value in forced.items():
        setattr(plan, name, value)
    _draw_actions(plan, random)
    return plan


def _draw_actions(plan, random):
    kinds, weights = list(TROUBLES), list(TROUBLES.values())
    every_ms = random.choice([150, 300, 600])
    for at in _times(random, every_ms, plan.trouble_ms):
        kind = random.choices(kinds, weights)[0]
        numbers = tuple(random.randrange(1 << 30) for _ in range(4))
        plan.actions.append(Action(at, kind, random.randrange(100), numbers))
    for at in _times(random, random.choice([60, 150, 400]), plan.trouble_ms):
        plan.actions.append(Action(at, "append", random.randrange(100), (random.randrange(1, 4),)))
    # With random numbers of their own: they came later than the seeds that find the faults.
    other = Random(f"{plan.seed} room")
    for at in _times(other, other.choice([1_000, 3_000, 100_000]), plan.trouble_ms):
        numbers = tuple(other.randrange(1 << 30) for _ in range(4))
        plan.actions.append(Action(at, "no_room", other.randrange(100), numbers))
    plan.actions.sort(key=lambda each: each.at_ms)


def _times(random, every_ms, end):
    """Random times until an end, so often on average."""
    at = 1 + int(random.expovariate(1 / every_ms))
    while at < end:
        yield at
        at += 1 + int(random.expovariate(1 / every_ms))
