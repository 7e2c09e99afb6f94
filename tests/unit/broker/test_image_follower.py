"""Changes of the cluster are carried out while the image goes on changing."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring.engine.broker.image_follower import ImageFollower, _Change

KEY = (b"t" * 16, 0)
BROKER = 1


class Replication:
    """Gives roles; the image changes meanwhile."""

    def __init__(self, partition, *, has_role):
        self.partition = partition
        self.manager = SimpleNamespace(
            broker_id=BROKER, has=lambda key: has_role, keys_of=lambda topic_id: []
        )
        self.dropped = []
        self.failure = None

    async def apply(self, image, keys, *, brokers_changed=False):
        self.partition.replicas = (2, 3)
        if self.failure is not None:
            raise self.failure

    def drop(self, topic, index):
        self.dropped.append((topic, index))


async def _done(*_):
    return None


def following(replication, partition):
    topic = SimpleNamespace(id=KEY[0], name="t", partitions=[partition])
    image = SimpleNamespace(topics_by_id={KEY[0]: topic}, topics={"t": topic})
    logs = SimpleNamespace(
        open_new=_done, sync_removed=_done, get=lambda topic, index: object(), unopened=lambda topic: []
    )
    directories = SimpleNamespace(note=lambda topic: None, lose=list)
    return ImageFollower(
        SimpleNamespace(image=image), SimpleNamespace(configure=_done), logs, replication, directories
    )


@pytest.mark.parametrize(("has_role", "dropped"), [(True, []), (False, [("t", 0)])])
def test_a_partition_with_a_role_is_removed_by_the_change_that_removes_it(has_role, dropped):
    """Dropped before, its role could not be ended any more."""
    partition = SimpleNamespace(replicas=(BROKER, 2))
    replication = Replication(partition, has_role=has_role)
    follower = following(replication, partition)
    asyncio.run(follower._carry_out(_Change({KEY: None}, set(), [], brokers=False)))
    assert replication.dropped == dropped


def test_coordinators_see_changed_roles_although_a_partition_fails():
    partition = SimpleNamespace(replicas=(BROKER, 2))
    replication = Replication(partition, has_role=False)
    replication.failure = OSError("the disk")
    follower = following(replication, partition)
    seen = []
    follower.when_roles_changed = lambda topic, index: seen.append((topic.name, index))
    with pytest.raises(OSError, match="the disk"):
        asyncio.run(follower._carry_out(_Change({KEY: None}, set(), [], brokers=False)))
    assert seen == [("t", 0)] and not replication.dropped
