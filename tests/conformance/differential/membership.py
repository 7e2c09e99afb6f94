"""Building blocks of the conversations with the group coordinator."""

import struct
from typing import Any

from tests.conformance.differential.talk import Pending, Talk
from tests.support.wire import string

MEMBER_ID_REQUIRED = 79
NOBODY = "nobody-00000000-0000-0000-0000-000000000000"
JOIN, SYNC, HEARTBEAT, LEAVE = "JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"


def subscription(tag: bytes, *topics: str) -> bytes:
    """Returns a ConsumerProtocolSubscription, version 0, which Kafka reads if the protocol type is "consumer"."""
    names = b"".join(string(topic) for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", len(tag)) + tag


def assignment(topic: str, *partitions: int) -> bytes:
    """Returns a ConsumerProtocolAssignment, version 0."""
    indexes = b"".join(struct.pack(">i", index) for index in partitions)
    return (
        struct.pack(">hi", 0, 1) + string(topic) + struct.pack(">i", len(partitions)) + indexes + b"\xff" * 4
    )


def protocols(*names: str, metadata: bytes = subscription(b"first")) -> list[dict[str, Any]]:
    """Returns JoinGroup's protocols, each with its metadata."""
    return [{"name": name, "metadata": metadata} for name in names]


def begin_join(
    talk: Talk, note: str, group: str, member: str = "", *, on: str = "", version: int = -1, **more: Any
) -> Pending:
    """Sends a JoinGroup on the member's own connection."""
    fields: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": protocols("range"),
    } | more
    return talk.send(JOIN, talk.version if version < 0 else version, on=on, note=note, **fields)


def join(talk: Talk, note: str, group: str, member: str = "", **more: Any) -> Any:
    """Sends a JoinGroup and returns the answer."""
    return begin_join(talk, note, group, member, **more).answer()


def enter(talk: Talk, note: str, group: str, **more: Any) -> Pending:
    """Sends JoinGroup of a new member, and again with the assigned id if the version requires that."""
    version = more.get("version", talk.version)
    if version < 4 or more.get("group_instance_id") is not None:
        return begin_join(talk, note, group, **more)
    answer = join(talk, f"{note}, without id", group, **more)
    assert answer.error_code == MEMBER_ID_REQUIRED, answer
    return begin_join(talk, note, group, answer.member_id, **more)


def sync(
    talk: Talk, note: str, group: str, member: str, generation: int, given: dict[str, bytes], **more: Any
) -> Pending:
    """Sends a SyncGroup with assignments by member id."""
    version = more.pop("version", 5)
    assignments = [{"member_id": each, "assignment": data} for each, data in given.items()]
    fields: dict[str, Any] = {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": assignments,
    } | more
    return talk.send(SYNC, version, note=note, **fields)


def stable(talk: Talk, group: str, **more: Any) -> tuple[str, int]:
    """Creates a stable group of one member; returns the member's id and the generation."""
    entering = {"version": 9} | more
    answer = enter(talk, "alone", group, **entering).answer()
    assert answer.error_code == 0, answer
    on = more.get("on", "")
    named = {
        "group_instance_id": more.get("group_instance_id"),
        "protocol_type": more.get("protocol_type", "consumer"),
        "protocol_name": more.get("protocols", protocols("range"))[0]["name"],
        "on": on,
    }
    mine = answer.member_id
    data = sync(talk, "alone", group, mine, answer.generation_id, {mine: b"all"}, **named)
    assert data.answer().error_code == 0
    return mine, int(answer.generation_id)


def until_told_of(talk: Talk, *groups: str) -> None:
    """Waits until ListGroups has these groups.

    Kafka answers the first JoinGroup of a group before the group's record is committed, and ListGroups and
    DescribeGroups list committed groups only: an immediate request may not find the group yet.
    """
    talk.until(lambda answer: {each.group_id for each in answer.groups}.issuperset(groups), "ListGroups", 0)


def heartbeat(talk: Talk, note: str, group: str, member: str, generation: int, **more: Any) -> int:
    """Sends a Heartbeat; returns its error code."""
    version = more.pop("version", 4)
    fields: dict[str, Any] = {"group_id": group, "generation_id": generation, "member_id": member} | more
    return int(talk.ask(HEARTBEAT, version, note=note, **fields).error_code)


def leave(talk: Talk, note: str, group: str, *members: dict[str, Any] | str, **more: Any) -> None:
    """Sends LeaveGroup; before version 3 one member at a time."""
    version = more.pop("version", 5)
    rows = [{"member_id": each} if isinstance(each, str) else each for each in members]
    first = rows[0]["member_id"] if rows else ""
    talk.ask(LEAVE, version, note=note, group_id=group, member_id=first, members=rows, **more)


def describe(talk: Talk, note: str, *groups: str, **more: Any) -> None:
    """Sends DescribeGroups; sorts the groups, because each shard of the coordinator answers at its own time."""
    talk.ask("DescribeGroups", more.pop("version", 6), note=note, groups=list(groups), **more)
    talk.transcript[-1][1]["groups"].sort(key=lambda group: str(group["group_id"]))
