"""Membership of classic groups: joining, syncing, heartbeats, leaving, with one member, two and static ones."""

from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.membership import (
    NOBODY,
    begin_join,
    describe,
    enter,
    heartbeat,
    join,
    leave,
    protocols,
    stable,
    subscription,
    sync,
    until_told_of,
)
from tests.conformance.differential.settings import SHORTEST_SESSION_MS
from tests.conformance.differential.talk import Talk


@conversation(versions("FindCoordinator"))
def test_find_coordinator(talk: Talk) -> None:
    for kind in (0, 2, 3, -1):
        for key in (talk.name("g"), ""):
            talk.ask(
                "FindCoordinator",
                talk.version,
                note=f"type {kind} key {key!r}",
                key=key,
                key_type=kind,
                coordinator_keys=[key],
            )
    if talk.version >= 4:
        talk.ask("FindCoordinator", talk.version, note="several", coordinator_keys=["a", "b", "a"])
        talk.ask("FindCoordinator", talk.version, note="none", coordinator_keys=[])


@conversation(versions("JoinGroup"))
def test_join_alone(talk: Talk) -> None:
    group = talk.name("g")
    answer = enter(talk, "first", group).answer()
    mine, generation = answer.member_id, answer.generation_id
    until_told_of(talk, group)
    describe(talk, "not synced", group)
    sync(talk, "leader", group, mine, generation, {mine: b"all"}).answer()
    describe(talk, "synced", group)
    join(talk, "again", group, mine)
    sync(talk, "again", group, mine, generation + 1, {mine: b"more"}).answer()
    join(talk, "other metadata", group, mine, protocols=protocols("range", metadata=subscription(b"new")))
    heartbeat(talk, "not synced", group, mine, generation + 2)
    heartbeat(talk, "old generation", group, mine, generation + 1)
    describe(talk, "not synced again", group)
    leave(talk, "leaves", group, mine)
    describe(talk, "empty", group)
    heartbeat(talk, "has left", group, mine, generation + 2)
    answer = enter(talk, "another", group).answer()
    leave(talk, "leaves too", group, answer.member_id)


@conversation(versions("JoinGroup"))
def test_join_with_bad_arguments(talk: Talk) -> None:
    group = talk.name("g")
    join(talk, "unknown member, no group", group, NOBODY)
    for bad in ("", " "):
        answer = join(talk, f"group id {bad!r}", bad)
        leave(talk, f"group id {bad!r}", bad, answer.member_id)
    for timeout_ms in (0, -1, 100, SHORTEST_SESSION_MS - 1, 1_800_001, 2_147_483_647):
        join(talk, f"session timeout {timeout_ms}", group, session_timeout_ms=timeout_ms)
    join(talk, "no protocols", group, protocols=[])
    join(talk, "no protocol type", group, protocol_type="")
    mine, _ = stable(talk, group)
    join(talk, "unknown member", group, NOBODY)
    join(talk, "other protocol type", group, protocol_type="connect")
    join(talk, "other protocol", group, protocols=protocols("sticky"))
    join(talk, "no protocols, not empty", group, protocols=[])
    join(talk, "no protocol type, not empty", group, protocol_type="")
    join(talk, "member without protocols", group, mine, protocols=[])
    join(talk, "member with other type", group, mine, protocol_type="connect")
    heartbeat(talk, "still there", group, mine, 1)
    leave(talk, "leaves", group, mine)
    for kind in ("connect", "x"):
        answer = enter(talk, kind, group, protocol_type=kind, protocols=protocols("a", "b")).answer()
        describe(talk, kind, group)
        leave(talk, kind, group, answer.member_id)


@conversation(versions("JoinGroup"))
def test_join_with_odd_protocols(talk: Talk) -> None:
    """Without one protocol twice: Kafka trips over that and never answers."""
    for note, names in (("empty name", ("",)), ("many", tuple("abcdefg"))):
        group = talk.name(note.replace(" ", "-"))
        answer = enter(talk, note, group, protocols=protocols(*names, metadata=b"")).answer()
        leave(talk, note, group, answer.member_id)


