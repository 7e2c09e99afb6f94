"""Members join, stall, restart and leave while topics change, by a printed seed; undisturbed, they settle."""

import random

import pytest

from bowstring.engine.groups.classic.group import ClassicGroup
from bowstring.engine.groups.consumer.group import ConsumerGroup
from bowstring.protocol.errors import Errors
from tests.support.consumer_group_harness import ConsumerShell, Member

TOPICS = ("one", "two", "three")
STEPS = 120
SETTLE_ROUNDS = 40


class Life:
    """One group and its members; every step is followed by a check of the invariants."""

    def __init__(self, seed, assignor):
        self.rng = random.Random(seed)
        self.shell = ConsumerShell()
        self.assignor = assignor
        self.members = []
        self.count = 0
        self.epochs = (0, 0)
        for name in TOPICS:
            self.shell.create(name, self.rng.randint(1, 5))

    def subscription(self):
        return self.rng.sample(TOPICS, self.rng.randint(1, len(TOPICS)))

    def join(self):
        self.count += 1
        fields = {"server_assignor": self.assignor}
        if self.rng.random() < 0.3:
            fields["instance_id"] = f"i{self.count}"
        self.members.append(Member(self.shell, f"m{self.count}", *self.subscription(), **fields))
        self.members[-1].step()

    def leave(self):
        member = self.rng.choice(self.members)
        self.members.remove(member)
        if member.epoch > 0:
            static = member.fields.get("instance_id") is not None
            member.leave(-2 if static and self.rng.random() < 0.5 else -1)

    def vanish(self):
        """The member's process dies."""
        self.members.remove(self.rng.choice(self.members))

    def resubscribe(self):
        member = self.rng.choice(self.members)
        topics = self.subscription()
        member.fields["subscribed_topic_names"] = topics
        if member.epoch > 0:
            owned = member.owned if self.rng.random() < 0.5 else None
            answer = self.shell.beat(
                member.member_id,
                member.epoch,
                owned=owned,
                subscribed_topic_names=topics,
                instance_id=member.fields.get("instance_id"),
            )
            member.take(answer)

    def change_topic(self):
        name = self.rng.choice(TOPICS)
        topic = self.shell.image.topics.get(name)
        if topic is None:
            self.shell.create(name, self.rng.randint(1, 5))
        elif self.rng.random() < 0.5:
            self.shell.grow(name, len(topic.partitions) + 1)
        else:
            self.shell.delete(name)

    def step(self):
        if self.members:
            self.rng.choice(self.members).step()

    def act(self):
        actions = [self.step] * 12 + [self.join, self.change_topic, self.shell.restart, self.wait]
        if self.members:
            actions += [self.leave, self.vanish, self.resubscribe]
        self.rng.choice(actions)()
        self.check()

    def wait(self):
        self.shell.advance(self.rng.choice((100, 5_000, 20_000)))

    def check(self):
        group = self.shell.shard.state.groups.get("g")
        if group is None:
            return
        assert isinstance(group, ConsumerGroup)
        assert (group.epoch, group.assignment_epoch) >= self.epochs
        self.epochs = (group.epoch, group.assignment_epoch)
        held = {}
        for member in group.members.values():
            for partitions in (member.assigned, member.pending_revocation):
                for topic_id, epochs in partitions.items():
                    for index in epochs:
                        assert (topic_id, index) not in held, "two members have a partition"
                        held[topic_id, index] = member.member_epoch
        counted = {(t, i): e for t, indexes in group.partition_epochs.items() for i, e in indexes.items()}
        assert counted == held
        targets = [
            (t, i) for target in group.target.values() for t, indexes in target.items() for i in indexes
        ]
        assert len(targets) == len(set(targets)), "two members are to have a partition"
        assert not self.shell.held

    def settle(self):
        """All remaining members heartbeat until nothing changes; vanished ones are removed."""
        for _ in range(SETTLE_ROUNDS):
            for member in self.members:
                member.step()
                self.check()
            self.shell.advance(2_000)
        group = self.shell.shard.state.groups.get("g")
        if group is None or not self.members:
            return
        assert set(group.members) == {member.member_id for member in self.members}
        assert group.state == "Stable"
        wanted = {
            (topic.id, index)
            for topic in self.shell.image.topics.values()
            if topic.name in group.subscribed_topics
            for index in range(len(topic.partitions))
        }
        has = [(t, i) for member in self.members for t, indexes in member.owned.items() for i in indexes]
        assert sorted(has) == sorted(wanted)
        for member in self.members:
            known = {self.shell.image.topics_by_id[topic_id].name for topic_id in member.owned}
            assert known <= set(member.fields["subscribed_topic_names"])


@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("seed", range(25))
def test_members_always_settle(seed, assignor):
    life = Life(seed, assignor)
    for _ in range(STEPS):
        life.act()
    life.settle()


@pytest.mark.parametrize("seed", range(10))
def test_groups_that_change_their_kind(seed):
    """Classic and new members come and go; the group follows, and both kinds share the partitions."""
    rng = random.Random(seed)
    shell = ConsumerShell(group_initial_rebalance_delay_ms=0)
    shell.create("one", 4)
    new, classic = [], []
    for number in range(60):
        action = rng.random()
        if action < 0.15:
            new.append(Member(shell, f"n{number}", "one"))
            new[-1].step()
        elif action < 0.3:
            classic.append(shell.classic_member("one"))
        elif action < 0.4 and new:
            new.pop(rng.randrange(len(new))).leave()
        elif action < 0.5 and classic:
            classic.pop(rng.randrange(len(classic))).leave()
        for member in (*new, *classic):
            member.step()
        shell.advance(500)
    for _ in range(SETTLE_ROUNDS):
        for member in (*new, *classic):
            member.step()
        shell.advance(500)
    group = shell.shard.state.groups.get("g")
    if new:
        assert isinstance(group, ConsumerGroup)
    elif classic:
        assert isinstance(group, ClassicGroup)
    if new or classic:
        assert sorted(index for member in (*new, *classic) for index in member.partitions) == [0, 1, 2, 3]
    assert not any(member.error not in (0, Errors.REBALANCE_IN_PROGRESS.code) for member in (*new, *classic))
