"""The state of share partitions as raw requests, which only brokers send: share coordinators must agree."""

from typing import Any

from bowstring.protocol.errors import Errors
from bowstring.protocol.ids import format_uuid
from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.talk import Talk

UNKNOWN_TOPIC = bytes(15) + b"\7"
PASSING = {Errors.NOT_COORDINATOR.code, Errors.COORDINATOR_LOAD_IN_PROGRESS.code}
AVAILABLE, ACKNOWLEDGED, ARCHIVED = 0, 2, 4


def batch(first: int, last: int, state: int = ACKNOWLEDGED, count: int = 1) -> dict[str, int]:
    return {"first_offset": first, "last_offset": last, "delivery_state": state, "delivery_count": count}


class Group:
    """The share partitions of one group."""

    def __init__(self, talk: Talk, partitions: int = 2) -> None:
        self.talk = talk
        self.id = talk.name("group")
        self.topic_id = talk.topic_ids[talk.topic("t", partitions)]
        for partition in range(partitions):
            self.find(partition)
            talk.until(
                lambda answer: answer.results[0].partitions[0].error_code not in PASSING,
                "ReadShareGroupStateSummary",
                0,
                group_id=self.id,
                topics=[
                    {
                        "topic_id": self.topic_id,
                        "partitions": [{"partition": partition, "leader_epoch": -1}],
                    }
                ],
            )

    def find(self, partition: int) -> None:
        self.talk.until(
            lambda answer: answer.coordinators[0].error_code == 0,
            "FindCoordinator",
            6,
            key_type=2,
            coordinator_keys=[f"{self.id}:{format_uuid(self.topic_id)}:{partition}"],
        )

    def ask(self, api: str, version: int = 0, *, note: str = "", topic: Any = None, **partition: Any) -> Any:
        partition = {"partition": 0} | partition
        topics = [{"topic_id": topic or self.topic_id, "partitions": [partition]}]
        return self.talk.ask(api, version, note=note, group_id=self.id, topics=topics)

    def initialize(self, note: str = "", **more: Any) -> None:
        fields = {"state_epoch": 0, "start_offset": -1} | more
        self.ask("InitializeShareGroupState", note=note, **fields)

    def write(self, note: str, *batches: dict[str, int], version: int = 1, **more: Any) -> None:
        fields = {
            "state_epoch": 0,
            "leader_epoch": 0,
            "start_offset": -1,
            "delivery_complete_count": 0,
        } | more
        self.ask("WriteShareGroupState", version, note=note, state_batches=list(batches), **fields)

    def read(self, note: str = "", leader_epoch: int = 0, **more: Any) -> None:
        self.ask("ReadShareGroupState", note=note, leader_epoch=leader_epoch, **more)

    def summary(self, note: str = "", version: int = 1, **more: Any) -> None:
        fields = {"leader_epoch": -1} | more
        self.ask("ReadShareGroupStateSummary", version, note=note, **fields)

    def delete(self, note: str = "", **more: Any) -> None:
        self.ask("DeleteShareGroupState", note=note, **more)


@conversation()
def test_life_of_a_share_partition(talk: Talk) -> None:
    group = Group(talk)
    group.summary("before there is a state")
    group.read("of nothing")
    group.write("to nothing", batch(0, 1))
    group.initialize()
    group.summary("not yet read")
    group.read()
    group.write("the first", batch(0, 9), start_offset=0, delivery_complete_count=10)
    group.write("overlaps", batch(5, 14, ARCHIVED, 2), batch(20, 24, AVAILABLE, 1))
    group.read()
    group.write("the third", batch(10, 19), start_offset=5)
    group.summary()
    group.read()
    group.delete()
    group.summary("of what is deleted")
    group.read("of what is deleted")
    group.delete("again")


@conversation()
def test_epochs(talk: Talk) -> None:
    group = Group(talk)
    group.initialize("with an epoch", state_epoch=3, start_offset=7)
    group.summary()
    group.initialize("with an older epoch", state_epoch=2)
    group.read("with a newer leader", leader_epoch=5)
    group.read("with an older leader", leader_epoch=4)
    group.summary("with an older leader", leader_epoch=4)
    group.write("of an older leader", batch(7, 8), state_epoch=3, leader_epoch=4)
    group.write("of an older state", batch(7, 8), state_epoch=2, leader_epoch=5)
    group.write("of a newer leader", batch(7, 8), state_epoch=3, leader_epoch=6)
    group.summary()
    group.write("of the leader that has read", batch(9, 9), state_epoch=3, leader_epoch=5)
    group.read("", leader_epoch=5)
    group.initialize("again", state_epoch=4, start_offset=2)
    group.read("", leader_epoch=5)


@conversation()
def test_merging(talk: Talk) -> None:
    group = Group(talk)
    group.initialize(start_offset=0)
    group.write("neighbours", batch(0, 4), batch(5, 9), batch(10, 14, ARCHIVED))
    group.read()
    group.write("in the middle", batch(2, 3, AVAILABLE, 2))
    group.read()
    group.write("weaker", batch(0, 20, AVAILABLE, 1))
    group.read()
    group.write("across the start", batch(0, 30, ACKNOWLEDGED, 3), start_offset=8)
    group.read()
    group.write("only the start", start_offset=31)
    group.read()
    group.write("nothing")
    group.read()
    group.write("out of order", batch(50, 59), batch(40, 44), batch(45, 49))
    group.read()


@conversation()
def test_refusals(talk: Talk) -> None:
    group = Group(talk)
    for partition in (-1, 2):
        group.initialize(partition=partition)
        group.read(partition=partition)
        group.write("", partition=partition)
        group.summary(partition=partition)
        group.delete(partition=partition)
    group.initialize("of an unknown topic", topic=UNKNOWN_TOPIC)
    group.summary("of an unknown topic", topic=UNKNOWN_TOPIC)
    group.delete("of an unknown topic", topic=UNKNOWN_TOPIC)


SHAPES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("no group", {"group_id": "", "topics": [{"topic_id": UNKNOWN_TOPIC, "partitions": [{"partition": 0}]}]}),
    ("no topics", {"group_id": "g", "topics": []}),
    ("no partitions", {"group_id": "g", "topics": [{"topic_id": UNKNOWN_TOPIC, "partitions": []}]}),
)


@conversation()
def test_empty_requests(talk: Talk) -> None:
    for api in ("InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState"):
        for note, fields in SHAPES:
            talk.ask(api, 0, note=note, **fields)
    for api in ("DeleteShareGroupState", "ReadShareGroupStateSummary"):
        for note, fields in SHAPES:
            talk.ask(api, 0, note=note, **fields)


@conversation(versions("WriteShareGroupState"))
def test_versions(talk: Talk) -> None:
    group = Group(talk)
    group.initialize(start_offset=0)
    group.write("", batch(0, 3), version=talk.version, delivery_complete_count=4)
    group.summary(version=talk.version)
    group.summary(version=1)


@conversation(versions("FindCoordinator", 5))
def test_keys_of_share_partitions(talk: Talk) -> None:
    talk.topic("t")
    for key in ("", "g", "g:t:0", f"g:{format_uuid(UNKNOWN_TOPIC)}:x", f":{format_uuid(UNKNOWN_TOPIC)}:0"):
        talk.ask("FindCoordinator", talk.version, note=key, key_type=2, coordinator_keys=[key])