@conversation(versions("JoinGroup"))
def test_two_members(talk: Talk) -> None:
    group = talk.name("g")
    kinds = {"a": protocols("x", "y", metadata=b"a"), "b": protocols("z", "y", metadata=b"b")}
    one, _ = stable(talk, group, version=talk.version, on="a", protocols=kinds["a"], protocol_type="t")
    pending = enter(talk, "second", group, on="b", protocols=kinds["b"], protocol_type="t")
    talk.until(
        lambda answer: answer.error_code == 27, "Heartbeat", 4, group_id=group, generation_id=1, member_id=one
    )
    describe(talk, "rebalancing", group)
    heartbeat(talk, "rebalancing", group, one, 1)
    sync(talk, "rebalancing", group, one, 1, {}, protocol_type="t", protocol_name="x").answer()
    join(talk, "inconsistent third", group, protocols=protocols("z"), protocol_type="t")
    first = begin_join(talk, "first again", group, one, on="a", protocols=kinds["a"], protocol_type="t")
    first.answer()
    two = pending.answer().member_id
    how = {"protocol_type": "t", "protocol_name": "y"}
    waiting = sync(talk, "follower", group, two, 2, {}, on="b", **how)
    describe(talk, "completing", group)
    sync(talk, "leader", group, one, 2, {one: b"1", two: b"2"}, on="a", **how).answer()
    waiting.answer()
    sync(talk, "follower again", group, two, 2, {}, on="b", **how).answer()
    sync(talk, "leader with others", group, one, 2, {one: b"3"}, on="a", **how).answer()
    describe(talk, "stable", group)
    join(talk, "follower joins the same again", group, two, on="b", protocols=kinds["b"], protocol_type="t")
    leave(talk, "follower leaves", group, two)
    heartbeat(talk, "leader hears of it", group, one, 2)
    join(talk, "leader alone", group, one, on="a", protocols=kinds["a"], protocol_type="t")
    leave(talk, "leader leaves", group, one)


@conversation(versions("JoinGroup"))
def test_leader_leaves(talk: Talk) -> None:
    group = talk.name("g")
    one, _ = stable(talk, group, version=talk.version, on="a")
    pending = enter(talk, "second", group, on="b")
    talk.until(
        lambda answer: answer.error_code == 27, "Heartbeat", 4, group_id=group, generation_id=1, member_id=one
    )
    leave(talk, "leader leaves instead of joining", group, one)
    two = pending.answer().member_id
    sync(talk, "the other leads", group, two, 2, {two: b"all"}, on="b").answer()
    leave(talk, "leaves", group, two)


@conversation(versions("JoinGroup", 5))
def test_static_members(talk: Talk) -> None:
    group = talk.name("g")
    mine, generation = stable(talk, group, version=talk.version, group_instance_id="i1")
    describe(talk, "one", group)
    join(talk, "wrong member id", group, NOBODY, group_instance_id="i1")
    join(talk, "unknown instance with an id", group, NOBODY, group_instance_id="i2")
    heartbeat(talk, "right", group, mine, generation, group_instance_id="i1")
    heartbeat(talk, "fenced", group, NOBODY, generation, group_instance_id="i1")
    heartbeat(talk, "unknown instance", group, mine, generation, group_instance_id="i2")
    answer = join(talk, "restarted", group, group_instance_id="i1")
    new = answer.member_id
    describe(talk, "restarted", group)
    heartbeat(talk, "old id", group, mine, generation, group_instance_id="i1")
    heartbeat(talk, "old id without instance", group, mine, generation)
    heartbeat(talk, "new id", group, new, answer.generation_id, group_instance_id="i1")
    sync(talk, "old id", group, mine, generation, {}, group_instance_id="i1").answer()
    sync(talk, "new id", group, new, answer.generation_id, {}, group_instance_id="i1").answer()
    changed = protocols("range", metadata=subscription(b"changed"))
    answer = join(talk, "restarted with other metadata", group, group_instance_id="i1", protocols=changed)
    new = answer.member_id
    sync(
        talk, "other metadata", group, new, answer.generation_id, {new: b"x"}, group_instance_id="i1"
    ).answer()
    join(talk, "itself again", group, new, group_instance_id="i1", protocols=changed)
    leave(talk, "old id", group, {"member_id": mine, "group_instance_id": "i1"})
    leave(talk, "unknown instance", group, {"member_id": "", "group_instance_id": "i7"})
    leave(talk, "by instance", group, {"member_id": "", "group_instance_id": "i1"})
    describe(talk, "empty", group)


@conversation(versions("JoinGroup", 5))
def test_static_instance_ids(talk: Talk) -> None:
    for note, instance in (("empty", ""), ("odd", "a b/c"), ("dots", ".."), ("long", "x" * 250)):
        group = talk.name(note)
        answer = join(talk, note, group, group_instance_id=instance)
        if answer is not None and answer.error_code == 0:
            leave(talk, note, group, {"member_id": answer.member_id, "group_instance_id": instance})


