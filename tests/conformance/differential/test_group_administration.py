"""ListGroups, DescribeGroups and DeleteGroups over groups in every state."""

from typing import Any

from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.membership import (
    describe,
    enter,
    heartbeat,
    join,
    leave,
    protocols,
    stable,
    subscription,
    until_told_of,
)
from tests.conformance.differential.talk import Talk


def committed(talk: Talk, group: str, topic: str) -> None:
    """A group that holds one offset, of a consumer that never joins."""
    rows = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    topics = [{"name": topic, "partitions": rows}]
    talk.quietly(
        "OffsetCommit", 9, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics
    )


def in_every_state(talk: Talk) -> dict[str, str]:
    """Names of groups by state; the members, by the names of their connections, stay."""
    names = {
        state: talk.name(state) for state in ("simple", "stable", "completing", "left", "connect", "pending")
    }
    committed(talk, names["simple"], talk.topic("t"))
    stable(talk, names["stable"])
    enter(talk, "not synced", names["completing"], version=9).answer()
    mine, _ = stable(talk, names["left"])
    leave(talk, "left", names["left"], mine)
    stable(talk, names["connect"], protocol_type="connect", protocols=protocols("default", metadata=b"c"))
    join(talk, "without id", names["pending"], version=9)
    until_told_of(talk, *names.values())
    return names


def list_groups(talk: Talk, note: str, **filters: Any) -> None:
    """ListGroups, of which only this conversation's groups are compared."""
    talk.ask("ListGroups", talk.version, note=note, **filters)
    found = talk.transcript[-1][1]
    found["groups"] = {name: each for name, each in found["groups"].items() if name.startswith(talk.prefix)}


@conversation(versions("ListGroups"))
def test_list_groups(talk: Talk) -> None:
    in_every_state(talk)
    list_groups(talk, "all")
    if talk.version >= 4:
        for states in (
            ["Stable"],
            ["Empty"],
            ["CompletingRebalance"],
            ["PreparingRebalance", "Stable"],
            ["Dead"],
            ["stable"],
            ["STABLE", "EMPTY"],
            ["completing_rebalance"],
            ["Assigning"],
            ["Unknown"],
            ["nonsense"],
            [""],
            ["Stable", "Stable"],
        ):
            list_groups(talk, f"states {states}", states_filter=states)
    if talk.version >= 5:
        for types in (
            ["classic"],
            ["Classic"],
            ["consumer"],
            ["consumer", "CLASSIC"],
            ["nonsense"],
            [""],
            ["unknown"],
        ):
            list_groups(talk, f"types {types}", types_filter=types)
        list_groups(talk, "both", types_filter=["classic"], states_filter=["Stable"])
        list_groups(talk, "neither", types_filter=["consumer"], states_filter=["Stable"])


@conversation(versions("DescribeGroups"))
def test_describe_groups(talk: Talk) -> None:
    version: dict[str, Any] = {"version": talk.version}
    names = in_every_state(talk)
    for state, name in names.items():
        describe(talk, state, name, **version)
    describe(talk, "all", *names.values(), **version)
    describe(talk, "unknown", talk.name("unknown"), **version)
    describe(talk, "unknown among others", names["stable"], talk.name("unknown"), names["left"], **version)
    describe(talk, "twice", names["stable"], names["stable"], **version)
    describe(talk, "none", **version)
    describe(talk, "no group id", "", **version)
    describe(talk, "blank group id", " ", **version)
    if talk.version >= 3:
        describe(talk, "operations", names["stable"], include_authorized_operations=True, **version)
        describe(
            talk, "operations of none", talk.name("unknown"), include_authorized_operations=True, **version
        )
    static = talk.name("static")
    mine, _ = stable(
        talk, static, group_instance_id="i1", protocols=protocols("range", metadata=subscription(b"s"))
    )
    describe(talk, "static", static, **version)
    leave(talk, "static", static, {"member_id": mine, "group_instance_id": "i1"})
    describe(talk, "static left", static, **version)


@conversation(versions("DeleteGroups"))
def test_delete_groups(talk: Talk) -> None:
    def ask(note: str, *groups: str) -> None:
        talk.ask("DeleteGroups", talk.version, note=note, groups_names=list(groups))

    names = in_every_state(talk)
    for state in ("stable", "completing", "connect", "pending", "left", "simple"):
        ask(state, names[state])
        describe(talk, state, names[state])
    ask("again", names["left"], names["simple"])
    ask("unknown", talk.name("unknown"))
    ask("none")
    ask("no group id", "")
    committed(talk, names["simple"], talk.name("t"))
    ask("mixed", names["stable"], names["simple"], talk.name("unknown"))
    committed(talk, names["simple"], talk.name("t"))
    ask("twice", names["simple"], names["simple"])
    topics = [{"name": talk.name("t"), "partition_indexes": [0]}]
    talk.ask("OffsetFetch", 7, note="afterwards", group_id=names["simple"], topics=topics)
    mine, generation = stable(talk, names["left"])
    heartbeat(talk, "made again", names["left"], mine, generation)
    leave(talk, "made again", names["left"], mine)
