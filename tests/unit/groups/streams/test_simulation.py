"""Members join, stall, restart and leave while topics grow, by a printed seed; undisturbed, they settle."""

import random

import pytest

from bowstring.engine.groups.streams.tasks import flat
from tests.support.examples import examples
from tests.support.streams_group_harness import StreamsMember, StreamsShell, settle
from tests.support.streams_topologies import subtopology, topology

TOPOLOGY = topology(
    subtopology("0", ["in"], sinks=["r"]),
    subtopology("1", repartition=["r"], changelogs=["s"]),
    subtopology("2", ["in", "side"], changelogs=["u"]),
)
STEPS = 120


class Life:
    """A group, and its live members."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.shell = StreamsShell(
            group_streams_assignment_interval_ms=self.rng.choice([0, 1_000]),
            group_streams_initial_rebalance_delay_ms=self.rng.choice([0, 3_000]),
            group_streams_num_standby_replicas=self.rng.randrange(3),
        )
        self.shell.create("in", self.rng.randrange(1, 6))
        self.members = {}
        self.epochs = (0, 0)
        self.names = 0

    def step(self):
        rng = self.rng
        chance = rng.random()
        if chance < 0.12 and len(self.members) < 7:
            instance = {"instance_id": f"i{self.names}"} if rng.random() < 0.4 else {}
            self.enter(f"p{rng.randrange(3)}", **instance)
        elif chance < 0.16 and self.members:
            leaving = self.members.pop(rng.choice(sorted(self.members)))
            if leaving.identity and rng.random() < 0.7:
                leaving.leave(-2)
                processes = [leaving.joining["process_id"], f"anew{self.names}"]
                self.enter(rng.choice(processes), **leaving.identity)
            else:
                leaving.leave()
        elif chance < 0.19 and self.members:
            del self.members[rng.choice(sorted(self.members))]  # dies; its session ends
        elif chance < 0.22 and self.members:
            self.members[rng.choice(sorted(self.members))].forget()
        elif chance < 0.25:
            self.shell.restart()
            self.epochs = self.epochs if "g" in self.shell.shard.state.groups else (0, 0)
        elif chance < 0.27:
            self.grow()
        elif chance < 0.3:
            self.shell.configure("streams.num.standby.replicas", str(rng.randrange(3)))
        elif chance < 0.4:
            self.shell.advance(rng.choice([500, 2_000, 20_000]))
        elif self.members:
            self.members[rng.choice(sorted(self.members))].step()
        self.check()

    def enter(self, process, **fields):
        self.names += 1
        timeout_ms = self.rng.choice([5_000, 60_000])
        self.members[f"m{self.names}"] = StreamsMember(
            self.shell, f"m{self.names}", TOPOLOGY, process, rebalance_timeout_ms=timeout_ms, **fields
        )

    def grow(self):
        topic = self.rng.choice(["in", "side"])
        if topic not in self.shell.image.topics:
            self.shell.create(topic, self.rng.randrange(1, 6))
        elif len(self.shell.image.topics[topic].partitions) < 8:
            self.shell.grow(topic, len(self.shell.image.topics[topic].partitions) + 1)
        # Kafka's coordinator never adds partitions to internal topics: the one who grows an input does.
        for internal in ("r", "s", "u"):
            for name in [internal] if internal in self.shell.image.topics else []:
                self.shell.delete(name)

    def check(self):
        """What holds after every step."""
        group = self.shell.shard.state.groups.get("g")
        if group is None:
            return
        epochs = (group.epoch, group.assignment_epoch)
        assert epochs >= self.epochs or epochs[0] >= self.epochs[0], "epochs only rise"
        self.epochs = epochs
        holders, copies = {}, {}
        for member in group.members.values():
            assert member.member_epoch <= group.epoch
            for tasks in (member.tasks, member.revoked):
                for task in flat(tasks.active):
                    assert task not in holders, (
                        f"{task} is active with {holders[task]} and {member.member_id}"
                    )
                    holders[task] = member.member_id
                for task in flat(tasks.standby):
                    where = copies.setdefault(task, [])
                    assert member.process_id not in where, f"{task} is twice in {member.process_id}"
                    where.append(member.process_id)
        for task, member_id in holders.items():
            assert group.active_process(*task) == group.members[member_id].process_id
        for name, living in self.members.items():
            known = group.members.get(name)
            if known is not None and living.epoch == known.member_epoch:
                owned = set(flat(living.active))
                assert owned <= {*flat(known.tasks.active), *flat(known.revoked.active)}

    def settle(self):
        """All members stay from now on; sessions of the others end."""
        if not self.members:
            self.members["last"] = StreamsMember(self.shell, "last", TOPOLOGY)
        if "side" not in self.shell.image.topics:
            self.shell.create("side", 2)
        for _ in range(60):
            for member in self.members.values():
                member.step()
            self.shell.advance(1_000)
            self.check()
        settle(*self.members.values())
        group = self.shell.streams_group()
        assert group.state == "Stable", group
        assert group.members.keys() == self.members.keys()
        wanted = {
            (name, partition)
            for name, each in group.configured.subtopologies.items()
            for partition in range(each.tasks)
        }
        owned = [task for member in self.members.values() for task in flat(member.active)]
        assert sorted(owned) == sorted(wanted), "every task is active once"


@pytest.mark.parametrize("seed", range(examples(40)))
def test_random_lives(seed):
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
    life.settle()


@pytest.mark.parametrize("seed", range(examples(10)))
def test_a_restart_changes_nothing(seed):
    life = Life(1_000 + seed)
    for _ in range(STEPS // 2):
        life.step()
    before = life.shell.shard.state.groups.get("g")
    life.shell.restart()
    after = life.shell.shard.state.groups.get("g")
    assert (before is None) == (after is None)
    if before is not None and after is not None:
        assert after.members == before.members
        assert after.target == before.target
        assert after.facts() == before.facts()
        assert after.topology == before.topology
        assert after.assignment_epoch == before.assignment_epoch
        assert all(
            after.active_process(*task) == member.process_id
            for member in before.members.values()
            for task in flat(member.tasks.active)
        )
