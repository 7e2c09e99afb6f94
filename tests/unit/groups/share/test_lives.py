"""Random lives of a share group: epochs only grow, and no member has a partition without state."""

import random

import pytest

from bowstring.engine.groups.share.group import ShareGroup
from bowstring.protocol.errors import Errors
from tests.support.share_group_harness import ShareMember, ShareShell, settle_share

TOPICS = "tuv"
STEPS = 120


class Life:
    """A group whose members, topics and share coordinators do what chance says."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.shell = ShareShell(group_share_assignment_interval_ms=self.chance.choice((0, 0, 500)))
        self.members: dict[str, ShareMember] = {}
        self.born = 0
        self.epochs = (0, 0)
        for name in TOPICS:
            self.shell.create(name, self.chance.randrange(1, 4))

    def step(self) -> None:
        act = self.chance.choices(
            (self.beat, self.join, self.leave, self.answer, self.change_topic, self.wait, self.restart),
            (40, 8, 6, 20, 6, 10, 2),
        )[0]
        act()
        self.check()

    def beat(self) -> None:
        if self.members:
            self.chance.choice(list(self.members.values())).step()

    def join(self) -> None:
        self.born += 1
        topics = self.chance.sample(TOPICS, self.chance.randrange(1, 3))
        member = self.members[f"m{self.born}"] = ShareMember(self.shell, f"m{self.born}", *topics)
        member.step()

    def leave(self) -> None:
        if self.members:
            member_id = self.chance.choice(list(self.members))
            member = self.members.pop(member_id)
            if self.chance.random() < 0.7:
                self.shell.share_beat(member.member_id, -1)

    def answer(self) -> None:
        error = self.chance.choice((Errors.NONE, Errors.NONE, Errors.NETWORK_EXCEPTION))
        self.shell.initialized(error)

    def change_topic(self) -> None:
        name = self.chance.choice(TOPICS)
        topic = self.shell.image.topics.get(name)
        if topic is None:
            self.shell.create(name, self.chance.randrange(1, 4))
        elif self.chance.random() < 0.4:
            self.shell.delete(name)
        else:
            self.shell.grow(name, len(topic.partitions) + 1)

    def wait(self) -> None:
        self.shell.advance(self.chance.choice((10, 600, 20_000)))

    def restart(self) -> None:
        self.shell.restart()
        if self.chance.random() < 0.5:
            self.shell.asked.clear()  # no member reports to the new coordinator

    def check(self) -> None:
        group = self.shell.shard.state.groups.get("g")
        if group is None:
            return
        assert isinstance(group, ShareGroup)
        assert self.epochs <= (group.epoch, group.assignment_epoch), "epochs only grow"
        self.epochs = (group.epoch, group.assignment_epoch)
        assert group.assignment_epoch <= group.epoch
        partitions = group.partitions
        for member in group.members.values():
            assert member.member_epoch <= group.assignment_epoch
            for topic_id, indexes in member.assigned.items():
                topic = self.shell.image.topics_by_id.get(topic_id)
                if topic is not None:
                    assert partitions is not None
                    assert indexes <= partitions.initialized[topic_id].partitions
        if partitions is not None:
            assert not partitions.initializing.keys() & partitions.deleting.keys()

    def settle(self) -> None:
        """Lets everything succeed, and checks the result."""
        self.shell.advance(46_000)  # silent members are gone, the others rejoin
        for member in self.members.values():
            member.step()
        for _ in range(5):
            self.shell.now_ms += 31_000
            settle_share(*self.members.values())
        group = self.shell.share_group()
        assert set(group.members) == set(self.members)
        held = {
            (topic_id, index)
            for member in group.members.values()
            for topic_id, indexes in member.assigned.items()
            for index in indexes
        }
        wanted = {
            (topic.id, index)
            for name in {name for member in self.members.values() for name in member.topics}
            if (topic := self.shell.image.topics.get(name)) is not None
            for index in range(len(topic.partitions))
        }
        assert held == wanted, "each partition of a subscribed topic has a member, and no other has"


@pytest.mark.parametrize("seed", range(60))
def test_lives(seed):
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
    if not life.members:
        life.join()
    life.settle()
    before = life.shell.share_group()
    life.shell.restart()
    after = life.shell.share_group()
    assert (after.members, after.target, after.epoch) == (before.members, before.target, before.epoch)
