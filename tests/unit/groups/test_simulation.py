"""Many consumers that join, stall, restart and leave, by a printed seed; undisturbed, they always settle."""

import random

import pytest

from bowstring.engine.groups.classic.group import GroupState
from bowstring.protocol.errors import Errors
from tests.support.group_harness import Shell, subscription

HEARTBEAT_MS = 3_000
PARTITIONS = 60

REJOIN = {
    Errors.REBALANCE_IN_PROGRESS.code,
    Errors.MEMBER_ID_REQUIRED.code,
    Errors.ILLEGAL_GENERATION.code,
    Errors.UNKNOWN_MEMBER_ID.code,
}
FORGET_ID = {Errors.UNKNOWN_MEMBER_ID.code, Errors.FENCED_INSTANCE_ID.code}


class Consumer:
    """A consumer as Kafka's clients behave: join, sync, heartbeat; rejoin on REBALANCE_IN_PROGRESS."""

    def __init__(self, shell, name, instance):
        self.shell, self.name, self.instance = shell, name, instance
        self.alive = True
        self.forget()

    def forget(self):
        """The process restarts and loses its state."""
        self.member_id, self.generation, self.token, self.phase = "", -1, None, "join"
        self.part = None

    def step(self):
        if not self.alive:
            return
        if self.token is not None:
            if self.token in self.shell.answers:
                token, self.token = self.token, None
                self.take(self.shell.answers[token])
        elif self.phase == "join":
            self.part = None
            self.token = self.shell.join(
                self.member_id,
                instance=self.instance,
                client=self.name,
                protocols=[("range", subscription("t")), ("sticky", subscription("t"))],
            )
        elif self.phase == "sync":
            self.token = self.shell.sync(self.member_id, self.generation, self.plan, instance=self.instance)
        else:
            self.failed(self.shell.heartbeat(self.member_id, self.generation, instance=self.instance))

    def take(self, answer):
        if self.failed(answer.error_code, getattr(answer, "member_id", None)):
            return
        if self.phase == "join":
            self.member_id, self.generation = answer.member_id, answer.generation_id
            ids = [member.member_id for member in answer.members]
            self.plan = {member_id: bytes(range(i, PARTITIONS, len(ids))) for i, member_id in enumerate(ids)}
            self.phase = "sync"
        else:
            self.part = answer.assignment
            self.phase = "heartbeat"

    def failed(self, code, member_id=None):
        if code == 0:
            return False
        assert code in REJOIN | FORGET_ID, Errors.of(code)
        if code in FORGET_ID:
            self.member_id, self.generation = "", -1
        elif code == Errors.MEMBER_ID_REQUIRED.code:
            self.member_id = member_id
        self.phase = "join"
        return True


def disturb(rng, shell, consumers):
    consumer = rng.choice(consumers)
    kind = rng.random()
    if kind < 0.3:
        consumer.alive = not consumer.alive
    elif kind < 0.6:
        consumer.forget()
        consumer.alive = True
    elif kind < 0.8:
        if consumer.member_id and consumer.token is None:
            shell.leave((consumer.member_id, consumer.instance))
        consumer.forget()
        consumer.alive = False
    elif kind < 0.85:
        shell.restart()
        for each in consumers:
            each.token = None
    elif kind < 0.9:
        shell.fail = Errors.NOT_ENOUGH_REPLICAS if shell.fail is None else None


REJOIN |= {Errors.COORDINATOR_NOT_AVAILABLE.code}


@pytest.mark.parametrize("seed", range(12))
def test_consumers_settle(seed):
    print(f"seed {seed}")
    rng = random.Random(seed)
    shell = Shell()
    consumers = [Consumer(shell, f"c{i}", f"i{i}" if i % 3 == 0 else None) for i in range(40)]
    generation = 0
    for step in range(400):
        shell.advance(rng.choice([50, 300, 1_000]))
        for consumer in rng.sample(consumers, len(consumers)):
            if rng.random() < 0.7:
                consumer.step()
        if step < 300 and rng.random() < 0.2:
            disturb(rng, shell, consumers)
    shell.fail = None
    for consumer in consumers:
        consumer.alive = True
    for _ in range(600):
        shell.advance(500)
        for consumer in consumers:
            consumer.step()
    group = shell.group()
    generation = group.generation
    assert group.state is GroupState.STABLE
    assert {member.client_id for member in group.members.values()} == {each.name for each in consumers}
    owned = sorted(b"".join(consumer.part or b"" for consumer in consumers))
    assert owned == list(range(PARTITIONS)), "every partition has one owner"
    for _ in range(100):
        shell.advance(HEARTBEAT_MS)
        for consumer in consumers:
            consumer.step()
    assert group.generation == generation, "a settled group stays settled"


def test_ten_thousand_members():
    """Costs grow with the members, not with their square."""
    shell = Shell(group_max_session_timeout_ms=10_000_000)
    how = {"session_ms": 1_000_000, "rebalance_ms": 1_000_000, "version": 3}
    tokens = [shell.join(client=f"c{i}", **how) for i in range(10_000)]
    shell.wait(tokens[-1])
    answers = [shell.ask(token) for token in tokens]
    assert {answer.generation_id for answer in answers} == {1}
    leader = next(answer for answer in answers if answer.members)
    assert len(leader.members) == 10_000
    for answer in answers:
        if answer is not leader:
            shell.sync(answer.member_id, 1)
    parts = {member.member_id: member.member_id.encode() for member in leader.members}
    token = shell.sync(leader.member_id, 1, parts)
    assert shell.ask(token).assignment == parts[leader.member_id]
    assert shell.group().state is GroupState.STABLE
