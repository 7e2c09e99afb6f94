"""Any order of requests, timeouts, restarts and slow logs keeps the invariants (hypothesis)."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from bowstring.engine.coordinators.effects import Respond
from bowstring.engine.groups.classic.group import GroupState
from tests.support.group_harness import Shell, snapshot, subscription

GROUPS = st.sampled_from(["g", "h"])
INSTANCES = st.sampled_from([None, None, "i1", "i2"])
PROTOCOLS = st.sampled_from(
    [
        [("range", subscription("t"))],
        [("range", subscription("t", "u")), ("sticky", subscription("t"))],
        [("sticky", b"not a subscription"), ("range", subscription("u"))],
    ]
)


class Client:
    """A client's state: its ids, and the request it waits for."""

    def __init__(self, group, instance):
        self.group, self.instance = group, instance
        self.member_id = ""
        self.generation = -1
        self.protocol = None
        self.members = []
        self.token = None


class GroupMachine(RuleBasedStateMachine):
    clients = Bundle("clients")

    def __init__(self):
        super().__init__()
        self.shell = Shell()
        self.known = []
        self.generations = {}
        self.unanswered = set()

    def settle(self, client):
        """Applies the answer to a parked JoinGroup."""
        if client.token is None or client.token not in self.shell.answers:
            return
        answer = self.shell.answers[client.token]
        client.token = None
        if hasattr(answer, "generation_id"):
            client.member_id = answer.member_id
            client.generation = answer.generation_id
            client.protocol = answer.protocol_name
            client.members = [member.member_id for member in answer.members]

    # ---- what clients do

    @rule(
        target=clients, group=GROUPS, instance=INSTANCES, protocols=PROTOCOLS, version=st.sampled_from([3, 9])
    )
    def start(self, group, instance, protocols, version):
        client = Client(group, instance)
        self.known.append(client)
        self.join(client, protocols, 9 if instance else version)
        return client

    @rule(client=clients, protocols=PROTOCOLS, version=st.sampled_from([4, 9]))
    def join(self, client, protocols, version):
        self.settle(client)
        client.token = self.shell.join(
            client.member_id,
            group=client.group,
            instance=client.instance,
            protocols=protocols,
            version=version,
            session_ms=6_000 + 1_000 * len(client.member_id),
            rebalance_ms=20_000,
        )
        self.unanswered.add(client.token)
        self.settle(client)

    @rule(client=clients)
    def sync(self, client):
        self.settle(client)
        parts = {member_id: b"of " + member_id.encode() for member_id in client.members}
        client.token = self.shell.sync(
            client.member_id,
            client.generation,
            parts,
            group=client.group,
            instance=client.instance,
            protocol=client.protocol,
        )
        self.unanswered.add(client.token)

    @rule(client=clients)
    def heartbeat(self, client):
        self.settle(client)
        self.shell.release()
        self.shell.heartbeat(
            client.member_id, client.generation, group=client.group, instance=client.instance
        )

    @rule(client=consumes(clients))
    def leave(self, client):
        self.settle(client)
        self.known.remove(client)
        self.shell.release()
        self.shell.leave((client.member_id, client.instance), group=client.group)

    @rule(client=clients, topic=st.sampled_from(["t", "u", "v"]), offset=st.integers(0, 100))
    def commit(self, client, topic, offset):
        self.settle(client)
        self.unanswered.add(
            self.shell.commit(
                {(topic, 0): offset, (topic, 1): offset},
                member_id=client.member_id,
                generation=client.generation,
                group=client.group,
                instance=client.instance,
            )
        )

    @rule(group=GROUPS)
    def everyone_behaves(self, group):
        """All clients join, wait and sync, as they would undisturbed: how groups become stable."""
        self.shell.release()
        members = [client for client in self.known if client.group == group]
        for client in members * 2:
            if client.token is None or client.token in self.shell.answers:
                self.join(client, [("range", subscription("t"))], 9)
        for _ in range(50):
            if all(client.token in self.shell.answers for client in members):
                break
            self.shell.advance(500)
        for client in members:
            self.settle(client)
            if client.token is None and client.generation >= 0:
                self.sync(client)

    # ---- actions of admins

    @rule(group=GROUPS)
    def delete_group(self, group):
        self.shell.release()
        (code,) = self.shell.delete_groups(group)
        if code == 0:
            self.generations.pop(group, None)

    @rule(group=GROUPS, topic=st.sampled_from(["t", "v"]))
    def delete_offsets(self, group, topic):
        self.shell.release()
        self.shell.delete_offsets({topic: [0]}, group=group)

    # ---- time and failures

    @rule(delay_ms=st.sampled_from([0, 1, 1_000, 3_000, 6_000, 20_000, 8 * 24 * 3600 * 1000]))
    def advance(self, delay_ms):
        self.shell.advance(delay_ms)

    @rule()
    def expire(self):
        before = set(self.shell.shard.state.groups)
        self.shell.expire()
        for group in before - set(self.shell.shard.state.groups):
            self.generations.pop(group, None)

    @rule()
    def slow_log(self):
        self.shell.hold = True

    @rule()
    def log_catches_up(self):
        self.shell.release()

    @rule()
    def restart(self):
        self.shell.release()
        self.shell.restart()
        self.generations.clear()
        self.unanswered.clear()
        for client in self.known:
            client.token = None

    # ---- invariants

    @invariant()
    def groups_are_consistent(self):
        for group in self.shell.shard.state.groups.values():
            members = group.members
            assert (group.leader_id in members) if members else group.leader_id is None
            assert group.awaiting_join == sum(m.join_token is not None for m in members.values())
            assert group.static_members == {
                m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id
            }
            assert all(member.member_id == member_id for member_id, member in members.items())
            counts = Counter(name for m in members.values() for name, _ in m.protocols)
            assert +group.protocol_counts == counts
            assert group.pending_sync_members <= set(members)
            assert not group.pending_join_members & set(members)
            if group.state is GroupState.EMPTY:
                assert not members
            if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
                assert members
                assert all(count == len(members) for count in [counts[group.protocol_name]])

    @invariant()
    def generations_never_go_back(self):
        for group_id, group in self.shell.shard.state.groups.items():
            assert group.generation >= self.generations.get(group_id, 0)
            self.generations[group_id] = group.generation

    @invariant()
    def members_of_stable_groups_are_assigned(self):
        """Everyone in the leader's list; a static member that came back keeps its old part."""
        for group in self.shell.shard.state.groups.values():
            if group.state is GroupState.STABLE:
                parts = [member.assignment for member in group.members.values()]
                assert all(part.startswith(b"of ") for part in parts)
                assert len(set(parts)) == len(parts)

    @invariant()
    def every_member_is_watched(self):
        """A silent member is detected by a session timer or by a parked request's timeout."""
        for group in self.shell.shard.state.groups.values():
            for member in group.members.values():
                watched = ("session", group.group_id, member.member_id) in self.shell.timers
                assert watched or member.heartbeat_satisfied, (group, member)
            if group.state is GroupState.PREPARING_REBALANCE:
                assert ("join", group.group_id) in self.shell.timers

    @invariant()
    def no_request_is_lost(self):
        self.unanswered -= set(self.shell.answers)
        parked = {item.token for item in self.shell.held if isinstance(item, Respond)}
        for group in self.shell.shard.state.groups.values():
            for member in group.members.values():
                parked |= {member.join_token, member.sync_token}
        if not self.shell.held:
            assert self.unanswered <= parked

    @invariant()
    def replay_gives_the_live_state(self):
        if self.shell.held:
            return
        live = snapshot(self.shell.shard)
        copy = Shell()
        copy.log = self.shell.log
        copy.restart()
        again = snapshot(copy.shard)
        assert again["offsets"] == live["offsets"]
        offset_groups = {key[0] for key in live["offsets"]}
        for group_id, group in live["groups"].items():
            if group["state"] in ("Stable", "Empty"):
                simple = self.shell.group(group_id).is_simple
                if group_id not in again["groups"]:
                    assert simple and group_id not in offset_groups
                elif not (simple and group["generation"] == 0):
                    assert again["groups"][group_id] == group
        assert set(again["groups"]) <= set(live["groups"])


GroupMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=60)
TestGroupMachine = GroupMachine.TestCase