@conversation(versions("SyncGroup"))
def test_sync(talk: Talk) -> None:
    group, version = talk.name("g"), {"version": talk.version}
    sync(talk, "no group", group, NOBODY, 1, {}, **version).answer()
    sync(talk, "no group id", "", NOBODY, 1, {}, **version).answer()
    answer = enter(talk, "join", group, version=9).answer()
    mine = answer.member_id
    sync(talk, "unknown member", group, NOBODY, 1, {}, **version).answer()
    sync(talk, "no member", group, "", 1, {}, **version).answer()
    for generation in (0, 2, -1):
        sync(talk, f"generation {generation}", group, mine, generation, {mine: b"x"}, **version).answer()
    sync(talk, "other type", group, mine, 1, {}, protocol_type="connect", **version).answer()
    sync(talk, "other protocol", group, mine, 1, {}, protocol_name="sticky", **version).answer()
    sync(
        talk, "null type and protocol", group, mine, 1, {}, protocol_type=None, protocol_name=None, **version
    ).answer()
    sync(talk, "after none was assigned", group, mine, 1, {mine: b"y"}, **version).answer()
    join(talk, "again", group, mine, version=9)
    sync(talk, "for a stranger too", group, mine, 2, {mine: b"z", NOBODY: b"n"}, **version).answer()
    sync(talk, "once more", group, mine, 2, {}, **version).answer()
    sync(talk, "by a stranger's instance", group, mine, 2, {}, group_instance_id="i", **version).answer()
    leave(talk, "leaves", group, mine)
    sync(talk, "empty group", group, mine, 2, {}, **version).answer()


@conversation(versions("Heartbeat"))
def test_heartbeat(talk: Talk) -> None:
    group, version = talk.name("g"), {"version": talk.version}
    heartbeat(talk, "no group", group, NOBODY, 1, **version)
    heartbeat(talk, "no group id", "", NOBODY, 1, **version)
    mine, generation = stable(talk, group)
    heartbeat(talk, "right", group, mine, generation, **version)
    for wrong in (0, 2, -1):
        heartbeat(talk, f"generation {wrong}", group, mine, wrong, **version)
    heartbeat(talk, "unknown member", group, NOBODY, generation, **version)
    heartbeat(talk, "no member", group, "", generation, **version)
    leave(talk, "leaves", group, mine)
    heartbeat(talk, "empty group", group, mine, generation, **version)


@conversation(versions("LeaveGroup"))
def test_leave(talk: Talk) -> None:
    group, version = talk.name("g"), {"version": talk.version}
    leave(talk, "no group", group, NOBODY, **version)
    leave(talk, "no group id", "", NOBODY, **version)
    mine, _ = stable(talk, group)
    leave(talk, "unknown", group, NOBODY, **version)
    leave(talk, "no member", group, "", **version)
    leave(talk, "right", group, mine, **version)
    leave(talk, "again", group, mine, **version)
    if talk.version < 3:
        return
    leave(talk, "nobody", group, **version)
    mine, _ = stable(talk, group)
    rows = [{"member_id": NOBODY}, {"member_id": mine, "reason": "why not"}, {"member_id": mine}]
    leave(talk, "unknown, known and again", group, *rows, **version)
    mine, _ = stable(talk, group, group_instance_id="i")
    leave(talk, "static by a stranger", group, {"member_id": NOBODY, "group_instance_id": "i"}, **version)
    leave(talk, "other instance", group, {"member_id": mine, "group_instance_id": "j"}, **version)
    leave(talk, "by member id alone", group, {"member_id": mine}, **version)
    mine, _ = stable(talk, group, group_instance_id="i")
    leave(talk, "by instance alone", group, {"member_id": "", "group_instance_id": "i"}, **version)


@conversation(versions("LeaveGroup", 4))
def test_leave_before_joining(talk: Talk) -> None:
    """A member that has its id, but has not joined with it."""
    group = talk.name("g")
    mine = join(talk, "without id", group, version=9).member_id
    until_told_of(talk, group)
    describe(talk, "pending", group)
    heartbeat(talk, "pending", group, mine, 0)
    sync(talk, "pending", group, mine, 0, {}).answer()
    leave(talk, "pending", group, mine, version=talk.version)
    join(talk, "after leaving", group, mine, version=9)
